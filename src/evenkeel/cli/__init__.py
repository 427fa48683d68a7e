"""The command line. Each group of commands has its own file; `evenkeel --help` lists them."""

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import Annotated

import typer

from evenkeel import __version__
from evenkeel.cli import (
    backup,
    data,
    evaluate,
    front,
    grids,
    keys,
    learn,
    ledger,
    listing,
    report,
    run,
    service,
    tables,
    tune,
)
from evenkeel.cli.console import notes, with_imports
from evenkeel.errors import EvenkeelError, os_sentence
from evenkeel.files import keep_freed_memory

app = typer.Typer(
    help="Learn from a stream in one pass, with a small memory, without bias toward the newest classes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
COMMANDS: dict[str, dict[str, Callable[..., None]]] = {  # by help panel
    "Experiments": {
        "run": run.run_command,
        "report": report.report_command,
        "table": tables.table_command,
        "compare": tables.compare_command,
        "front": front.front_command,
        "list": listing.list_command,
    },
    "Many runs": {"reproduce": grids.reproduce_command, "grid": grids.grid_command, "tune": tune.tune_command},
    "Production": {
        "serve": service.serve_command,
        "learn": learn.learn_command,
        "predict": service.predict_command,
        "evaluate": evaluate.evaluate_command,
        "export": service.export_command,
        "backup": backup.backup_command,
        "restore": backup.restore_command,
        "check": backup.check_command,
    },
}
NO_PARTS = ("report", "table", "compare", "front", "backup", "restore", "check")  # they read results, or copy files
for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command if name in NO_PARTS else with_imports(command))
app.add_typer(ledger.app, name="ledger", rich_help_panel="Many runs")
app.add_typer(keys.app, name="keys", rich_help_panel="Production")
app.add_typer(data.app, name="data", rich_help_panel="Data")


@app.callback(invoke_without_command=True)
def _main(
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if show_version:
        print(f"evenkeel {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line. An expected error prints one message; anything else is a bug and keeps its traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± or ↑ shows a question mark
    if sys.argv[1:] == ["--version"]:  # typer would first import pydantic to parse it
        print(f"evenkeel {__version__}")
        return
    keep_freed_memory()
    try:
        app()
    except EvenkeelError as error:
        notes.print(str(error), style="red", highlight=False, soft_wrap=True)
        sys.exit(1)
    except BrokenPipeError:  # `evenkeel list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:  # of a disk, or of what its owner allows
        notes.print(os_sentence(error), style="red", highlight=False, soft_wrap=True)
        sys.exit(1)
