"""`evenkeel front`: accuracy against cost."""

from pathlib import Path
from typing import Annotated

import typer

from evenkeel.cli.console import Format, Output, notes, read_runs
from evenkeel.cli.tables import show
from evenkeel.errors import RunError, one_of


def front_command(
    folders: Annotated[list[Path], typer.Argument(help="Runs, or folders that contain runs, such as a ledger.")],
    format: Format = "text",
    path: Output = None,
    page: Annotated[Path | None, typer.Option(help="An HTML file to draw the front in.")] = None,
) -> None:
    """Show what each method reaches and what it costs, and mark those that no other beats in both.

    The unit of cost is plain ER, measured in the same runs.
    """
    from evenkeel.report.page import write_front
    from evenkeel.report.scene import scenes
    from evenkeel.results.formats import FORMATS
    from evenkeel.results.front import front_tables
    from evenkeel.results.groups import benchmark, place_names

    one_of("format", format, FORMATS)
    runs = read_runs(folders)
    by_scene = [(scene.first, by_size) for scene in scenes(runs) if (by_size := front_tables(scene.groups))]
    if not by_scene:
        raise RunError("There is no front to show: none of these runs is finished with tests and a recorded time.")
    first = [run for run, _ in by_scene]
    places = place_names(first, list(map(benchmark, first)))
    shown = {
        f"{place}, memory {memory}": table
        for place, (_, by_size) in zip(places, by_scene, strict=True)
        for memory, table in by_size.items()
    }
    tables = [table.on(place) for place, table in shown.items()] if len(shown) > 1 else list(shown.values())
    show(tables, format, path)
    if page is not None:
        with notes.status("Drawing"):
            write_front(runs, page)
        notes.print(f"Page: {page.resolve()}", soft_wrap=True)
