"""What levels a classifier, across settings: the tables and figures of docs/tilt.md."""

import json
from collections.abc import Callable, Sequence
from math import nan
from statistics import fmean

from matplotlib.figure import Figure

from docs.filling.ledgers import OURS, PLAIN, ROOT, acc, finished, markdown, memory
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.paper import paper_table
from evenkeel.grids.paper_tables import finished_group
from evenkeel.report.svg import MUTED, PALETTE
from evenkeel.results.groups import ENOUGH, Estimate
from evenkeel.results.measures import MEASURES
from evenkeel.results.run_files import Results

VARIANTS = ("alone", "CBA", "Prior", "Prior, learned", "CBA with prior", "averaged weights", "Prior, averaged weights")


def _variant(run: Results) -> str:
    """Return what levels the classifier in a run: its adaptor and averaged weights."""
    config = run.started.config
    adaptor, averaged = config["adaptor"] or {}, "averaged weights" if config["learner"].get("average") else ""
    title = {"": "", "cba": "CBA", "prior": "Prior"}[adaptor.get("name", "")]
    if adaptor.get("tau") == "learned":
        title += ", learned"
    if adaptor.get("prior"):
        title += " with prior"
    return ", ".join(filter(None, (title, averaged))) or "alone"


def _cell(estimate: Estimate | None, form: str = ".1f") -> str:
    return "" if estimate is None else f"{estimate.text(form)} <sub>{estimate.n}</sub>"


def table(kind: str, ledger: str) -> str:
    """Return one of the tables of a ledger: variants, gains, streams or within."""
    if not (ROOT / ledger).is_dir():
        return "*Not run yet: the command above fills this table.*"
    tables = {"variants": _variants_table, "gains": _gains_table, "streams": _streams_table, "within": _within_table}
    return tables[kind](ledger)


def _variants_table(ledger: str) -> str:
    """Return ACC by variant (rows), method and memory (columns), with the number of seeds."""
    return _by_variant(ledger, lambda runs, _: _cell(acc(runs)), VARIANTS)


def _gains_table(ledger: str) -> str:
    """Return what each variant adds to the ACC of the method alone, paired by seed."""
    return _by_variant(ledger, lambda runs, alone: _cell(_added(runs, alone), "+.1f"), VARIANTS[1:])


def _by_variant(
    ledger: str, cell: Callable[[Sequence[Results], Sequence[Results]], str], variants: Sequence[str]
) -> str:
    """Return a table of variants (rows), methods and memories (columns); `cell` also gets those alone."""

    def column(run: Results) -> tuple[bool, int]:
        return run.started.config["method"]["name"] == "derpp", memory(run)

    runs = finished(ledger)
    columns = sorted(set(map(column, runs)))
    head = ["", *(f"{'DER++' if derpp else 'ER'}, memory {memory}" for derpp, memory in columns)]
    by = {
        (variant, each): [run for run in runs if _variant(run) == variant and column(run) == each]
        for variant in VARIANTS
        for each in columns
    }
    return markdown(head, [[name, *(cell(by[name, each], by["alone", each]) for each in columns)] for name in variants])


def _added(runs: Sequence[Results], base: Sequence[Results]) -> Estimate | None:
    """Return the difference in ACC, paired by seed."""
    ours, theirs = ({run.seed: MEASURES["acc"].of(run) or 0 for run in each} for each in (runs, base))
    return Estimate.of([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())])


def _streams_table(ledger: str) -> str:
    """Return ACC by stream (rows) and variant (columns), and what CBA adds to the prior, paired by seed."""
    runs = finished(ledger)
    variants = set(map(_variant, runs))
    shown = [name for name in ("alone", "CBA", "Prior", "CBA with prior") if name in variants]
    rows = []
    for stream in sorted({_stream(run) for run in runs}):
        by = {name: [run for run in runs if _stream(run) == stream and _variant(run) == name] for name in shown}
        added = _added(by["CBA with prior"], by["Prior"])
        rows.append([stream, *(_cell(acc(by[name])) for name in shown), _cell(added, "+.1f")])
    return markdown(["", *shown, "CBA adds to the prior"], rows)


def _stream(run: Results) -> str:
    scenario = run.started.config["scenario"]
    unclean = [f"{name} {scenario[name]:g}" for name in ("noise", "imbalance") if scenario.get(name)]
    return ", ".join(unclean) or str(scenario["name"])


def _within_table(ledger: str) -> str:
    """Return learning accuracy, plain and within tasks, of ER and DER++ at memory 500, without and with CBA."""
    measures = [MEASURES[name] for name in ("learning_accuracy", "learning_within")]
    rows = []
    for cell in paper_table("table1", data=["cifar10"], memory=[500], methods=["er", "derpp"], net="slim").cells:
        group = finished_group(cell, Ledger(ROOT / ledger))
        rows.append([cell.title, *(_cell(group.estimate(measure)) for measure in measures)])
    return markdown(["", *(measure.title for measure in measures)], rows)


def draw_residual(figure: Figure) -> None:
    values = json.loads((ROOT / "benchmarks" / "residual.json").read_text(encoding="utf-8"))
    axes = figure.subplots()
    axes.grid(axis="y")
    looks = (("asked", PLAIN, "what balance asks for"), ("learned", OURS, "what g has learned"))
    for name, colour, label in looks:
        by_place = zip(values["places"], zip(*values[name], strict=True), strict=True)
        known = [(x, fmean(column)) for x, column in by_place if None not in column]  # else it would jump
        for run in values[name]:
            axes.plot(values["places"], [nan if value is None else value for value in run], color=colour, alpha=0.25)
        axes.plot(*zip(*known, strict=True), color=colour, label=label)
    axes.set(xlabel="updates since the task began", ylabel="newest minus older", ylim=(0, None))
    axes.margins(x=0)
    axes.legend(loc="lower right")


def draw_shares(figure: Figure) -> None:
    runs = finished("results/prior-digits", method="er", memory=20)
    axes = figure.subplots()
    axes.grid(axis="y")
    looks = {"alone": PLAIN, "CBA": OURS, "Prior": PALETTE[2]}
    for place, (variant, colour) in enumerate(looks.items()):
        shares = [run.tested[-1].predicted for run in runs if _variant(run) == variant]
        tasks = range(1, 1 + len(shares[0]))
        heights = [fmean(column) for column in zip(*shares, strict=True)]
        where = [task + 0.27 * (place - 1) for task in tasks]
        axes.bar(where, heights, width=0.24, color=colour, label=f"ER {variant}" if not place else f"with {variant}")
    axes.axhline(100 / len(tasks), color=MUTED, linewidth=0.9)
    axes.set(xlabel="task, from the oldest to the newest", ylabel="share of predictions, %", xticks=list(tasks))
    axes.legend(loc="upper left")


def draw_ablation(figure: Figure) -> None:
    axes = figure.subplots()
    axes.grid(axis="x")
    runs = finished("results/prior-digits", memory=20)
    shown = [name for name in VARIANTS if sum(_variant(run) == name for run in runs) >= 2 * ENOUGH]
    for shift, (method, colour, title) in enumerate((("er", PLAIN, "ER"), ("derpp", OURS, "DER++"))):
        mine = [run for run in runs if run.started.config["method"]["name"] == method]
        estimates = [acc([run for run in mine if _variant(run) == name]) for name in shown]
        where = [-place + 0.12 - 0.24 * shift for place in range(len(shown))]
        means, halves = [each.mean for each in estimates if each], [each.half or 0 for each in estimates if each]
        axes.errorbar(means, where, xerr=halves, fmt="o", color=colour, markersize=4.5, elinewidth=1.2, label=title)
    axes.set(xlabel="accuracy at the end of the stream (ACC), %, with 95% intervals")
    axes.set_yticks([-place for place in range(len(shown))], shown)
    axes.margins(y=0.15)
    axes.legend(loc="lower left")
