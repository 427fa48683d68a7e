"""Fill README and docs from the ledgers under results/: `make docs`.

A place to fill is a comment with a command, such as <!-- $ evenkeel table results/digits -->, and ends at <!-- end -->.
The settings of the learner come from its signature, the measures from the docstrings of their formulas.
The figures in docs/images are drawn here.
"""

import io
import os
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

from matplotlib.figure import Figure

from evenkeel.cli import app
from evenkeel.config.schema import LearnerSettings
from evenkeel.report.scene import Scene, series
from evenkeel.report.svg import GRID, INK, MUTED, PALETTE, draw
from evenkeel.results import metrics
from evenkeel.results.measures import MEASURES, NOTATION, Measure
from evenkeel.results.run_files import Results, find_runs

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("experiments", "measures", "reproduction")))
IMAGES = ROOT / "docs" / "images"
PLACE = re.compile(r"(<!-- \$ evenkeel (?P<command>.+?) -->\n).*?(?=<!-- end -->)", re.S)
LEARNER = re.compile(r"(<!-- the settings of the learner -->\n).*?(?=<!-- end -->)", re.S)
FORMULAS = re.compile(r"(<!-- the measures -->\n).*?(?=<!-- end -->)", re.S)
PLAIN, OURS = PALETTE[1], PALETTE[0]
DARK = {INK: "#e6edf3", MUTED: "#9aa5b1", GRID: "#30363d", PLAIN: "#ff8f4d", OURS: "#58b4ff"}


def filled(text: str) -> str:
    """Return the text of a page with the output of the commands in it."""

    def fill(place: re.Match[str]) -> str:
        output = io.StringIO()
        with redirect_stdout(output):
            app(shlex.split(place["command"]), standalone_mode=False)
        return f"{place[1]}\n{output.getvalue().strip()}\n\n"

    os.chdir(ROOT)  # the paths of ledgers in the commands are relative to it
    text = LEARNER.sub(lambda place: f"{place[1]}\n{_settings_of_the_learner()}\n\n", PLACE.sub(fill, text))
    return FORMULAS.sub(lambda place: f"{place[1]}\n{_measures()}\n\n", text)


def _settings_of_the_learner() -> str:
    """Return a table of what the signature of `Learner` and the config say about them."""
    rows = [
        f"| `{name}` | {'none' if field.default is None else field.default} | {field.description} |"
        for name, field in LearnerSettings.model_fields.items()
    ]
    return "\n".join(["| `[learner]` | default | |", "|---|---|---|", *rows])


def _measures() -> str:
    """Return the notation and, for each measure, its formula, who uses it and its name in commands."""
    return "\n\n".join([NOTATION, *(_measure(name, measure) for name, measure in MEASURES.items())])


def _measure(name: str, measure: Measure) -> str:
    formula, _, remark = measure.formula.partition("; ")
    about = f"{remark[0].upper()}{remark[1:]}." if remark else ""
    if not remark or all(each.formula != formula for each in MEASURES.values()):  # otherwise, another measure says it
        docstring = next(text for each in vars(metrics).values() if (text := each.__doc__ or "").startswith(formula))
        about = " ".join([*docstring.partition("\n")[2].split(), about])
    return f"## {measure.heading}\n\n```text\n{formula}\n```\n\n{about.strip()} In commands: `{name}`."


def images() -> dict[str, str]:
    """Return the figures as SVG, by name."""
    light = draw(_accuracy_along_the_stream, width=7.2, height=2.7)
    dark = re.sub(r"#[0-9a-f]{6}\b", lambda colour: DARK.get(colour[0], colour[0]), light)
    return {"digits-light.svg": light, "digits-dark.svg": dark}


def _accuracy_along_the_stream(figure: Figure) -> None:
    scene = Scene([Results.read(path) for path in find_runs([ROOT / "results" / "demo"])])
    axes = figure.subplots()
    axes.grid(axis="y")
    for end in scene.boundaries[:-1]:
        axes.axvline(end, color=GRID, linewidth=0.9)
    for group in scene.groups:
        colour, label = (OURS, f"ER with {group.adaptor}") if group.adaptor else (PLAIN, "plain replay (ER)")
        line = series(group.runs, lambda run: {each.step: each.mean for each in run.anytime})
        assert line is not None
        assert line.low is not None
        assert line.high is not None
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.16, linewidth=0)
        axes.plot(line.x, line.mean, color=colour)
        axes.annotate(label, (line.x[-1], line.mean[-1]), (6, 0), textcoords="offset points", color=colour, va="center")
    starts = [0, *scene.boundaries]
    for begin, end, task in zip(starts, starts[1:], scene.first.started.tasks, strict=False):
        digits = " and ".join(map(str, task["classes"]))
        axes.text((begin + end) / 2, 101.5, digits, ha="center", color=MUTED)
    axes.set(xlabel="batches of 10 images", ylabel="accuracy on the digits so far, %", ylim=(50, 101), xlim=(0, None))
    axes.margins(x=0)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    IMAGES.mkdir(exist_ok=True)
    for name, svg in images().items():
        (IMAGES / name).write_text(svg, encoding="utf-8")
