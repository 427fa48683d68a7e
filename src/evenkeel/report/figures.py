"""The kinds of figure in a report: curves over steps, bars by task or class, gains."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.container import Container
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from evenkeel.report.axes import add_legend, add_names, add_task_ends, fill_style, legend_height, line_style
from evenkeel.report.heat_maps import heat_map
from evenkeel.report.scene import Array, Look, Scene, Series
from evenkeel.report.svg import INK, MUTED, PALETTE, Picture, draw_framed, mark, printable, variable
from evenkeel.results.groups import Estimate

MOST_BARS = 44  # more would be thinner than their outlines
AXIS = 290.0  # points: about the width of the axes
WHISKERS = {"elinewidth": 1.1, "capsize": 1.5, "capthick": 1.1, "ecolor": INK}
MOST_NUMBERS = 10  # columns of a matrix whose cells have room for a number


def curves(
    scene: Scene,
    lines: Mapping[str, Series],
    ylabel: str,
    *,
    limits: tuple[float | None, float | None] = (None, None),
    behind: Mapping[str, Series] | None = None,
    level: float | None = None,
) -> Picture:
    """Draw a line and its band for each label; `behind`: the same unsmoothed, faint; `level`: a reference line."""

    def onto(figure: Figure) -> None:
        axes = figure.subplots()
        axes.grid(axis="y")
        add_task_ends(axes, scene)
        if level is not None:
            axes.axhline(level, color=MUTED, linewidth=0.9)
        for place, (label, line) in enumerate(lines.items()):
            look, drawn = scene.looks[label], list[Artist]()
            if behind and label in behind:
                raw = behind[label]
                drawn += axes.plot(raw.x, raw.mean, color=look.colour, alpha=0.25, linewidth=0.7)
            if line.low is not None and line.high is not None:
                drawn += [axes.fill_between(line.x, line.low, line.high, color=look.colour, alpha=0.14, linewidth=0)]
            every = max(1, len(line.x) // 8)
            shift = place * every // max(1, len(lines))
            drawn += axes.plot(line.x, line.mean, **line_style(look), markevery=(shift, every))
            mark(f"series-{place}", *drawn)
        axes.set(xlabel="step (incoming batches)", ylabel=ylabel, ylim=limits)
        axes.margins(x=0.01)
        axes.set_xlim(left=0)
        handles = [Line2D([], [], **line_style(scene.looks[label])) for label in lines]
        add_legend(figure, handles, list(lines))

    svg, frame = draw_framed(onto, height=2.8 + legend_height(list(lines)))
    at = sorted({float(x) for line in lines.values() for x in line.x})
    known = [_known(scene, label, line, at) for label, line in lines.items()]
    return Picture(svg, {**asdict(frame), "across": "step", "at": at, "lines": known})


def _known(scene: Scene, label: str, line: Series, at: Sequence[float]) -> dict[str, Any]:
    """Return the numbers of a line at all places of a chart; None where it has none."""
    columns = {"mean": line.mean, "low": line.low, "high": line.high}
    by_place = {name: dict(zip(line.x, values, strict=True)) for name, values in columns.items() if values is not None}
    numbers = {name: [_short(values.get(x)) for x in at] for name, values in by_place.items()}
    return {"name": label, "colour": variable(scene.looks[label].colour), **numbers}


def _short(value: float | None) -> float | None:
    """Return a number with no more digits than a reader of a figure needs."""
    return None if value is None else float(f"{value:.5g}")


@dataclass(frozen=True)
class Heights:
    mean: Array
    half: Array  # half of the interval; 0 if there is none

    @classmethod
    def of(cls, estimates: Sequence[Estimate]) -> "Heights":
        return cls(np.array([each.mean for each in estimates]), np.array([each.half or 0.0 for each in estimates]))


@dataclass(frozen=True)
class ByName:
    """Heights of each label for each name (a task or class)."""

    heights: Mapping[str, Heights]
    names: Sequence[str]
    xlabel: str
    ylabel: str
    fair: Array | None = None  # a mark for each name
    centre: float | None = None  # what is neither high nor low, in a matrix without marks
    percent: bool = False  # whether no value can be below 0 or above 100


def by_name(looks: Mapping[str, Look], values: ByName) -> Picture:
    """Draw bars for each name, or, if they would be too many, a matrix of them around `fair` or `centre`."""
    few = len(values.heights) * len(values.names) <= MOST_BARS
    return _bars(looks, values) if few else _matrix(values)


def _whiskers(heights: Heights, *, percent: bool) -> Array:
    """Return how far the whiskers reach below and above the means."""
    low, high = heights.mean - heights.half, heights.mean + heights.half
    if percent:
        low, high = low.clip(0, 100), high.clip(0, 100)
    return np.array([heights.mean - low, high - heights.mean])


def _bars(looks: Mapping[str, Look], values: ByName) -> Picture:
    """Draw bars for each name, side by side for the labels."""
    heights, names, fair = values.heights, values.names, values.fair
    count, places = len(heights), np.arange(len(names))
    labels = [*heights, *([] if fair is None else ["fair share"])]

    def onto(figure: Figure) -> None:
        axes = figure.subplots()
        axes.grid(axis="y")
        handles: list[Any] = []
        for place, (label, each) in enumerate(heights.items()):
            x = places + (place - (count - 1) / 2) * 0.8 / count
            errors = _whiskers(each, percent=values.percent) if each.half.any() else None
            drawn = axes.bar(x, each.mean, 0.74 / count, yerr=errors, error_kw=WHISKERS, **fill_style(looks[label]))
            mark(f"series-{place}", *_artists(drawn), *_artists(drawn.errorbar))
            handles.append(Patch(**fill_style(looks[label])))
        if fair is not None:
            axes.hlines(fair, places - 0.46, places + 0.46, color=INK, linewidth=1.4)
            handles.append(Line2D([], [], color=INK, linewidth=1.4))
        add_names(axes.set_xticks, names, room=AXIS)
        axes.set(xlabel=values.xlabel, ylabel=values.ylabel, xlim=(-0.6, len(names) - 0.4))
        low, high = axes.get_ylim()
        axes.set_ylim(min(0.0, low), min(102.0, high) if values.percent else high)
        if low < 0:
            axes.axhline(0, color=MUTED, linewidth=0.9)
        add_legend(figure, handles, labels)

    svg, frame = draw_framed(onto, height=2.8 + legend_height(labels))
    known = [_interval(label, looks[label], each) for label, each in heights.items()]
    known += [] if fair is None else [{"name": "fair share", "colour": variable(INK), "mean": [*map(_short, fair)]}]
    at = [float(place) for place in places]
    return Picture(svg, {**asdict(frame), "across": values.xlabel, "at": at, "names": list(names), "lines": known})


def _artists(container: Container | None) -> list[Artist]:
    return [] if container is None else list(container.get_children())


def _interval(label: str, look: Look, values: Heights) -> dict[str, Any]:
    known = {"name": label, "colour": variable(look.colour), "mean": [*map(_short, values.mean)]}
    if not values.half.any():
        return known
    ends = {"low": values.mean - values.half, "high": values.mean + values.half}
    return known | {name: [*map(_short, each)] for name, each in ends.items()}


def _matrix(values: ByName) -> Picture:
    """Draw the means as a matrix, below the fair shares if they are known."""
    fair, rows, means = values.fair, list(values.heights), np.array([each.mean for each in values.heights.values()])
    highest = 100.0 if values.percent else None
    if fair is not None:
        rows, means = ["fair share", *rows], np.vstack([fair, means])
        highest = float(fair.max())  # darkest: nothing, twice the fair share
    return heat_map(
        means,
        rows=rows,
        columns=values.names,
        xlabel=values.xlabel,
        ylabel="",
        numbers=len(values.names) <= MOST_NUMBERS,
        centre=values.centre if fair is None else fair,
        highest=highest,
        longest=36,
        size=(4.8, max(1.9, 0.8 + (0.19 if len(rows) <= 20 else 0.16) * len(rows))),
    )


def gains(rows: Mapping[str, Estimate], xlabel: str) -> Picture:
    """Draw a gain and its interval in each row, or its values if there is no interval, next to a line at 0."""
    labels, places = list(rows), np.arange(len(rows))

    def onto(figure: Figure) -> None:
        axes = figure.subplots()
        axes.grid(axis="x")
        axes.axvline(0, color=INK, linewidth=1.2)
        for place, each in enumerate(rows.values()):
            if each.half is not None:
                axes.hlines(place, each.mean - each.half, each.mean + each.half, color=PALETTE[0], linewidth=2.2)
            elif len(each.values) > 1:
                axes.plot(each.values, [place] * len(each.values), "|", color=PALETTE[0], markersize=8)
            fill = PALETTE[0] if each.half is not None else "none"
            axes.plot(each.mean, place, "o", color=PALETTE[0], markersize=5.5, markerfacecolor=fill)
        axes.set_yticks(places, [printable(label, 36) for label in labels], color=INK)
        axes.set(xlabel=xlabel, ylim=(len(rows) - 0.4, -0.6))
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)

    svg, frame = draw_framed(onto, height=max(1.5, 0.8 + 0.22 * len(rows)))
    known: dict[str, Any] = {
        "name": xlabel,
        "colour": variable(PALETTE[0]),
        "mean": [_short(each.mean) for each in rows.values()],
    }
    for name, sign in (("low", -1), ("high", 1)):
        ends = [None if each.half is None else each.mean + sign * each.half for each in rows.values()]
        known[name] = [*map(_short, ends)]
    at = [float(place) for place in places]
    values = {"across": "", "at": at, "names": labels, "sideways": True, "signed": True, "lines": [known]}
    return Picture(svg, {**asdict(frame), **values})
