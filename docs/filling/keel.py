"""What methods reach and cost next to the keel: the tables and the figure of docs/keel.md."""

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks import keel_cost
from docs.filling.ledgers import acc, finished, markdown, runs_of
from evenkeel.experiment.config import load_config
from evenkeel.report.scene import scenes
from evenkeel.report.svg import MUTED, PALETTE
from evenkeel.results.front import SHOWN, Costs, Point, cost_text, memory_of, points
from evenkeel.results.groups import Group, gain, paired
from evenkeel.results.measures import MEASURES, Measure
from evenkeel.results.run_files import Results

KEEL = "keel"  # how runs of the recipe at the cost of plain ER are named; those at more begin with it
NAMED = ("ER", "ER + CBA")  # in the figure, next to the keels and what is on a front
SHORT = {"ER + Prior, tau 1, averaged": "ER, tau 1", "DER++ + Prior, tau 1, averaged": "DER++, tau 1"}  # in the figure
LEADS = 2  # of the measures, those for which leads are shown
PANELS = (
    ("digits, memory 20", "results/keel-digits", "digits", "20"),
    ("CLINC150, memory 500", "results/keel-clinc150", "minilm-l6", "500"),
    ("CIFAR-10, slim network, memory 500", "results/slim", "cifar10", "500"),
    ("CIFAR-100, slim network, memory 5,000", "results/slim", "cifar100", "5000"),
)

CHOICES = "results/keel-choices"  # the ledger of the searches, tested on held-out samples
HELD_OUT = {"digits": "digits", "minilm-l6": "CLINC150", "cifar10": "CIFAR-10"}


def table(ledger: str, data: str, memory: str) -> str:
    """Return a row per method, cheapest first: its cost, what it reaches, and how far the keel is ahead of it."""
    rivals, costs = _rivals(ledger, data, memory)
    keel = next((group for group in rivals if _name(group) == KEEL), None)
    measures = [MEASURES[name] for name in SHOWN if any(group.estimate(MEASURES[name]) for group in rivals)]
    head = ["", costs.unit, *(measure.heading for measure in measures)]
    head += [f"the keel's lead in {measure.title}" for measure in measures[:LEADS]] + ["seeds"]
    rows = [
        [
            _name(group),
            cost_text(costs.of.get(group.label)),
            *(str(group.estimate(measure) or "-") for measure in measures),
            *(_lead(keel, group, measure) for measure in measures[:LEADS]),
            str(len(group.finished)),
        ]
        for group in sorted(rivals, key=lambda each: costs.mean(each.label))
    ]
    return markdown(head, rows)


def costs() -> str:
    """Return what presets cost in units of ER, taking turns: the medians and quartiles over rounds."""
    ratios = json.loads(keel_cost.FILE.read_text(encoding="utf-8"))
    return markdown(keel_cost.COLUMNS, keel_cost.rows(ratios))


def choice(budget: str) -> str:
    """Return a row per candidate for a budget: its ACC on held-out samples of each data set that it was tried on. The
    best on average come first, those that were not tried everywhere last; the recipe of the keel is bold.
    """
    by_candidate: dict[str, dict[str, list[Results]]] = {}
    for run in finished(CHOICES):
        if _budget(run) == int(budget):
            by_data = by_candidate.setdefault(_candidate(run.started.config), {})
            by_data.setdefault(run.started.data["name"], []).append(run)
    preset = "keel/digits" if budget == "1" else f"keel/digits-{budget}x"
    chosen, rows = _candidate(load_config(preset).model_dump()), list[tuple[float, list[str]]]()
    for candidate, by_data in by_candidate.items():
        values = [acc(by_data.get(data, [])) for data in HELD_OUT]
        known = [value.mean for value in values if value]
        mean = fmean(known) if len(known) == len(HELD_OUT) else 0.0
        cells = [candidate, *(str(value or "-") for value in values), f"{mean:.1f}" if mean else "-"]
        rows.append((mean, [f"**{cell}**" for cell in cells] if candidate == chosen else cells))
    return markdown(["", *HELD_OUT.values(), "mean"], [cells for _, cells in sorted(rows, key=lambda row: -row[0])])


def _budget(run: Results) -> int:
    """Return the budget that a run of the search is a candidate for."""
    config = run.started.config
    learner = config["learner"]
    repeats = learner.get("repeats", 1)
    return 8 if repeats > 3 or learner["replay"] > config["batches"]["size"] else repeats


def _candidate(config: Mapping[str, Any]) -> str:
    """Return what the candidates of one budget differ in; records leave out what is the default."""
    adaptor, learner = config["adaptor"], config["learner"]
    tau = adaptor.get("tau", 1.0) if adaptor else None
    size, repeats = config["batches"]["size"], learner.get("repeats", 1)
    draws = learner["replay"] / size
    augment = str(config.get("augment") or "")  # of colour images
    parts = [
        {"er": "ER", "derpp": "DER++"}[config["method"]["name"]],
        "no prior" if tau is None else f"prior, tau {tau}",
        f"{repeats} updates" if repeats > 1 else "",
        f"batches of {size}" if augment and size != 32 else "",  # with the CIFARs all others have 32
        f"draws {draws:g} times as large" if draws > 1 else "",
        "distillation" if learner.get("distill") else "",
        "resized crops and colour jitter" if "resized-crop" in augment else "",
        "no RandAugment" if "rand-augment" not in augment and repeats > 1 and augment else "",
        "predicts with the average only" if learner.get("predict_with") == "average" else "",
    ]
    return ", ".join(filter(None, parts))


def draw(figure: Figure) -> None:
    """Draw ACC against cost for each data set, with the front. The keels, ER and what is on the front have names."""
    for axes, (title, *chosen) in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        rivals, costs = _rivals(*chosen)
        known = points(rivals, MEASURES["acc"], costs)
        front = [(point.cost.mean, point.value.mean) for point in known if point.on_front]
        axes.grid()
        axes.step(*zip(*front, strict=True), where="post", color=MUTED, linewidth=1.0)
        named = [point for point in known if point.on_front or _is_keel(point) or _name(point.group) in NAMED]
        for point in known:
            at, colour = (point.cost.mean, point.value.mean), _colour(point) if point in named else MUTED
            axes.plot(*at, "o", color=colour, markersize=4 if point in named else 2.5)
            if point in named:
                axes.errorbar(*at, yerr=point.value.half or 0.0, elinewidth=0.8, ecolor=colour, alpha=0.4)
        axes.set(title=title, xlabel=costs.unit, ylabel="ACC, %", xscale="log")
        axes.set_xticks(ticks := (1, 2, 4, 8), map(str, ticks))
        axes.set_xticks([], minor=True)
        values = [point.value.mean for point in named]
        span = max(values) - min(values)
        axes.set_ylim(min(values) - 0.4 * span, max(values) + 0.2 * span)
        axes.set_xlim(0.5, 2 * max(point.cost.mean for point in named))
        _write_names(axes, known, named)


def _colour(point: Point) -> str:
    return PALETTE[0] if _is_keel(point) else PALETTE[1]


def _is_keel(point: Point) -> bool:
    return _name(point.group).startswith(KEEL)


def _write_names(axes: Axes, known: Sequence[Point], named: Sequence[Point]) -> None:
    """Write names next to their points, as near as none stands on another or a dot; a line leads to one that is far."""
    line, letter, dot, far = 8.5, 4.4, 3.0, 13.0  # in points, like the places below

    def place_of(point: Point) -> tuple[float, float]:
        across, height = axes.transData.transform((point.cost.mean, point.value.mean)) * 72 / axes.figure.dpi
        return across, height

    left, _ = axes.transAxes.transform((0, 0)) * 72 / axes.figure.dpi
    _, top = axes.transAxes.transform((1, 1)) * 72 / axes.figure.dpi
    taken = [(across - dot, across + dot, height) for across, height in map(place_of, known)]  # from, to, height
    tries = [(side, 5 + away * way) for away in range(60) for side in (1, -1) for way in (-1, 1)]  # up a bit: no line
    for point in sorted(named, key=lambda each: -each.value.mean):
        name, (across, height) = _name(point.group), place_of(point)
        name = SHORT.get(name, name)
        width = letter * len(name)
        for side, up in sorted(tries, key=lambda each: abs(each[1] - 5) + (10 if each[0] < 0 else 0)):
            begin = across + 5 if side > 0 else across - 5 - width
            spot = (begin, begin + width, height + up)
            is_free = all(spot[0] >= to or start >= spot[1] or abs(spot[2] - at) >= line for start, to, at in taken)
            if is_free and begin > left and spot[2] < top - line / 2:
                break
        taken.append(spot)
        axes.annotate(
            name,
            (point.cost.mean, point.value.mean),
            (5 * side, up),
            textcoords="offset points",
            fontsize=7,
            color=_colour(point),
            ha="left" if side > 0 else "right",
            va="center",
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": _colour(point)} if abs(up) > far else None,
        )


def _rivals(ledger: str, data: str, memory: str) -> tuple[list[Group], Costs]:
    """Return the groups of one data set and memory that have finished runs, without bounds, and what they cost.

    ER is the unit with any memory: the size of it hardly matters for the cost. Runs on other streams than the keel's,
    and those with a curve where the keel has none, are left out.
    """
    runs = [run for run in runs_of(ledger) if run.started.data["name"] == data]
    keel = next(run for run in runs if run.label == KEEL)
    alike = [run for run in runs if keel.anytime or not run.anytime]
    scene = next(scene for scene in scenes(alike) if keel in scene.runs)
    groups = [group for group in scene.finished.values() if not group.is_bound]
    return [group for group in groups if memory_of(group) == memory], Costs.measured(groups)


def _name(group: Group) -> str:
    return group.label.partition(" (memory")[0]


def _lead(keel: Group | None, group: Group, measure: Measure) -> str:
    """Return by how much the keel is ahead in the runs that both have, paired by seed."""
    lead = None if keel is None or group is keel else gain(measure, paired(group, keel))
    return lead.text("+.1f") if lead else "-"
