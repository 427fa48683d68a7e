"""Our runs next to the paper's numbers: the figures of docs/reproduction.md."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from docs.filling.ledgers import OURS, PLAIN, ROOT
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.paper import paper_table
from evenkeel.grids.paper_claims import Pair, pairs
from evenkeel.grids.paper_tables import finished_group
from evenkeel.report.elements import Charts
from evenkeel.report.paper_figures import FIGURES as PAPER_FIGURES
from evenkeel.report.scene import Scene
from evenkeel.report.svg import MUTED, draw
from evenkeel.results.measures import MEASURES

SETTINGS = {"table1": "", "table3": "blurry: ", "table4": "offline: "}  # by table, in front of a pair's name


def gains() -> str:
    """Draw all paired gains: ours with intervals, or by seed, and the paper's."""
    every = [pair for pair in pairs(Ledger(ROOT / "results" / "slim"), "slim") if pair.ours and pair.part in SETTINGS]
    rows = sum(pair.measure == "acc" for pair in every)
    return draw(lambda figure: _onto(figure, every), width=7.2, height=0.75 + 0.24 * rows)


def _onto(figure: Figure, every: Sequence[Pair]) -> None:
    panels = figure.subplots(1, 2, sharey=True)
    for axes, measure in zip(panels, ("acc", "fm"), strict=True):
        mine = [pair for pair in every if pair.measure == measure]
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
            axes.plot(pair.paper, -place, "D", markerfacecolor="none", color=PLAIN, markersize=5)
        axes.set(xlabel=f"change in {MEASURES[measure].heading} by CBA, points")
        axes.set_yticks([-place for place in range(len(mine))], [f"{SETTINGS[pair.part]}{pair.label}" for pair in mine])
        axes.set_ylim(0.6 - len(mine), 0.6)


def chart_of_paper(name: str, place: int) -> str:
    """Return a chart of one of the paper's figures, drawn from our runs."""
    ledger, figure = Ledger(ROOT / "results" / "slim"), PAPER_FIGURES[name]
    runs = [run for cell in paper_table(name, net="slim").cells for run in finished_group(cell, ledger).runs]
    parts = [part for section in figure.show(Scene(runs)).sections for part in section.parts]
    return [chart for part in parts if isinstance(part, Charts) for chart in part.charts][place].picture.svg
