"""Figures as SVG inside an HTML page: text stays text, colours are CSS variables, ids are unique."""

import io
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.artist import Artist
from matplotlib.figure import Figure

INK, MUTED, GRID = "#1c2126", "#5b6570", "#d3d9df"
# Okabe and Ito: colour-blind readers can distinguish them too.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666")
_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid"} | {
    colour: f"--line-{place}" for place, colour in enumerate(PALETTE)
}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "evenkeel",
    "text.parse_math": False,  # a class may be called "$"
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.9,
    "lines.linewidth": 1.6,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"


@dataclass(frozen=True)
class Picture:
    """A figure as SVG, and its numbers as charts.js shows and saves them."""

    svg: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Frame:
    """Where the first axes of a figure are in its SVG, and what they span."""

    box: tuple[float, ...]  # left, top, right, bottom
    x: tuple[float, ...]  # limits
    y: tuple[float, ...]


def draw(onto: Callable[[Figure], None], *, width: float = 4.8, height: float = 3.0) -> str:
    """Return what `onto` draws on a figure of this size in inches, as SVG. Matplotlib's settings stay unchanged."""
    return _drawn(onto, width, height)[0]


def draw_framed(onto: Callable[[Figure], None], *, width: float = 4.8, height: float = 3.0) -> tuple[str, Frame]:
    """Return the same with the place of the axes, for a script that shows values under the pointer."""
    svg, figure = _drawn(onto, width, height)
    axes = figure.axes[0]
    box = axes.get_position()
    across, down = 72 * width, 72 * height
    edges = (across * box.x0, down * (1 - box.y1), across * box.x1, down * (1 - box.y0))
    limits = (tuple(float(f"{each:.6g}") for each in pair) for pair in (axes.get_xlim(), axes.get_ylim()))
    return svg, Frame(tuple(round(float(edge), 2) for edge in edges), *limits)


def _drawn(onto: Callable[[Figure], None], width: float, height: float) -> tuple[str, Figure]:
    with mpl.rc_context(), warnings.catch_warnings():
        # The reader's browser has glyphs that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph")
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(width, height), layout="constrained", dpi=144)
        onto(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return text.getvalue(), figure


def mark(name: str, *artists: Artist) -> None:
    """Give artists a name that `inline` turns into a class, so that a script finds them."""
    for place, artist in enumerate(artists):
        artist.set_gid(f"mark-{name}-{place}")


def inline(svg: str, prefix: str, label: str) -> Markup:
    """Return `svg` as part of an HTML page, read aloud as `label`; its ids begin with `prefix`."""
    root = ET.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{_SVG}style", f"{_SVG}metadata"):
                parent.remove(child)  # the style would apply to the whole page
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))
    ids = {old: f"{prefix}-{place}" for place, old in enumerate(sorted(used))}
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        old = element.attrib.pop("id", "")
        if old in ids:
            element.set("id", ids[old])
        elif marked := re.fullmatch(r"mark-(.+)-\d+", old):
            element.set("class", marked[1])
        if _HREF in element.attrib:
            target = element.attrib.pop(_HREF)
            element.set("href", "#" + ids[target[1:]] if target.startswith("#") else target)
        for name in ("style", "clip-path", "d"):
            if name in element.attrib:
                element.set(name, _rewrite(element.attrib[name], ids))
        element.tail = None
        if element.tag != "text":
            element.text = None
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label}
    return Markup(ET.tostring(root, encoding="unicode"))


def _rewrite(value: str, ids: dict[str, str]) -> str:
    """Return an attribute without line breaks, matplotlib's list of fonts and superfluous digits."""
    value = re.sub(r"url\(#([^)]+)\)", lambda match: f"url(#{ids[match[1]]})", value)
    value = re.sub(r"font-family: [^;]+; ?", "", value)
    value = re.sub(r"#[0-9a-f]{6}\b", lambda match: variable(match[0]), value)
    return re.sub(r"(\.\d\d)\d+", r"\1", " ".join(value.split()))


def variable(colour: str) -> str:
    """Return a colour as a page shows it: its own shade of it in the dark."""
    return f"var({_VARIABLES[colour]}, {colour})" if colour in _VARIABLES else colour


def printable(text: object, longest: int = 28) -> str:
    """Return a name fit for a figure: one line, not too long, nothing that XML forbids."""
    plain = "".join(letter if letter.isprintable() else "\ufffd" for letter in str(text))
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"
