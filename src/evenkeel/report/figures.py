"""The kinds of figure in a report: curves over steps, bars over tasks, heat maps. Each is returned as SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from evenkeel.report.scene import Array, Look, Scene, Series
from evenkeel.report.svg import GRID, INK, MUTED, draw, printable
from evenkeel.results.groups import Estimate

COLOURS = "Blues"
BLACK = "#010101"  # matplotlib omits pure black, and the colour would follow the page's theme
MOST_BARS = 44  # more would be thinner than their outlines
WHISKERS = {"elinewidth": 1.1, "capsize": 1.5, "capthick": 1.1, "ecolor": INK}
STEPS = tuple(digit * 10**power for power in range(9) for digit in (1, 2, 5))  # possible distances between ticks
MOST_PIXELS = 250  # per side; a larger matrix is scaled down


def curves(
    scene: Scene,
    lines: Mapping[str, Series],
    ylabel: str,
    *,
    limits: tuple[float | None, float | None] = (None, None),
    behind: Mapping[str, Series] | None = None,
    level: float | None = None,
) -> str:
    """Draw a line and its band for each label; `behind`: the same unsmoothed, faint; `level`: a reference line."""

    def onto(figure: Figure) -> None:
        axes = figure.subplots()
        axes.grid(axis="y")
        _task_ends(axes, scene)
        if level is not None:
            axes.axhline(level, color=MUTED, linewidth=0.9)
        for label, raw in (behind or {}).items():
            axes.plot(raw.x, raw.mean, color=scene.looks[label].colour, alpha=0.25, linewidth=0.7)
        for place, (label, line) in enumerate(lines.items()):
            look = scene.looks[label]
            if line.low is not None and line.high is not None:
                axes.fill_between(line.x, line.low, line.high, color=look.colour, alpha=0.14, linewidth=0)
            every = max(1, len(line.x) // 8)
            axes.plot(line.x, line.mean, **_line(look), markevery=(place * every // max(1, len(lines)), every))
        axes.set(xlabel="step (incoming batches)", ylabel=ylabel, ylim=limits)
        axes.margins(x=0.01)
        axes.set_xlim(left=0)
        handles = [Line2D([], [], **_line(scene.looks[label])) for label in lines]
        _legend(figure, handles, list(lines))

    return draw(onto, height=2.8 + _legend_height(list(lines)))


@dataclass(frozen=True)
class Heights:
    mean: Array
    half: Array  # half of the interval; 0 if there is none

    @classmethod
    def of(cls, estimates: Sequence[Estimate]) -> "Heights":
        return cls(np.array([each.mean for each in estimates]), np.array([each.half or 0.0 for each in estimates]))


def over_tasks(scene: Scene, heights: Mapping[str, Heights], ylabel: str, *, fair: Array | None = None) -> str:
    """Draw bars for each task, side by side for the labels, or points if too many. `fair`: a mark per task."""
    count, places = len(heights), np.arange(scene.tasks)
    labels = [*heights, *([] if fair is None else ["fair share"])]

    def onto(figure: Figure) -> None:
        axes = figure.subplots()
        axes.grid(axis="y")
        handles: list[Any] = []
        for place, (label, values) in enumerate(heights.items()):
            look = scene.looks[label]
            bars = count * scene.tasks <= MOST_BARS
            x = places + (place - (count - 1) / 2) * (0.8 if bars else 0.5) / count
            errors = values.half if values.half.any() else None
            if bars:
                axes.bar(x, values.mean, 0.74 / count, yerr=errors, error_kw=WHISKERS, **_fill(look))
                handles.append(Patch(**_fill(look)))
            else:
                axes.errorbar(x, values.mean, errors, **_line(look), elinewidth=0.7)
                handles.append(Line2D([], [], **_line(look)))
        if fair is not None:
            axes.hlines(fair, places - 0.46, places + 0.46, color=INK, linewidth=1.4)
            handles.append(Line2D([], [], color=INK, linewidth=1.4))
        _names(axes.set_xticks, scene.task_ticks, room=50)
        axes.set(xlabel="task", ylabel=ylabel, xlim=(-0.6, scene.tasks - 0.4))
        axes.set_ylim(0, min(102, axes.get_ylim()[1]))
        _legend(figure, handles, labels)

    return draw(onto, height=2.8 + _legend_height(labels))


def heat_map(
    values: Array,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    xlabel: str,
    ylabel: str,
    numbers: bool = False,
    highest: float | None = 100.0,
    gamma: float = 1.0,
    borders: Sequence[int] = (),
) -> str:
    """Draw a matrix; dark is high. `gamma` below 1 stresses small values; `borders`: thin lines before these rows."""

    def onto(figure: Figure) -> None:
        axes = figure.subplots()
        norm = PowerNorm(gamma, 0, max(highest if highest is not None else float(values.max(initial=0.0)), 1e-9))
        scaling = "none" if max(values.shape) <= MOST_PIXELS else "auto"
        image = axes.imshow(values, cmap=COLOURS, norm=norm, aspect="auto", interpolation=scaling)
        _names(axes.set_xticks, columns, room=27)
        _names(axes.set_yticks, rows)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set(visible=True, color=GRID)
        for border in borders:
            axes.axhline(border - 0.5, color="#8c959f", linewidth=0.4)
            axes.axvline(border - 0.5, color="#8c959f", linewidth=0.4)
        if numbers:
            for (row, column), value in np.ndenumerate(values):
                dark = norm(value) > 0.55
                axes.text(
                    column, row, f"{value:.0f}", ha="center", va="center", size=8, color="#ffffff" if dark else BLACK
                )
        else:
            bar = figure.colorbar(image, ax=axes, fraction=0.06, pad=0.02, aspect=40)
            bar.outline.set_visible(False)

    return draw(onto, width=3.8, height=3.5)


def _line(look: Look) -> dict[str, Any]:
    return {
        "color": look.colour,
        "linestyle": look.line,
        "marker": look.marker,
        "markersize": 4.5,
        "markerfacecolor": look.colour if not look.hatch else "none",
    }


def _fill(look: Look) -> dict[str, Any]:
    return {
        "facecolor": look.colour if not look.hatch else "none",
        "edgecolor": look.colour,
        "hatch": look.hatch,
        "linewidth": 0.8,
    }


def _legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    # matplotlib leaves out labels that begin with "_": a zero-width space in front keeps them.
    shown = [("\u200b" if label.startswith("_") else "") + printable(label, 52) for label in labels]
    columns = _legend_columns(labels)
    figure.legend(
        handles, shown, loc="outside upper left", ncols=columns, handlelength=3, columnspacing=1.2, borderpad=0
    )


def _legend_columns(labels: Sequence[str]) -> int:
    """Return as many columns as fit while a method and its variant with an adaptor stay in one column."""
    longest = max(map(len, labels), default=0)
    most = 3 if longest <= 12 else 2 if longest <= 24 else 1
    together = (columns for columns in range(most, 1, -1) if _sizes_are_even(len(labels), columns))
    return next(together, most if len(labels) > 6 else 1)


def _sizes_are_even(count: int, columns: int) -> bool:
    """Check all columns but the last, as matplotlib fills them: the first ones get the remainder."""
    sizes = [count // columns + (place < count % columns) for place in range(columns)]
    return all(size % 2 == 0 for size in sizes[:-1])


def _legend_height(labels: Sequence[str]) -> float:
    return 0.2 * -(-len(labels) // _legend_columns(labels))


def _task_ends(axes: Axes, scene: Scene) -> None:
    ends = scene.boundaries
    for end in ends[:-1]:
        axes.axvline(end, color=MUTED, linewidth=0.6, dashes=(1, 2))
    if 1 < len(ends) <= 20:
        names = scene.task_names if sum(map(len, scene.task_names)) <= 40 else scene.task_ticks
        for name, begin, end in zip(names, [0, *ends], ends, strict=False):
            how: dict[str, Any] = {"ha": "center", "va": "bottom", "color": MUTED, "size": 8.5}
            axes.text((begin + end) / 2, 1.01, printable(name, 10), transform=axes.get_xaxis_transform(), **how)


def _names(set_ticks: Any, names: Sequence[str], room: int | None = None) -> None:
    """Put all names on an axis, or a few of many; vertically if they have more than `room` letters."""
    every = 1 if len(names) <= 20 else next(step for step in STEPS if len(names) <= 10 * step)
    places = range(0, len(names), every)
    short = [printable(names[place], 14) for place in places]
    set_ticks(places, short, rotation=90 if room is not None and sum(map(len, short)) > room else 0)
