"""What the figures of a report share: line styles, legends, names on axes and the ends of tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evenkeel.report.scene import Look, Scene
from evenkeel.report.svg import MUTED, mark, printable

STEPS = tuple(digit * 10**power for power in range(9) for digit in (1, 2, 5))  # possible distances between ticks


def line_style(look: Look) -> dict[str, Any]:
    return {
        "color": look.colour,
        "linestyle": look.line,
        "marker": look.marker,
        "markersize": 4.5,
        "fillstyle": look.fill,
        "markerfacecoloralt": "none",
    }


def fill_style(look: Look) -> dict[str, Any]:
    return {
        "facecolor": look.colour if not look.hatch else "none",
        "edgecolor": look.colour,
        "hatch": look.hatch,
        "linewidth": 0.8,
    }


def add_legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Put a legend above the axes, with an entry for each series, by which a script can hide it."""
    # matplotlib leaves out labels that begin with "_": a zero-width space in front keeps them.
    shown = [("\u200b" if label.startswith("_") else "") + printable(label, 52) for label in labels]
    columns = _legend_columns(labels)
    legend = figure.legend(
        handles, shown, loc="outside upper left", ncols=columns, handlelength=3, columnspacing=1.2, borderpad=0
    )
    for place, entry in enumerate(zip(legend.legend_handles, legend.get_texts(), strict=True)):
        mark(f"key-{place}", *(artist for artist in entry if artist is not None))


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


def legend_height(labels: Sequence[str]) -> float:
    return 0.2 * -(-len(labels) // _legend_columns(labels))


def add_task_ends(axes: Axes, scene: Scene) -> None:
    """Draw a line where each task but the last ends, and the names of the tasks if there is room for them."""
    ends = scene.boundaries
    for end in ends[:-1]:
        axes.axvline(end, color=MUTED, linewidth=0.6, dashes=(1, 2))
    if 1 < len(ends) <= 20:
        names = scene.task_names if sum(map(len, scene.task_names)) <= 40 else scene.task_ticks
        for name, begin, end in zip(names, [0, *ends], ends, strict=False):
            how: dict[str, Any] = {"ha": "center", "va": "bottom", "color": MUTED, "size": 8.5}
            axes.text((begin + end) / 2, 1.01, printable(name, 10), transform=axes.get_xaxis_transform(), **how)


def add_names(set_ticks: Any, names: Sequence[str], *, room: float) -> None:
    """Put all names on an axis of `room` points, or a few of many; vertically if they would meet."""
    shown = names_shown(names)
    set_ticks(list(shown), list(shown.values()), rotation=90 if are_crowded(shown, room / len(names)) else 0)


def are_crowded(shown: Mapping[int, str], column: float) -> bool:
    """Return whether names by their places would meet if they were written side by side, in columns of this width."""
    every = [*shown, 1][1]  # places begin with 0
    return max(map(text_width, shown.values())) > every * column


def text_width(text: str) -> float:
    """Return about how wide a text is in a wide font; which one it will be, only the reader's browser knows."""
    return 9.0 * sum(_letter_width(letter) for letter in text)


def _letter_width(letter: str) -> float:
    if letter in "MWmw%@…" or letter > "\u1100":
        return 1.0
    return 0.8 if letter.isupper() or letter == "+" else 0.6


def names_shown(names: Sequence[str], *, longest: int = 14, most: int = 20) -> dict[int, str]:
    """Return the names for which an axis has room by their places: all, or every 5th, 10th, ... of many."""
    every = 1 if len(names) <= most else next(step for step in STEPS if len(names) <= 10 * step)
    return {place: printable(names[place], longest) for place in range(0, len(names), every)}
