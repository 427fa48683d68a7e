"""From runs to one self-contained HTML file."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from evenkeel.errors import RunError
from evenkeel.files import is_writable, write_whole
from evenkeel.report import bias, comparison, matrices, sections
from evenkeel.report.answer import answer, findings
from evenkeel.report.elements import LONGEST, PageBlock, shown, unbroken
from evenkeel.report.front import front
from evenkeel.report.scene import Scene, scenes
from evenkeel.report.svg import printable
from evenkeel.results.groups import benchmark
from evenkeel.results.run_files import Results

ORDER = (
    comparison.comparison,
    comparison.what_was_compared,
    sections.accuracy_curves,
    bias.recency,
    sections.final_accuracy,
    matrices.accuracy_matrix,
    bias.class_forgetting,
    matrices.confusions,
    sections.alignment,
    sections.training,
    front,
    comparison.cost,
    comparison.measures,
    comparison.every_run,
)


def write_report(runs: Sequence[Results], path: Path, *, title: str = "Evenkeel report") -> list[str]:
    """Compare `runs` in one HTML file at `path`, and return the sentences that it begins with.

    An existing report stays intact until the new one is complete.
    """
    if not runs:
        raise RunError("There is nothing to report: no runs were given.")
    require_place(path, "report")
    separate = scenes(runs)
    names = [benchmark(scene.first) for scene in separate]
    blocks = [_block(scene, full_title=names.count(name) > 1) for scene, name in zip(separate, names, strict=True)]
    save(render(title, blocks), path, "report")
    return [f"{block.title}: {finding}" for block in blocks for finding in block.findings]


def write_front(runs: Sequence[Results], path: Path) -> None:
    """Draw accuracy against cost in one HTML file; raise RunError if too few methods recorded both."""
    blocks = [
        PageBlock(benchmark(scene.first, full=True), [], [section, comparison.what_was_compared(scene)])
        for scene in scenes(runs)
        if (section := front(scene)) is not None
    ]
    if not blocks:
        raise RunError(
            "There is no front to draw: fewer than three methods with the same memory have finished runs with recorded "
            "times, on a kind of machine on which plain ER was run, if it was."
        )
    save(render("Accuracy and cost", blocks), path, "page")


def require_place(path: Path, what: str) -> None:
    """Raise RunError, before anything is drawn, if no file can be written there; `what` names it in the message."""
    if path.is_dir():
        raise RunError(f"Cannot write the {what} to {str(path)!r}: it is a folder.")
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    if not nearest.is_dir():
        raise RunError(f"Cannot write the {what} to {str(path)!r}: {str(nearest)!r} is not a folder.")
    if not is_writable(nearest):
        raise RunError(f"Cannot write the {what} to {str(path)!r}: {str(nearest)!r} is read-only.")


def save(text: str, path: Path, what: str) -> None:
    """Write a file completely or not at all; `what` names it in error messages."""
    require_place(path, what)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise RunError(f"Cannot write the {what} to {str(path)!r}: {error.strerror or error}.") from error


def render(title: str, blocks: Sequence[PageBlock]) -> str:
    """Return the page; equal blocks give equal pages."""
    environment = Environment(
        loader=PackageLoader("evenkeel.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # numbers are most of a page
    environment.filters.update(shown=shown, unbroken=unbroken)
    numbers = count(1)
    template = environment.get_template("template.html.j2")
    return template.render(title=title, blocks=blocks, longest=LONGEST, next_id=lambda: f"p{next(numbers)}")


def _block(scene: Scene, *, full_title: bool) -> PageBlock:
    present = [section for make in ORDER if (section := make(scene)) is not None]
    return PageBlock(
        title=printable(benchmark(scene.first, full=full_title), LONGEST),
        findings=findings(scene, scene.headline),
        sections=[section for section in present if section.parts],
        answer=answer(scene),
    )
