"""`evenkeel report`: compare runs on one page."""

from pathlib import Path
from typing import Annotated

import typer

from evenkeel.cli.console import notes, out, read_runs


def report_command(
    folders: Annotated[list[Path], typer.Argument(help="Runs, or folders that contain runs.")],
    path: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Evenkeel report",
) -> None:
    """Compare runs in one self-contained HTML file: tables, curves, confusion matrices, configs."""
    from evenkeel.report.page import write_report
    from evenkeel.results.formats import to_rich
    from evenkeel.results.overview import measures_table

    with notes.status("Drawing"):
        runs = read_runs(folders)
        write_report(runs, path, title=title)
    out.print(to_rich(measures_table(runs)))
    out.print(f"Report: {path.resolve()}", soft_wrap=True)
