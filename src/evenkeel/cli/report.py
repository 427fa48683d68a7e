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

    with notes.status("Drawing"):
        findings = write_report(read_runs(folders), path, title=title)
    for finding in findings:
        out.print(finding)
    out.print(f"Report: {path.resolve()}", soft_wrap=True)
