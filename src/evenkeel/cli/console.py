"""What all commands share: consoles, progress bars, and options that mean the same everywhere.

Modules of the command line import heavy packages inside their functions so that `evenkeel --help` is fast.
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

# No markup: names of runs, classes and folders may contain brackets.
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
    typer.Option("--data", help="Folder with data sets, searched before EVENKEEL_DATA and the user's cache."),
]
LedgerFolder = Annotated[
    Path, typer.Option("--out", help="Folder of the ledger, which holds a folder per run and an index.")
]
Workers = Annotated[
    int | None,
    typer.Option(help="Parallel runs, each in its own process. Default: one per core. 0: run in this process.", min=0),
]
Ray = Annotated[
    str | None,
    typer.Option("--ray", help="Run on the Ray cluster at this address, or auto. --out must be on shared storage."),
]
Resources = Annotated[str, typer.Option(help="Resources per run on a Ray cluster, such as CPU=2,GPU=0.5.")]
OnlyList = Annotated[bool, typer.Option("--list", help="List the runs with estimates of their duration; run nothing.")]
Format = Annotated[str, typer.Option(help="Output format: text, markdown, latex, csv or html.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file instead of printing the table.")
]
SaveEvery = Annotated[float, typer.Option(help="Seconds between checkpoints.", min=0)]


@contextmanager
def progress() -> Iterator[Progress]:
    with Progress(*PROGRESS, console=notes, transient=not notes.is_terminal) as bar:
        yield bar


def read_runs(folders: Sequence[Path]) -> "list[Results]":
    """Read the runs below each folder and sort them for people: in a ledger, folders are named by hashes."""
    from evenkeel.results.groups import in_order
    from evenkeel.results.run_files import Results, find_runs

    runs = []
    for folder in folders:
        readable = []
        for each in find_runs([folder]):
            try:
                readable.append(Results.read(each))
            except RunError as error:  # for example of a run that is just starting
                notes.print(f"Left out: {error}")
        runs += in_order(readable)
    if not runs:
        raise RunError(f"None of the runs in {', '.join(map(repr, map(str, folders)))} has begun.")
    return runs
