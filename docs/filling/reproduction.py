"""Our runs next to the paper's numbers: the figures of docs/reproduction.md."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from docs.filling.ledgers import OURS, PLAIN, ROOT, markdown
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.paper import WIDTHS, paper_table, paper_tables, without
from evenkeel.grids.paper_claims import Pair, pairs
from evenkeel.grids.paper_tables import finished_group, short_title
from evenkeel.report.elements import Charts, Part
from evenkeel.report.paper_figures import FIGURES as PAPER_FIGURES
from evenkeel.report.scene import Scene
from evenkeel.report.svg import MUTED, draw
from evenkeel.results.formats import render
from evenkeel.results.groups import Estimate, gain, paired, seeds_text
from evenkeel.results.measures import MEASURES
from evenkeel.results.table import ResultTable

RATES = (0.01, 0.03, 0.1)
PRESET_RATE = 0.03  # of the authors' commands
SETTINGS = {"table1": "", "table3": "blurry: ", "table4": "offline: "}  # by table, in front of a pair's name
BELOW = 0.28  # of a row: where the paper's gain is, so that it hides none of ours


def gains() -> str:
    """Draw all paired gains: ours with intervals, or by seed, and the paper's."""
    found = pairs(Ledger(ROOT / "results" / "slim"), "slim")
    every = [pair for pair in found if pair.ours and pair.comparison.part in SETTINGS and not pair.comparison.row]
    rows = sum(pair.comparison.measure == "acc" for pair in every)
    return draw(lambda figure: _onto(figure, every), width=7.2, height=1.0 + 0.27 * rows)


def _onto(figure: Figure, every: Sequence[Pair]) -> None:
    panels = figure.subplots(1, 2, sharey=True)
    for axes, measure in zip(panels, ("acc", "fm"), strict=True):
        mine = [pair for pair in every if pair.comparison.measure == measure]
        axes.grid(axis="x")
        axes.axvline(0, color=MUTED, linewidth=0.9)
        for place, pair in enumerate(mine):
            assert pair.ours is not None
            few, values = bool(pair.ours.values), pair.ours.values or (pair.ours.mean,)
            axes.errorbar(
                values,
                [-place] * len(values),
                xerr=pair.ours.half,
                fmt="o",
                color=OURS,
                markerfacecolor="none" if few else OURS,
                markersize=4.5,
                elinewidth=1.2,
            )
            axes.plot(pair.paper, -place - BELOW, "D", markerfacecolor="none", color=PLAIN, markersize=4.5)
        axes.set(xlabel=f"change in {MEASURES[measure].heading} by CBA, points")
        axes.set_yticks(
            [-place for place in range(len(mine))], [f"{SETTINGS[pair.comparison.part]}{pair.label}" for pair in mine]
        )
        axes.set_ylim(0.4 - len(mine), 0.6)
    looks = (
        ("o", OURS, OURS, "ours, 95% interval"),
        ("o", OURS, "none", "ours, single seeds"),
        ("D", PLAIN, "none", "the paper"),
    )
    handles = [
        Line2D([], [], marker=marker, color=colour, markerfacecolor=fill, linestyle="", label=label)
        for marker, colour, fill, label in looks
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)


def chart_of_paper(name: str, place: int) -> str:
    """Return a chart of one of the paper's figures, drawn from our runs."""
    charts = [chart for part in _parts(name) if isinstance(part, Charts) for chart in part.charts]
    return charts[place].picture.svg


def numbers(name: str) -> str:
    """Return the numbers behind a figure of the paper, from our runs."""
    return render(next(part for part in _parts(name) if isinstance(part, ResultTable)), "markdown").strip()


def coverage() -> str:
    """Return which rows of the paper's tables and figures were run, by data set and memory, and which were not."""
    ledger, rows = Ledger(ROOT / "results" / "slim"), list[list[str]]()
    for table in paper_tables(data=[], memory=[], methods=[], net="slim"):
        for block in table.blocks():
            by_seeds = dict[int, list[str]]()
            for cell in block:
                by_seeds.setdefault(len(finished_group(cell, ledger).runs), []).append(cell.title)
            left = by_seeds.pop(0, [])
            ran = [f"{seeds_text([seeds])}: {'; '.join(by_seeds[seeds])}." for seeds in sorted(by_seeds, reverse=True)]
            where = f"{table.number}, {short_title(block[0].data)}, {block[0].memory:,}"
            rows.append([where, " ".join(ran) or "-", ("; ".join(left) if ran else "all") or "-"])
    return markdown(["part of the paper, memory", "run", "not run"], rows, numbers=False)


def widths() -> str:
    """Return what was run with the full network, next to the same with the slim one and to the paper."""
    tables = {net: paper_table("table1", data=["cifar10"], memory=[500], net=net) for net in WIDTHS}
    measures = [MEASURES[name] for name in ("acc", "recency_bias")]
    head, rows = [""], list[list[str]]()
    head += [f"{measure.heading}, width {width}" for measure in measures for width in WIDTHS.values()]
    for full, slim in zip(*(table.cells for table in tables.values()), strict=True):
        groups = [
            finished_group(cell, Ledger(ROOT / "results" / net)) for cell, net in zip((full, slim), WIDTHS, strict=True)
        ]
        if groups[0].runs:
            ours = [f"{group.estimate(measure)} ({len(group.runs)})" for measure in measures for group in groups]
            rows.append([full.title, *ours, f"{full.values[0]:.1f}"])
    return markdown([*head, "ACC in the paper, width 64"], rows)


def repeats() -> str:
    """Return what runs of Table 1 and those of the figures with a curve end at: the same settings on two machines."""
    ledger, rows = Ledger(ROOT / "results" / "slim"), list[list[str]]()
    measures = [MEASURES[name] for name in ("acc", "fm")]
    tables = [paper_table(name, data=["cifar10"], net="slim", seeds=1) for name in ("figure1", "figure4")]
    main = {cell.place: cell for cell in paper_table("table1", data=["cifar10"], net="slim", seeds=1).cells}
    for table in tables:
        known = [cell for cell in table.cells if cell.place in main]
        both = [[finished_group(each, ledger) for each in (main[cell.place], cell)] for cell in known]
        for cell, groups in zip(known, both, strict=True):
            values = [str(group.estimate(measure)) for measure in measures for group in groups]
            rows.append([f"{cell.title} (memory {cell.memory})", *values])
        if without(known, known[-1]):
            changes = [gain(measure, paired(*pair)) for measure in measures for pair in zip(*both, strict=True)]
            rows.append(["**gain by CBA**", *(f"**{change.text('+.1f') if change else '-'}**" for change in changes)])
    head = [f"{measure.heading}, {machine} machine" for measure in measures for machine in ("one", "another")]
    return markdown(["", *head], rows)


def rates() -> str:
    """Return ACC and FM by the learning rate, of which one is the presets', and the paper's."""
    tables = [
        paper_table(
            "table1",
            data=["cifar10"],
            memory=[500],
            methods=["er", "derpp"],
            net="slim",
            settings=[f"optimizer.lr={rate}"],
        )
        for rate in RATES
    ]
    ledgers = [Ledger(ROOT / "results" / ("slim" if rate == PRESET_RATE else "rates")) for rate in RATES]
    by_rate = [
        {cell.row: finished_group(cell, ledger) for cell in table.cells}
        for table, ledger in zip(tables, ledgers, strict=True)
    ]
    cells, rows = tables[0].cells, list[list[str]]()
    for place, name in enumerate(tables[0].values):
        measure = MEASURES[name]
        for cell in cells:
            ours = [_with_seeds(groups[cell.row].estimate(measure)) for groups in by_rate]
            rows.append([cell.title, measure.heading, *ours, f"{cell.values[place]:.1f}"])
            if base := without(cells, cell):
                gains = [gain(measure, paired(groups[base.row], groups[cell.row])) for groups in by_rate]
                theirs = f"{cell.values[place] - base.values[place]:+.1f}"
                row = ["gain by CBA, paired", measure.heading, *(_with_seeds(each, "+.1f") for each in gains), theirs]
                rows.append([f"**{each}**" for each in row])
    return markdown(["", "", *(f"rate {rate}" for rate in RATES), "the paper"], rows)


def _with_seeds(estimate: Estimate | None, format: str = ".1f") -> str:
    return f"{estimate.text(format)}, {seeds_text([estimate.n])}" if estimate else "-"


def _parts(name: str) -> list[Part]:
    ledger = Ledger(ROOT / "results" / "slim")
    runs = [run for cell in paper_table(name, net="slim").cells for run in finished_group(cell, ledger).runs]
    return [part for section in PAPER_FIGURES[name].show(Scene(runs)).sections for part in section.parts]
