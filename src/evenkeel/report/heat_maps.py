"""Heat maps, written as SVG by hand: a report may have a hundred, and matplotlib takes a third of a second for each."""

import base64
import io
from collections.abc import Sequence
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from PIL import Image

from evenkeel.report.axes import are_crowded, names_shown, text_width
from evenkeel.report.scene import Array
from evenkeel.report.svg import GRID, INK, MUTED, Picture

COLOURS = "Blues"
AROUND = "RdBu_r"  # the colours of values above and below a centre
MOST_PIXELS = 250  # per side; a larger matrix is scaled down
MOST_DIGITS = 10_000  # cells of a matrix with a decimal: of 200 classes they would make a page too large
TICK, TITLE, CELL = 9.0, 9.5, 8.0  # sizes of letters, in the units of the picture: points
GAP = 4.0
BAR = 9.0  # width of the scale of colours


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
    centre: Array | float | None = None,
    longest: int = 14,
    size: tuple[float, float] = (3.8, 3.5),
) -> Picture:
    """Draw a matrix; dark is high. `gamma` below 1 stresses small values; `borders`: thin lines before these rows.

    centre: what is neither high nor low, for each column; colours show the distance from it. longest: letters of a row.
    size: in inches.
    """
    distance = values if centre is None else values - centre
    norm = _norm(distance, highest, gamma, around=centre is not None)
    shades = np.asarray(norm(distance), dtype=np.float64)
    drawing = _Drawing(size, values.shape, COLOURS if centre is None else AROUND)
    drawing.add_names(rows, columns, (xlabel, ylabel), longest=longest, room=4.0 if numbers else 44.0)
    drawing.add_cells(shades)
    for border in borders:
        drawing.add_border(border)
    if numbers:
        drawing.add_numbers(values, shades > 0.55 if centre is None else abs(shades - 0.5) > 0.3)
    else:
        drawing.add_scale(norm)
    named = {
        "row_names": list(rows),
        "columns": list(columns),
        "row": ylabel,
        "column": xlabel,
        "cells": _cells(values),
    }
    return Picture(drawing.svg, {"box": drawing.box, **named})


def _norm(values: Array, highest: float | None, gamma: float, *, around: bool) -> Normalize:
    """Return the scale of colours, from 0 or, `around` a centre, from as far below it as above."""
    furthest = max(highest if highest is not None else float(np.abs(values).max(initial=0.0)), 1e-9)
    return Normalize(-furthest, furthest, clip=True) if around else PowerNorm(gamma, 0, furthest, clip=True)


def _cells(values: Array) -> list[list[float]]:
    """Return the numbers of a matrix as short as they can be written."""
    rounded = values.round(1 if values.size <= MOST_DIGITS else 0).tolist()
    return [[int(value) if value.is_integer() else value for value in row] for row in rounded]


class _Drawing:
    """An SVG of a matrix. The names come first: they determine how much room is left."""

    def __init__(self, size: tuple[float, float], shape: tuple[int, ...], colours: str) -> None:
        self.width, self.height = (72 * inches for inches in size)
        self.shape, self.colours = shape, colours
        extent = {"width": f"{self.width:g}pt", "height": f"{self.height:g}pt"}
        view = f"0 0 {self.width:g} {self.height:g}"
        self.root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "viewBox": view, **extent})
        self.root.set("font-family", "sans-serif")
        self.box = (0.0, 0.0, 0.0, 0.0)  # left, top, right, bottom

    @property
    def svg(self) -> str:
        return ET.tostring(self.root, encoding="unicode")

    def add_names(
        self, rows: Sequence[str], columns: Sequence[str], titles: tuple[str, str], *, longest: int, room: float
    ) -> None:
        """Choose the place of the matrix, and write names around it; `room`: to the right of it."""
        xlabel, ylabel = titles
        down = names_shown(rows, longest=longest, most=int(self.height / 6))
        across = names_shown(columns)
        left = (TITLE + GAP if ylabel else 0) + max(map(text_width, down.values())) + 2 * GAP
        upright = are_crowded(across, (self.width - room - left) / len(columns))
        below = max(map(text_width, across.values())) if upright else TICK
        bottom = self.height - below - TITLE - 3 * GAP
        self.box = (round(left, 2), 6.0, round(self.width - room, 2), round(bottom, 2))
        for place, name in down.items():
            self._text(name, (left - GAP, self._y(place) + 0.35 * TICK), anchor="end")
        for place, name in across.items():
            x, y = self._x(place), bottom + GAP
            if upright:
                self._text(name, (x + 0.35 * TICK, y), anchor="end", turned=True)
            else:
                self._text(name, (x, y + 0.8 * TICK))
        self._text(xlabel, ((self.box[0] + self.box[2]) / 2, self.height - GAP), TITLE, INK)
        if ylabel:
            self._text(ylabel, (TITLE, (self.box[1] + bottom) / 2), TITLE, INK, turned=True)

    def _x(self, column: float) -> float:
        return self.box[0] + (column + 0.5) / self.shape[1] * (self.box[2] - self.box[0])

    def _y(self, row: float) -> float:
        return self.box[1] + (row + 0.5) / self.shape[0] * (self.box[3] - self.box[1])

    def add_cells(self, shades: Array) -> None:
        left, top, right, bottom = self.box
        self._image(_smaller(shades), left, top, right - left, bottom - top)
        edges = _numbers(x=left, y=top, width=right - left, height=bottom - top)
        ET.SubElement(self.root, "rect", {**edges, "style": f"fill: none; stroke: {GRID}; stroke-width: 0.7"})

    def add_border(self, before: int) -> None:
        left, top, right, bottom = self.box
        x, y = self._x(before - 0.5), self._y(before - 0.5)
        for ends in (_numbers(x1=x, x2=x, y1=top, y2=bottom), _numbers(x1=left, x2=right, y1=y, y2=y)):
            ET.SubElement(self.root, "line", {**ends, "style": "stroke: #8c959f; stroke-width: 0.4"})

    def add_numbers(self, values: Array, is_dark: NDArray[np.bool_]) -> None:
        for (row, column), value in np.ndenumerate(values):
            # The colours of cells do not follow the theme of the page, so those of their numbers must not, either.
            colour = "#ffffff" if is_dark[row, column] else "#010101"
            self._text(str(round(value)), (self._x(column), self._y(row) + 0.35 * CELL), CELL, colour)

    def add_scale(self, norm: Normalize) -> None:
        left, (_, top, _, bottom) = self.box[2] + 6, self.box
        self._image(np.linspace(1, 0, 256)[:, None], left, top, BAR, bottom - top)
        low, high = float(norm.vmin or 0.0), float(norm.vmax or 0.0)
        for tick in MaxNLocator(5).tick_values(low, high):
            if low <= tick <= high:
                y = bottom - float(norm(tick)) * (bottom - top)
                text = f"{tick:g}".replace("-", "\u2212")
                self._text(text, (left + BAR + 3, min(y + 0.35 * TICK, bottom)), anchor="start")

    def _image(self, shades: Array, x: float, y: float, width: float, height: float) -> None:
        place = _numbers(x=x, y=y, width=width, height=height) | {"preserveAspectRatio": "none"}
        encoded = base64.b64encode(_png(shades, self.colours)).decode()
        style = "image-rendering: pixelated"
        ET.SubElement(self.root, "image", {**place, "style": style, "href": f"data:image/png;base64,{encoded}"})

    def _text(
        self,
        text: str,
        at: tuple[float, float],
        size: float = TICK,
        colour: str = MUTED,
        *,
        anchor: str = "middle",
        turned: bool = False,
    ) -> None:
        place = _numbers(x=at[0], y=at[1])
        if turned:
            place["transform"] = f"rotate(-90 {place['x']} {place['y']})"
        style = f"font-size: {size:g}px; text-anchor: {anchor}; fill: {colour}"
        ET.SubElement(self.root, "text", {**place, "style": style}).text = text


def _numbers(**attributes: float) -> dict[str, str]:
    return {name: f"{value:.6g}" for name, value in attributes.items()}


def _smaller(shades: Array) -> Array:
    """Return a matrix of at most `MOST_PIXELS` rows and columns: means of blocks."""
    for axis in (0, 1):
        starts = np.arange(0, shades.shape[axis], -(-shades.shape[axis] // MOST_PIXELS))
        sizes = np.diff(np.append(starts, shades.shape[axis]))
        shades = np.add.reduceat(shades, starts, axis=axis) / np.expand_dims(sizes, 1 - axis)
    return shades


def _png(shades: Array, colours: str) -> bytes:
    """Return a picture with one pixel for each value from 0 to 1, in this scale of colours."""
    palette = mpl.colormaps[colours].resampled(256)(np.arange(256), bytes=True)[:, :3]
    image = Image.fromarray((255 * shades).round().astype(np.uint8), mode="P")
    image.putpalette(palette.tobytes())
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()
