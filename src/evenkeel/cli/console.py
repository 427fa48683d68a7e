"""What all commands share: where they print, how they show progress, options that mean the same everywhere.

Modules of the command line import heavy rooms inside their functions, so that `evenkeel --help` answers at once.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from evenkeel.errors import RunError

if TYPE_CHECKING:
    from evenkeel.results.run_files import Results

# No markup: names of runs, classes and folders may hold brackets.
out = Console(markup=False)
notes = Console(markup=False, stderr=True)

PROGRESS = (
    TextColumn("{task.description}", markup=False),
    BarColumn(),
    MofNCompleteColumn(),
    TimeRemainingColumn(),
)

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with data sets, looked in before EVENKEEL_DATA and the user's cache."),
]
LedgerFolder = Annotated[Path, typer.Option("--out", help="The ledger: a folder for each run, and an index.")]
Workers = Annotated[
    int | None,
    typer.Option(help="Runs at once, each in a process. Default: one for each core. 0: in this process.", min=0),
]
Ray = Annotated[
    str | None, typer.Option("--ray", help="Run on a Ray cluster: its address, or auto. --out must be shared storage.")
]
Resources = Annotated[str, typer.Option(help="Of each run on a Ray cluster, as in CPU=2,GPU=0.5.")]
OnlyList = Annotated[bool, typer.Option("--list", help="Show the runs, and how long they will take; run nothing.")]
Format = Annotated[str, typer.Option(help="text, markdown, latex, csv or html.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="A file to write instead of showing the table.")]
SaveEvery = Annotated[float, typer.Option(help="Seconds between checkpoints.", min=0)]


@contextmanager
def progress() -> Iterator[Progress]:
    with Progress(*PROGRESS, console=notes, transient=not notes.is_terminal) as bar:
        yield bar


def read_runs(folders: Sequence[Path]) -> "list[Results]":
    """The runs below each folder, in an order for people: in a ledger they are named by hashes."""
    from evenkeel.results.groups import in_order
    from evenkeel.results.run_files import Results, find_runs

    runs = []
    for folder in folders:
        found = []
        for each in find_runs([folder]):
            try:
                found.append(Results.read(each))
            except RunError as error:  # one that is just beginning, say
                notes.print(f"Left out: {error}")
        runs += in_order(found)
    if not runs:
        raise RunError(f"None of the runs in {', '.join(map(repr, map(str, folders)))} has begun.")
    return runs
