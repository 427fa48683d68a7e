"""What the methods of a ledger reach and cost next to the keel: the tables and the figure of docs/keel.md."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evenkeel.report.scene import scenes
from evenkeel.report.svg import MUTED, PALETTE
from evenkeel.results.front import SHOWN, Costs, Point, memory_of, points
from evenkeel.results.groups import Estimate, Group, paired
from evenkeel.results.measures import MEASURES, Measure
from evenkeel.results.run_files import Results, find_runs

ROOT = Path(__file__).parents[1]
KEEL = "keel"  # how runs of the recipe at the cost of plain ER are named; those at more begin with it
LEADS = 2  # of the measures, those for which leads are shown
PANELS = (
    ("digits, memory 20", "results/keel-digits", "digits", "20"),
    ("CLINC150, memory 500", "results/keel-clinc150", "minilm-l6", "500"),
    ("CIFAR-10, slim network, memory 500", "results/slim", "cifar10", "500"),
    ("CIFAR-10, slim network, memory 200", "results/slim", "cifar10", "200"),
)


def table(ledger: str, data: str, memory: str) -> str:
    """Return a row per method, cheapest first: its cost, what it reaches, and how far the keel is ahead of it."""
    rivals = _rivals(ledger, data, memory)
    costs = Costs.measured(rivals)
    keel = next((group for group in rivals if _name(group) == KEEL), None)
    measures = [MEASURES[name] for name in SHOWN if any(group.estimate(MEASURES[name]) for group in rivals)]
    head = ["", costs.unit, *(measure.heading for measure in measures)]
    head += [f"the keel's lead in {measure.title}" for measure in measures[:LEADS]] + ["seeds"]
    rows = [
        [
            _name(group),
            costs.of[group.label].text(".2f") if group.label in costs.of else "-",
            *(str(group.estimate(measure) or "-") for measure in measures),
            *(_lead(keel, group, measure) for measure in measures[:LEADS]),
            str(len(group.finished)),
        ]
        for group in sorted(rivals, key=lambda each: costs.mean(each.label))
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, [":--", *["--:"] * (len(head) - 1)], *rows))


def draw(figure: Figure) -> None:
    """Draw ACC against cost for each data set, with the front; the keels stand out."""
    for axes, (title, *chosen) in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        rivals = _rivals(*chosen)
        costs = Costs.measured(rivals)
        known = points(rivals, MEASURES["acc"], costs)
        front = [(point.cost.mean, point.value.mean) for point in known if point.on_front]
        axes.grid()
        axes.step(*zip(*front, strict=True), where="post", color=MUTED, linewidth=1.0)
        for point in known:
            colour = _colour(point)
            at, half = (point.cost.mean, point.value.mean), point.value.half or 0.0
            axes.errorbar(*at, yerr=half, elinewidth=0.8, ecolor=colour, alpha=0.35)
            axes.plot(*at, "o", color=colour, markersize=4)
        axes.set(title=title, xlabel=costs.unit, ylabel="ACC, %", xlim=(0.75, 1.35 * known[-1].cost.mean))
        _name_all(axes, known)


def _colour(point: Point) -> str:
    return PALETTE[0] if _name(point.group).startswith(KEEL) else PALETTE[1]


def _name_all(axes: Axes, known: Sequence[Point]) -> None:
    """Write the methods' names to the right of their points, moved up where one would stand on another."""
    low, high = axes.get_ylim()
    line, width = (high - low) / 16, (axes.get_xlim()[1] - axes.get_xlim()[0]) / 32  # of a letter
    taken: list[tuple[float, float, float]] = []  # from, to, height
    for point in sorted(known, key=lambda each: each.value.mean):
        name, begin, height = _name(point.group), point.cost.mean + 1.2 * width, point.value.mean
        end = begin + width * len(name)
        while any(begin < to and start < end and abs(height - other) < line for start, to, other in taken):
            height += line / 8
        taken.append((begin, end, height))
        axes.text(begin, height, name, fontsize=7, color=_colour(point), va="center")


@cache
def runs_of(ledger: str) -> list[Results]:
    """Return the runs of a ledger, by its path in the repository."""
    return [Results.read(path) for path in find_runs([ROOT / ledger])]


def _rivals(ledger: str, data: str, memory: str) -> list[Group]:
    """Return the groups of one data set and memory that have finished runs, without bounds."""
    found = (scene for scene in scenes(runs_of(ledger)) if scene.first.started.data["name"] == data)
    groups: Sequence[Group] = [group for scene in found for group in scene.finished.values()]
    return [group for group in groups if memory_of(group) == memory and not group.is_bound]


def _name(group: Group) -> str:
    return group.label.partition(" (memory")[0]


def _lead(keel: Group | None, group: Group, measure: Measure) -> str:
    """Return by how much the keel is ahead in the runs that both have, paired by seed."""
    if keel is None or group is keel:
        return "-"
    values = [(measure.of(one), measure.of(other)) for one, other in paired(keel, group)]
    lead = Estimate.of([one - other for one, other in values if one is not None and other is not None])
    return lead.text("+.1f") if lead else "-"
