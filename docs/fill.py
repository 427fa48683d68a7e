"""Fill README and docs from the ledgers under results/ and from the code: `make docs`.

A place to fill begins with a comment, such as <!-- $ evenkeel table results/digits -->, and ends at <!-- end -->. What
is made for one page only is in the module of `filling` with its name.
"""

import io
import os
import re
import shlex
from collections.abc import Callable
from contextlib import redirect_stdout

from matplotlib.figure import Figure

from benchmarks import service_figures
from docs.filling import keel, readme, reference, reproduction, tilt
from docs.filling.ledgers import OURS, PLAIN, ROOT
from evenkeel.cli import app
from evenkeel.report.svg import GRID, INK, MUTED, draw

PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("experiments", "keel", "measures", "reproduction", "service", "tilt")),
)
IMAGES = ROOT / "docs" / "images"
DARK = {INK: "#e6edf3", MUTED: "#9aa5b1", GRID: "#30363d", PLAIN: "#ff8f4d", OURS: "#58b4ff"}


def _output(command: str) -> str:
    """Return what a command of evenkeel prints."""
    output = io.StringIO()
    with redirect_stdout(output):
        app(shlex.split(command), standalone_mode=False)
    return output.getvalue().strip()


PLACES: dict[str, Callable[..., str]] = {
    r"\$ evenkeel (.+?)": _output,
    r"the keel in (\S+): (\S+), memory (\d+)": keel.table,
    r"the choice at (\d+)x": keel.choice,
    r"what presets cost": keel.costs,
    r"the numbers of (figure\d)": reproduction.numbers,
    r"what was run": reproduction.coverage,
    r"the full and the slim network": reproduction.widths,
    r"the same runs on two machines": reproduction.repeats,
    r"the learning rates": reproduction.rates,
    r"(variants|gains|streams|within) of (\S+)": tilt.table,
    r"the settings of the learner": reference.settings_of_the_learner,
    r"the measures": reference.measures,
    r"the service under load": service_figures.table,
}
"""What is written into a place, by its comment, whose groups are the arguments"""


def filled(text: str) -> str:
    """Return the text of a page with every place in it filled."""
    os.chdir(ROOT)  # the paths of ledgers in the commands are relative to it
    for comment, make in PLACES.items():
        text = _fill(text, comment, make)
    return text


def _fill(text: str, comment: str, make: Callable[..., str]) -> str:
    place = re.compile(rf"(<!-- {comment} -->\n).*?(?=<!-- end -->)", re.DOTALL)
    return place.sub(lambda found: f"{found[1]}\n{make(*found.groups()[1:])}\n\n", text)


def image(name: str) -> dict[str, str]:
    """Return a figure as two files of SVG, for light and dark pages, by their names."""
    light = FIGURES[name]()
    dark = re.sub(r"#[0-9a-f]{6}\b", lambda colour: DARK.get(colour[0], colour[0]), light)
    return {f"{name}-light.svg": light, f"{name}-dark.svg": dark}


def _drawn(onto: Callable[[Figure], None], height: float) -> Callable[[], str]:
    return lambda: draw(onto, width=7.2, height=height)


FIGURES: dict[str, Callable[[], str]] = {
    "digits": _drawn(readme.draw_stream, 2.7),
    "keel-fronts": _drawn(keel.draw, 6.0),
    "reproduction-gains": reproduction.gains,
    "figure1": lambda: reproduction.chart_of_paper("figure1", 0),
    "figure3": lambda: reproduction.chart_of_paper("figure3", 0),
    "figure4": lambda: reproduction.chart_of_paper("figure4", 0),
    "tilt-residual": _drawn(tilt.draw_residual, 2.5),
    "tilt-shares": _drawn(tilt.draw_shares, 2.5),
    "tilt-ablation": _drawn(tilt.draw_ablation, 2.5),
}

if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    IMAGES.mkdir(exist_ok=True)
    for figure in FIGURES:
        for name, svg in image(figure).items():
            (IMAGES / name).write_text(svg, encoding="utf-8")
