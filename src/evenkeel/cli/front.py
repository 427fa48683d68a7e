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
    from evenkeel.results.front import front_table
    from evenkeel.results.groups import benchmark, place_names

    one_of("format", format, FORMATS)
    runs = read_runs(folders)
    shown = [(scene.first, table) for scene in scenes(runs) if (table := front_table(scene.groups)).rows]
    if not shown:
        raise RunError("There is no front to show: none of these runs is finished with tests and a recorded time.")
    tables = [table for _, table in shown]
    if len(tables) > 1:
        first = [run for run, _ in shown]
        places = place_names(first, list(map(benchmark, first)))
        tables = [table.on(place) for table, place in zip(tables, places, strict=True)]
    show(tables, format, path)
    if page is not None:
        with notes.status("Drawing"):
            write_front(runs, page)
        notes.print(f"Page: {page.resolve()}", soft_wrap=True)
