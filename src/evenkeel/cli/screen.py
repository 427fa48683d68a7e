"""What all commands share: where they print, how they show progress, options that mean the same everywhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from evenkeel.tables import PROGRESS

# No markup: names of runs, classes and folders may hold brackets.
out = Console(markup=False)
notes = Console(markup=False, stderr=True)

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with data sets, looked in before EVENKEEL_DATA and the user's cache."),
]
SaveEvery = Annotated[float, typer.Option(help="Seconds between checkpoints.", min=0)]


@contextmanager
def progress() -> Iterator[Progress]:
    with Progress(*PROGRESS, console=notes, transient=not notes.is_terminal) as bar:
        yield bar
