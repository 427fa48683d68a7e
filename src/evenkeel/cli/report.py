"""`evenkeel report`: many runs in one page."""

from pathlib import Path
from typing import Annotated

import typer

from evenkeel.cli.console import notes, out, read_runs


def report_command(
    folders: Annotated[list[Path], typer.Argument(help="Runs, or folders with runs below them.")],
    path: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="Its title.")] = "Evenkeel report",
) -> None:
    """Compare runs in one HTML file that needs nothing else: tables, curves, confusion, configs."""
    from evenkeel.report.page import write_report
    from evenkeel.results.formats import to_rich
    from evenkeel.results.overview import measures_table

    with notes.status("Drawing"):
        runs = read_runs(folders)
        write_report(runs, path, title=title)
    out.print(to_rich(measures_table(runs)))
    out.print(f"Report: {path.resolve()}", soft_wrap=True)
