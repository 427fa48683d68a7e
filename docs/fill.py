"""Fill README and docs from the ledgers under results/: `make docs`.

A place to fill is a comment with a command, such as <!-- $ evenkeel table results/digits -->, and ends at <!-- end -->.
The settings of the learner come from its signature, the measures from the docstrings of their formulas.
The figures in docs/images, and the tables of docs/tilt.md, which compare groups of runs across settings, are made here.
"""

import io
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from math import nan
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure

from evenkeel.cli import app
from evenkeel.config.schema import LearnerSettings
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.paper import paper_table
from evenkeel.grids.paper_claims import pairs
from evenkeel.grids.paper_tables import finished_group
from evenkeel.report.elements import Charts
from evenkeel.report.paper_figures import FIGURES as PAPER_FIGURES
from evenkeel.report.scene import Scene, series
from evenkeel.report.svg import GRID, INK, MUTED, PALETTE, draw
from evenkeel.results import metrics
from evenkeel.results.groups import ENOUGH, Estimate
from evenkeel.results.measures import MEASURES, NOTATION, Measure
from evenkeel.results.records import is_rar
from evenkeel.results.run_files import Results

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from benchmarks import service_figures  # noqa: E402 - only now is it on the path
from docs import fronts  # noqa: E402

PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("experiments", "keel", "measures", "reproduction", "service", "tilt")),
)
IMAGES = ROOT / "docs" / "images"
PLACE = re.compile(r"(<!-- \$ evenkeel (?P<command>.+?) -->\n).*?(?=<!-- end -->)", re.S)
LEARNER = re.compile(r"(<!-- the settings of the learner -->\n).*?(?=<!-- end -->)", re.S)
FORMULAS = re.compile(r"(<!-- the measures -->\n).*?(?=<!-- end -->)", re.S)
LEVELLING = re.compile(
    r"(<!-- (?P<table>variants|gains|streams|within) of (?P<ledger>\S+) -->\n).*?(?=<!-- end -->)", re.S
)
SERVICE = re.compile(r"(<!-- the service under load -->\n).*?(?=<!-- end -->)", re.S)
FRONT = re.compile(
    r"(<!-- the keel in (?P<ledger>\S+): (?P<data>\S+), memory (?P<memory>\d+) -->\n).*?(?=<!-- end -->)", re.S
)
PLAIN, OURS = PALETTE[1], PALETTE[0]
DARK = {INK: "#e6edf3", MUTED: "#9aa5b1", GRID: "#30363d", PLAIN: "#ff8f4d", OURS: "#58b4ff"}


def filled(text: str) -> str:
    """Return the text of a page with the output of the commands in it."""

    def fill(place: re.Match[str]) -> str:
        output = io.StringIO()
        with redirect_stdout(output):
            app(shlex.split(place["command"]), standalone_mode=False)
        return f"{place[1]}\n{output.getvalue().strip()}\n\n"

    os.chdir(ROOT)  # the paths of ledgers in the commands are relative to it
    text = LEARNER.sub(lambda place: f"{place[1]}\n{_settings_of_the_learner()}\n\n", PLACE.sub(fill, text))
    text = SERVICE.sub(lambda place: f"{place[1]}\n{service_figures.table()}\n\n", text)
    text = FRONT.sub(
        lambda place: f"{place[1]}\n{fronts.table(place['ledger'], place['data'], place['memory'])}\n\n", text
    )
    text = FORMULAS.sub(lambda place: f"{place[1]}\n{_measures()}\n\n", text)
    return LEVELLING.sub(lambda place: f"{place[1]}\n{_levelling(place['table'], place['ledger'])}\n\n", text)


def _settings_of_the_learner() -> str:
    """Return a table of what the signature of `Learner` and the config say about them."""
    rows = [
        f"| `{name}` | {'none' if field.default is None else field.default} | {field.description} |"
        for name, field in LearnerSettings.model_fields.items()
    ]
    return "\n".join(["| `[learner]` | default | |", "|---|---|---|", *rows])


def _measures() -> str:
    """Return the notation and, for each measure, its formula, who uses it and its name in commands."""
    return "\n\n".join([NOTATION, *(_measure(name, measure) for name, measure in MEASURES.items())])


def _measure(name: str, measure: Measure) -> str:
    formula, _, remark = measure.formula.partition("; ")
    about = f"{remark[0].upper()}{remark[1:]}." if remark else ""
    if not remark or all(each.formula != formula for each in MEASURES.values()):  # otherwise, another measure says it
        docstring = next(text for each in vars(metrics).values() if (text := each.__doc__ or "").startswith(formula))
        about = " ".join([*docstring.partition("\n")[2].split(), about])
    return f"## {measure.heading}\n\n```text\n{formula}\n```\n\n{about.strip()} In commands: `{name}`."


def image(name: str) -> dict[str, str]:
    """Return a figure as two files of SVG, for light and dark pages, by their names."""
    light = FIGURES[name]()
    dark = re.sub(r"#[0-9a-f]{6}\b", lambda colour: DARK.get(colour[0], colour[0]), light)
    return {f"{name}-light.svg": light, f"{name}-dark.svg": dark}


DEMO = {"ER": (PLAIN, "plain replay (ER)"), "ER + CBA": (OURS, "ER with CBA"), "keel": (PALETTE[2], "keel")}


def _accuracy_along_the_stream(figure: Figure) -> None:
    scene = Scene(fronts.runs_of("results/demo"))
    axes = figure.subplots()
    axes.grid(axis="y")
    for end in scene.boundaries[:-1]:
        axes.axvline(end, color=GRID, linewidth=0.9)
    for group in scene.groups:
        colour, label = DEMO[group.label]
        line = series(group.runs, lambda run: {each.step: each.mean for each in run.anytime})
        assert line is not None
        assert line.low is not None
        assert line.high is not None
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.16, linewidth=0)
        axes.plot(line.x, line.mean, color=colour)
        axes.annotate(label, (line.x[-1], line.mean[-1]), (6, 0), textcoords="offset points", color=colour, va="center")
    starts = [0, *scene.boundaries]
    for begin, end, task in zip(starts, starts[1:], scene.first.started.tasks, strict=False):
        digits = " and ".join(map(str, task["classes"]))
        axes.text((begin + end) / 2, 101.5, digits, ha="center", color=MUTED)
    axes.set(xlabel="batches of 10 images", ylabel="accuracy on the digits so far, %", ylim=(None, 101), xlim=(0, None))
    axes.margins(x=0)


# ---- docs/tilt.md ----

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


def _finished(ledger: str, **chosen: object) -> list[Results]:
    """Return the finished runs of a ledger with this method and capacity of the memory."""
    runs = fronts.runs_of(ledger)
    settings = [{"method": run.started.config["method"]["name"], "memory": _memory(run)} for run in runs]
    return [
        run
        for run, mine in zip(runs, settings, strict=True)
        if run.ended is not None and chosen.items() <= mine.items()
    ]


def _memory(run: Results) -> int:
    return int(run.started.config["memory"]["capacity"])


def _acc(runs: Sequence[Results]) -> Estimate | None:
    return Estimate.of([MEASURES["acc"].of(run) for run in runs])


def _cell(estimate: Estimate | None, form: str = ".1f") -> str:
    return "" if estimate is None else f"{estimate.text(form)} <sub>{estimate.n}</sub>"


def _levelling(table: str, ledger: str) -> str:
    if not (ROOT / ledger).is_dir():
        return "*Not run yet: the command above fills this table.*"
    tables = {"variants": _variants_table, "gains": _gains_table, "streams": _streams_table, "within": _within_table}
    return tables[table](ledger)


def _variants_table(ledger: str) -> str:
    """Return ACC by variant (rows), method and memory (columns), with the number of seeds."""
    return _by_variant(ledger, lambda runs, _: _cell(_acc(runs)), VARIANTS)


def _gains_table(ledger: str) -> str:
    """Return what each variant adds to the ACC of the method alone, paired by seed."""
    return _by_variant(ledger, lambda runs, alone: _cell(_added(runs, alone), "+.1f"), VARIANTS[1:])


def _by_variant(
    ledger: str, cell: Callable[[Sequence[Results], Sequence[Results]], str], variants: Sequence[str]
) -> str:
    """Return a table of variants (rows), methods and memories (columns); `cell` also gets those alone."""

    def column(run: Results) -> tuple[bool, int]:
        return run.started.config["method"]["name"] == "derpp", _memory(run)

    runs = _finished(ledger)
    columns = sorted(set(map(column, runs)))
    head = ["", *(f"{'DER++' if derpp else 'ER'}, memory {memory}" for derpp, memory in columns)]
    by = {
        (variant, each): [run for run in runs if _variant(run) == variant and column(run) == each]
        for variant in VARIANTS
        for each in columns
    }
    return fronts.markdown(
        head, [[name, *(cell(by[name, each], by["alone", each]) for each in columns)] for name in variants]
    )


def _added(runs: Sequence[Results], base: Sequence[Results]) -> Estimate | None:
    """Return the difference in ACC, paired by seed."""
    ours, theirs = ({run.seed: MEASURES["acc"].of(run) or 0 for run in each} for each in (runs, base))
    return Estimate.of([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())])


def _streams_table(ledger: str) -> str:
    """Return ACC by stream (rows) and variant (columns), and what CBA adds to the prior, paired by seed."""
    runs = _finished(ledger)
    variants = set(map(_variant, runs))
    shown = [name for name in ("alone", "CBA", "Prior", "CBA with prior") if name in variants]
    rows = []
    for stream in sorted({_stream(run) for run in runs}):
        by = {name: [run for run in runs if _stream(run) == stream and _variant(run) == name] for name in shown}
        added = _added(by["CBA with prior"], by["Prior"])
        rows.append([stream, *(_cell(_acc(by[name])) for name in shown), _cell(added, "+.1f")])
    return fronts.markdown(["", *shown, "CBA adds to the prior"], rows)


def _stream(run: Results) -> str:
    scenario = run.started.config["scenario"]
    unclean = [f"{name} {scenario[name]:g}" for name in ("noise", "imbalance") if scenario.get(name)]
    return ", ".join(unclean) or str(scenario["name"])


def _within_table(ledger: str) -> str:
    """Return learning accuracy, plain and within tasks, of ER and DER++ at memory 500, without and with CBA."""
    names = "learning_accuracy", "learning_within"
    rows = []
    for method, title in (("er", "ER"), ("derpp", "DER++")):
        runs = [run for run in _finished(ledger, method=method, memory=500) if not is_rar(run.started.config)]
        for variant in ("alone", "CBA"):
            mine = [run for run in runs if _variant(run) == variant]
            cells = [_cell(Estimate.of([MEASURES[name].of(run) for run in mine])) for name in names]
            rows.append([title if variant == "alone" else f"{title} + CBA", *cells])
    return fronts.markdown(["", *(MEASURES[name].title for name in names)], rows)


def _what_is_learned_and_asked(figure: Figure) -> None:
    values = json.loads((ROOT / "benchmarks" / "residual.json").read_text(encoding="utf-8"))
    axes = figure.subplots()
    axes.grid(axis="y")
    looks = (("asked", PLAIN, "what balance asks for"), ("learned", OURS, "what g has learned"))
    for name, colour, label in looks:
        by_place = [[value for value in column if value is not None] for column in zip(*values[name], strict=True)]
        known = [(x, fmean(column)) for x, column in zip(values["places"], by_place, strict=True) if len(column) > 2]
        for run in values[name]:
            axes.plot(values["places"], [nan if value is None else value for value in run], color=colour, alpha=0.25)
        axes.plot(*zip(*known, strict=True), color=colour, label=label)
    axes.set(xlabel="updates since the task began", ylabel="newest minus older", ylim=(0, None))
    axes.margins(x=0)
    axes.legend(loc="lower right")


def _shares_of_predictions(figure: Figure) -> None:
    runs = _finished("results/prior-digits", method="er", memory=20)
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


def _ablation(figure: Figure) -> None:
    axes = figure.subplots()
    axes.grid(axis="x")
    runs = _finished("results/prior-digits", memory=20)
    shown = [name for name in VARIANTS if sum(_variant(run) == name for run in runs) >= 2 * ENOUGH]
    for shift, (method, colour, title) in enumerate((("er", PLAIN, "ER"), ("derpp", OURS, "DER++"))):
        mine = [run for run in runs if run.started.config["method"]["name"] == method]
        estimates = [_acc([run for run in mine if _variant(run) == name]) for name in shown]
        where = [-place + 0.12 - 0.24 * shift for place in range(len(shown))]
        means, halves = [each.mean for each in estimates if each], [each.half or 0 for each in estimates if each]
        axes.errorbar(means, where, xerr=halves, fmt="o", color=colour, markersize=4.5, elinewidth=1.2, label=title)
    axes.set(xlabel="accuracy at the end of the stream (ACC), %, with 95% intervals")
    axes.set_yticks([-place for place in range(len(shown))], shown)
    axes.margins(y=0.15)
    axes.legend(loc="lower left")


def _gains_by_cba(figure: Figure) -> None:
    """Draw the paired gains of the paper's main table: ours with intervals, or by seed, and the paper's."""
    every = [pair for pair in pairs(Ledger(ROOT / "results" / "slim"), "slim") if pair.table == "table1" and pair.ours]
    panels = figure.subplots(1, 2, sharey=True)
    for axes, measure in zip(panels, ("acc", "fm"), strict=True):
        mine = [pair for pair in every if pair.measure == measure]
        axes.grid(axis="x")
        axes.axvline(0, color=MUTED, linewidth=0.9)
        for place, pair in enumerate(mine):
            assert pair.ours is not None
            values = pair.ours.values or (pair.ours.mean,)
            axes.errorbar(
                values, [-place] * len(values), xerr=pair.ours.half, fmt="o", color=OURS, markersize=4.5, elinewidth=1.2
            )
            axes.plot(pair.paper, -place, "D", markerfacecolor="none", color=PLAIN, markersize=5)
        axes.set(xlabel=f"change in {MEASURES[measure].heading} by CBA, points")
        axes.set_yticks([-place for place in range(len(mine))], [pair.label for pair in mine])
        axes.margins(y=0.25)


def _of_paper(name: str, place: int) -> str:
    """Return a chart of one of the paper's figures, drawn from our runs."""
    ledger, figure = Ledger(ROOT / "results" / "slim"), PAPER_FIGURES[name]
    runs = [run for cell in paper_table(name, net="slim").cells for run in finished_group(cell, ledger).runs]
    parts = [part for section in figure.show(Scene(runs)).sections for part in section.parts]
    return [chart for part in parts if isinstance(part, Charts) for chart in part.charts][place].picture.svg


def _drawn(onto: Callable[[Figure], None], height: float) -> Callable[[], str]:
    return lambda: draw(onto, width=7.2, height=height)


FIGURES: dict[str, Callable[[], str]] = {
    "digits": _drawn(_accuracy_along_the_stream, 2.7),
    "keel-fronts": _drawn(fronts.draw, 6.0),
    "reproduction-gains": _drawn(_gains_by_cba, 2.2),
    "figure3": lambda: _of_paper("figure3", 0),
    "tilt-residual": _drawn(_what_is_learned_and_asked, 2.5),
    "tilt-shares": _drawn(_shares_of_predictions, 2.5),
    "tilt-ablation": _drawn(_ablation, 2.5),
}

if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    IMAGES.mkdir(exist_ok=True)
    for figure in FIGURES:
        for name, svg in image(figure).items():
            (IMAGES / name).write_text(svg, encoding="utf-8")
