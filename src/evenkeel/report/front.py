"""The front: accuracy against cost, one figure per measure."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from math import ceil, floor, log10

from matplotlib.figure import Figure

from evenkeel.report.axes import add_legend, legend_height
from evenkeel.report.elements import Chart, Charts, Section
from evenkeel.report.scene import Scene
from evenkeel.report.svg import MUTED, Picture, draw_framed, mark, variable
from evenkeel.results.front import SHOWN, Costs, Point, Rivals, by_memory, front_tables, points
from evenkeel.results.measures import MEASURES

FEWEST = 3  # methods: with two, the table of costs says it all
MARGIN = 1.25  # of an axis of logarithms, as a ratio
MOST_TICKS = 8


def front(scene: Scene) -> Section | None:
    """Return figures and numbers of accuracy against cost; None if fewer than three groups recorded both."""
    grouped = list(scene.finished.values())
    costs = Costs.measured(grouped)
    charts, memories = list[Chart](), by_memory(grouped)
    for memory, members in memories.items():
        for name in SHOWN:
            known = points(members, MEASURES[name], costs)
            if len(known) >= FEWEST:
                title = f"{MEASURES[name].title} against cost{f', memory {memory}' if len(memories) > 1 else ''}"
                charts.append(Chart(title, scatter(scene, known, MEASURES[name].title, costs.unit)))
    if not charts:
        return None
    caption = (
        "Up is better, left is cheaper. A line is a front: no method on it is beaten by one with the same memory, net "
        "and batches that costs no more. "
        "Whiskers: the 95% interval over seeds."
    )
    tables = front_tables(grouped).values()
    return Section("Accuracy and cost", [Charts(caption, charts, small=len(charts) > 1), *tables])


def scatter(scene: Scene, known: Sequence[Point], ylabel: str, xlabel: str) -> Picture:
    """Draw a mark for each point, with whiskers where it has an interval, and each front as a line of steps."""
    labels, at = [point.group.label for point in known], [point.cost.mean for point in known]
    fronts: dict[Rivals, list[Point]] = {}
    for point in known:
        if point.on_front:
            fronts.setdefault(point.rivals, []).append(point)

    def onto(figure: Figure) -> None:
        axes = figure.subplots()
        axes.grid()
        for front in fronts.values():
            axes.step(
                [point.cost.mean for point in front],
                [point.value.mean for point in front],
                where="post",
                color=MUTED,
                linewidth=1.0,
            )
        handles = []
        for place, point in enumerate(known):
            look = scene.looks[point.group.label]
            drawn = axes.errorbar(
                point.cost.mean,
                point.value.mean,
                xerr=point.cost.half,
                yerr=point.value.half,
                color=look.colour,
                marker=look.marker,
                markersize=7 if point.on_front else 5.5,
                fillstyle=look.fill,
                markerfacecoloralt="none",
                markeredgewidth=1.4,
                elinewidth=1.0,
                linestyle="none",
            )
            mark(f"series-{place}", *drawn.get_children())
            handles.append(drawn)
        axes.set(xlabel=xlabel, ylabel=f"{ylabel} (%)", xscale="log")
        axes.set_xlim(min(at) / MARGIN, max(at) * MARGIN)
        axes.set_xticks(ticks := _ticks(*axes.get_xlim()), [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
        add_legend(figure, handles, labels)

    svg, frame = draw_framed(onto, height=2.8 + legend_height(labels))
    lines = [
        {
            "name": point.group.label,
            "colour": variable(scene.looks[point.group.label].colour),
            "mean": [round(point.value.mean, 2) if place == own else None for place in range(len(known))],
        }
        for own, point in enumerate(known)
    ]
    frame = replace(frame, x=tuple(map(log10, frame.x)))
    names = [f"{cost:.2f}" for cost in at]
    return Picture(svg, {**asdict(frame), "across": xlabel, "at": list(map(log10, at)), "names": names, "lines": lines})


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between these, few enough to be read on an axis of logarithms."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    steps = ((1, 1.5, 2, 3, 4, 6, 8), (1, 2, 5), (1,))
    every = [[step * 10.0**power for power in powers for step in each] for each in steps]
    within = [[tick for tick in ticks if low <= tick <= high] for ticks in every]
    return next((ticks for ticks in within if len(ticks) <= MOST_TICKS), within[-1])
