"""The command line. Each group of commands has a file; `evenkeel --help` lists them."""

import os
import sys
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated

import typer

from evenkeel.cli import data, grids, ledger, report, run, service, tables, tune
from evenkeel.cli.console import notes, out
from evenkeel.errors import EvenkeelError

app = typer.Typer(
    help="Learn from a stream in one pass, with a small memory, without tilting toward whatever came last.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("run")(run.run_command)
app.command("report")(report.report_command)
app.command("table")(tables.table_command)
app.command("compare")(tables.compare_command)
app.command("reproduce")(grids.reproduce_command)
app.command("grid")(grids.grid_command)
app.command("tune")(tune.tune_command)
app.command("list")(run.list_command)
app.command("serve")(service.serve_command)
app.command("learn")(service.learn_command)
app.command("predict")(service.predict_command)
app.command("export")(service.export_command)
app.add_typer(service.keys, name="keys")
app.add_typer(ledger.app, name="ledger")
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
def _main(
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if show_version:
        out.print(f"evenkeel {version('evenkeel')}", highlight=False)
        raise typer.Exit


def main() -> None:
    """Errors on purpose are one message; anything else is our bug and keeps its traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no ± or ↑ shows a question mark
    try:
        app()
    except EvenkeelError as error:
        notes.print(str(error), style="red", highlight=False, soft_wrap=True)
        sys.exit(1)
    except BrokenPipeError:  # `evenkeel list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
