"""The front: accuracy against cost, one figure per measure."""

from collections.abc import Sequence
from dataclasses import asdict

from matplotlib.figure import Figure

from evenkeel.report.axes import add_legend, legend_height
from evenkeel.report.elements import Chart, Charts, Section
from evenkeel.report.scene import Scene
from evenkeel.report.svg import MUTED, Picture, draw_framed, mark, variable
from evenkeel.results.front import SHOWN, Costs, Point, front_table, points
from evenkeel.results.measures import MEASURES

FEWEST = 3  # methods: with two, the table of costs says it all


def front(scene: Scene) -> Section | None:
    """Return figures and numbers of accuracy against cost; None if fewer than three groups recorded both."""
    grouped = list(scene.finished.values())
    costs = Costs.measured(grouped)
    charts = []
    for name in SHOWN:
        known = points(grouped, MEASURES[name], costs)
        if len(known) >= FEWEST:
            title = f"{MEASURES[name].title} against cost"
            charts.append(Chart(title, scatter(scene, known, MEASURES[name].title, costs.unit)))
    if not charts:
        return None
    caption = (
        "Up is better, left is cheaper. A line is a front: no method on it is beaten by one with the same memory, net "
        "and batches that costs no more. "
        "Whiskers: the 95% interval over seeds."
    )
    return Section("Accuracy and cost", [Charts(caption, charts, small=len(charts) > 1), front_table(grouped)])


def scatter(scene: Scene, known: Sequence[Point], ylabel: str, xlabel: str) -> Picture:
    """Draw a mark for each point, with whiskers where it has an interval, and each front as a line of steps."""
    labels = [point.group.label for point in known]
    fronts: dict[tuple[str, ...], list[Point]] = {}
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
        axes.set(xlabel=xlabel, ylabel=f"{ylabel} (%)")
        axes.set_xlim(left=0)
        add_legend(figure, handles, labels)

    svg, frame = draw_framed(onto, height=2.8 + legend_height(labels))
    at = [point.cost.mean for point in known]
    lines = [
        {
            "name": point.group.label,
            "colour": variable(scene.looks[point.group.label].colour),
            "mean": [round(point.value.mean, 2) if place == own else None for place in range(len(known))],
        }
        for own, point in enumerate(known)
    ]
    return Picture(svg, {**asdict(frame), "across": xlabel, "at": at, "lines": lines})
