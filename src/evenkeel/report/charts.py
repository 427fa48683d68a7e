"""From groups of runs to what figures draw: lines with bands, heights with intervals, charts of many lines."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from evenkeel.report.elements import Chart, Charts, minus
from evenkeel.report.figures import Heights, curves
from evenkeel.report.scene import Scene, Series, series
from evenkeel.report.svg import Picture
from evenkeel.results.measures import Measure
from evenkeel.results.run_files import Results

BANDS = (
    "Bands: the 95% interval of the mean over seeds (Student's t), cut off at 0 and 100; with two "
    "seeds, their range; with one, none."
)
MOST_LINES = 8  # in one chart


def lines_of(scene: Scene, points: Callable[[Results], Mapping[int, float]]) -> dict[str, Series]:
    """Return the mean of `points` (values by step) over the runs of each group that has any."""
    return {group.label: line for group in scene.drawn if (line := series(group.runs, points))}


def line_charts(
    scene: Scene,
    title: str,
    lines: Mapping[str, Series],
    ylabel: str,
    *,
    limits: tuple[float | None, float | None] = (None, None),
    behind: Mapping[str, Series] | None = None,
    level: float | None = None,
) -> Charts:
    """Draw all lines in one chart, or, if they are many, each method with and without adaptors in a small one."""
    if len(lines) <= MOST_LINES:
        return Charts("", [Chart(title, curves(scene, lines, ylabel, limits=limits, behind=behind, level=level))])
    low, high = _range(lines.values())
    limits = (low if limits[0] is None else limits[0], high if limits[1] is None else limits[1])
    by_base: dict[str, dict[str, Series]] = {}
    for group in scene.drawn:
        if group.label in lines:
            by_base.setdefault(group.base, {})[group.label] = lines[group.label]
    charts = [
        Chart(next(iter(few)), curves(scene, few, ylabel, limits=limits, behind=behind, level=level))
        for few in by_base.values()
    ]
    return Charts("", charts, small=True)


def _range(lines: Iterable[Series]) -> tuple[float, float]:
    """Return the limits that all lines and bands share, with a margin."""
    ends = np.concatenate([each for line in lines for each in (line.mean, line.low, line.high) if each is not None])
    low, high = float(ends.min()), float(ends.max())
    margin = 0.04 * (high - low) or 1.0
    return low - margin, high + margin


def heights_of(scene: Scene, by_task: Sequence[Measure]) -> dict[str, Heights]:
    """Return mean and interval of each task, for the groups that have any."""
    estimates = {label: [group.estimate(each) for each in by_task] for label, group in scene.finished.items()}
    return {label: Heights.of(known) for label, each in estimates.items() if (known := [e for e in each if e])}


def about_whiskers(picture: Picture, heights: Mapping[str, Heights], *, percent: bool = True) -> str:
    """Return a sentence on the whiskers of a picture of these heights: none on a matrix, or without intervals."""
    if "cells" in picture.values or not any(each.half.any() for each in heights.values()):
        return ""
    return f"Whiskers: the 95% interval of the mean over seeds{', cut off at 0 and 100' * percent}."


def class_order(scene: Scene, count: int) -> list[int]:
    """Return the classes in the order of their tasks, then those of no task."""
    order = [label for task in scene.task_classes or () for label in task]
    return order + [label for label in range(count) if label not in order]


def each_or_ends(values: Mapping[str, float], form: str) -> str:
    """Return the value of each group, or, of many groups, the lowest and the highest."""
    texts = {label: f"{label} {minus(format(value, form))}" for label, value in values.items()}
    if len(texts) <= MOST_LINES:
        return "; ".join(texts.values())
    low, high = (texts[end(values, key=lambda label: values[label])] for end in (min, max))
    return f"from {low} to {high}"
