"""What all commands share: where they print, how they show progress, options that mean the same everywhere."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from evenkeel.errors import RunError
from evenkeel.results.groups import in_order
from evenkeel.results.records import Results, find_runs

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
SaveEvery = Annotated[float, typer.Option(help="Seconds between checkpoints.", min=0)]


@contextmanager
def progress() -> Iterator[Progress]:
    with Progress(*PROGRESS, console=notes, transient=not notes.is_terminal) as bar:
        yield bar


def read_runs(folders: Sequence[Path]) -> list[Results]:
    """The runs below each folder, in an order for people: in a ledger they are named by hashes."""
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
