"""What all commands share: consoles, progress bars, and options that mean the same everywhere.

Modules of the command line import heavy packages inside their functions so that `evenkeel --help` is fast.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from evenkeel.errors import RunError
from evenkeel.grids.execution import Execution

if TYPE_CHECKING:
    from evenkeel.grids.ledger import Ledger
    from evenkeel.results.run_files import Results
    from evenkeel.results.table import ResultTable

# No markup: names of runs, classes and folders may contain brackets.
out = Console(markup=False)
notes = Console(markup=False, stderr=True)

PROGRESS = (
    TextColumn("{task.description}", markup=False),
    BarColumn(),
    MofNCompleteColumn(),
    TimeRemainingColumn(),
)

DAMAGED = "Left out: {} is damaged. Delete it, and the grid that it is of will run it again."

_DATA_HELP = "Folder with data sets, searched before EVENKEEL_DATA and the user's cache."
_DEVICE_HELP = "Where to compute: auto (an accelerator if there is one), cpu, cuda, cuda:1 or mps."
Device = Annotated[str | None, typer.Option(help=_DEVICE_HELP)]
DataFolder = Annotated[Path | None, typer.Option("--data", help=_DATA_HELP, exists=True, file_okay=False)]
LedgerFolder = Annotated[
    Path, typer.Option("--out", help="Folder of the ledger, which holds a folder per run and an index.")
]
OnlyList = Annotated[bool, typer.Option("--list", help="List the runs with estimates of their duration; run nothing.")]
Format = Annotated[str, typer.Option(help="Output format: text, markdown, latex, csv or html.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file instead of printing the table.")
]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import", help="Import your own parts: a module that registers them, or one part, my_package.nets:build."
    ),
]
SaveEvery = Annotated[float, typer.Option(help="Seconds between checkpoints.", min=0)]
EXECUTION = {  # an option for each field of Execution
    "workers": Annotated[
        int | None,
        typer.Option(
            help="Parallel runs, each in its own process. Default: one per core. 0: run in this process.", min=0
        ),
    ],
    "ray": Annotated[
        str | None,
        typer.Option(help="Run on the Ray cluster at this address, or auto. --out must be on shared storage."),
    ],
    "resources": Annotated[str, typer.Option(help="Resources per run on a Ray cluster, such as CPU=2,GPU=0.5.")],
    "data": Annotated[Path | None, typer.Option(help=_DATA_HELP)],
    "save_every": SaveEvery,
    # Hidden because --workers and --ray imply one of our own launchers.
    "launcher": Annotated[str | None, typer.Option(hidden=True)],
    "device": Device,
}


def with_execution(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter `execution` by the options that one is made of."""

    @wraps(command)
    def called(**given: Any) -> None:
        execution = Execution(**{name: given.pop(name) for name in EXECUTION})
        command(**given, execution=execution)

    options = [
        Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=EXECUTION[each.name])
        for each in fields(Execution)
    ]
    own = signature(command)
    parameters = [
        option for each in own.parameters.values() for option in (options if each.name == "execution" else [each])
    ]
    called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads it
    return called


def with_imports(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option --import, for parts of the user's own."""

    @wraps(command)
    def called(*, imports: list[str] | None, **given: Any) -> None:
        if imports:
            from evenkeel.config.own import import_modules

            import_modules(imports)
        command(**given)

    own = signature(command)
    option = Parameter("imports", Parameter.KEYWORD_ONLY, default=None, annotation=Imports)
    named = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in own.parameters.values()]
    called.__signature__ = own.replace(parameters=[*named, option])  # type: ignore[attr-defined]  # typer reads it
    return called


@contextmanager
def progress() -> Iterator[Progress]:
    with Progress(*PROGRESS, console=notes, transient=not notes.is_terminal) as bar:
        yield bar


def decoding(bar: Progress, place: TaskID) -> Callable[[str, int, int], None]:
    """Return what shows in a bar how much of a data set has been decoded."""
    return lambda what, done, total: bar.update(place, description=what, completed=done, total=total)


def on_device(settings: Sequence[str] | None, device: str | None) -> list[str]:
    """Return overrides of a config with one for the device, if --device was given."""
    return [*(settings or []), *([] if device is None else [f"device={device}"])]


def print_table(table: "ResultTable") -> None:
    """Print a table: folded to the width of a terminal; with one line per row into a file or pipe."""
    from evenkeel.results.formats import render, to_rich

    if out.is_terminal:
        out.print(to_rich(table))
    else:
        print(render(table, "text"), end="")


def read_runs(folders: Sequence[Path]) -> "list[Results]":
    """Read the runs below each folder and sort them for people: in a ledger, folders are named by hashes."""
    from evenkeel.results.groups import in_order
    from evenkeel.results.run_files import PACKED, Results, find_runs, is_damaged

    runs = []
    for folder in folders:
        readable = []
        for each in find_runs([folder]):
            try:
                run = Results.read(each)
            except RunError as error:  # for example of a run that is just starting
                notes.print(f"Left out: {error}", soft_wrap=True)
                continue
            if each.name.endswith(PACKED):
                damaged = run.ended is None  # only finished runs are packed, and gzip checks that they are whole
            else:
                damaged = run.has_gaps or (run.ended is None and is_damaged(each))
            if damaged:
                notes.print(DAMAGED.format(each), soft_wrap=True)
            else:
                readable.append(run)
        runs += in_order(readable)
    if not runs:
        raise RunError(f"None of the runs in {', '.join(map(repr, map(str, folders)))} has begun.")
    return runs


def open_ledger(folder: Path) -> "Ledger":
    """Return a ledger, and report what is damaged in it."""
    from evenkeel.grids.ledger import Ledger

    ledger = Ledger(folder)
    for path in ledger.damaged():
        notes.print(DAMAGED.format(path), soft_wrap=True)
    return ledger
