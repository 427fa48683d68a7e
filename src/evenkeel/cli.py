"""The command line: `evenkeel run`, `report`, `list`, `data`."""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from evenkeel.data import cache
from evenkeel.data.download import REPOSITORIES, get
from evenkeel.data.readers.places import places
from evenkeel.data.sources import SOURCES
from evenkeel.errors import EvenkeelError, RunError
from evenkeel.experiment import Config, load_config, run
from evenkeel.experiment.course import load_data
from evenkeel.results import Record, Results, Started, Stepped, find_runs
from evenkeel.tables import PROGRESS, config_tables, data_table, measures_table

app = typer.Typer(
    help="Learn from a stream in one pass, with a small memory, without tilting toward whatever came last.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
data_app = typer.Typer(help="Data sets: which there are, where they are, how to get them.", no_args_is_help=True)
app.add_typer(data_app, name="data")
# No markup: names of runs, classes and folders may hold brackets.
out = Console(markup=False)
notes = Console(markup=False, stderr=True)

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with data sets, looked in before EVENKEEL_DATA and the user's cache."),
]


@app.callback(invoke_without_command=True)
def _main(
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if show_version:
        out.print(f"evenkeel {version('evenkeel')}", highlight=False)
        raise typer.Exit


@app.command("run")
def run_command(
    config: Annotated[str, typer.Argument(help="A TOML file, or a preset such as paper/cifar10-er-cba.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting, as in method.name=derpp, adaptor.name=cba or seed=3."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder of the run. Default: runs/<data>-<scenario>-<name>-seed<seed>.")
    ] = None,
    data: DataFolder = None,
    save_every: Annotated[float, typer.Option(help="Seconds between checkpoints.", min=0)] = 30.0,
) -> None:
    """Run one config through its stream; started again after an interruption it goes on where it was.

    Records stream into the folder as JSON lines. `evenkeel list` explains what a config may hold.
    """
    checked = load_config(config, settings or [])
    folder = folder or Path("runs") / _slug(
        f"{checked.data['name']} {_scenario(checked)} {checked.name} seed{checked.seed}"
    )
    records: list[Record] = []
    try:
        with _progress() as bar:
            place = bar.add_task("Reading data", total=None)

            def decoding(what: str, done: int, total: int) -> None:
                bar.update(place, description=what, completed=done, total=total)

            for record in run(checked, out=folder, root=data, save_every=save_every, progress=decoding):
                records.append(record)
                if isinstance(record, Started):
                    title = f"{checked.name}, seed {checked.seed}"
                    bar.update(place, description=title, total=record.steps, completed=0)
                elif isinstance(record, Stepped):
                    bar.update(place, completed=record.step)
    except KeyboardInterrupt:
        notes.print("Stopped. The same command goes on where the last checkpoint is.")
        raise typer.Exit(130) from None
    out.print(measures_table([Results.of(records, folder)]))
    out.print(f"Records: {folder}\nReport:  evenkeel report {shlex.quote(str(folder))} -o report.html", soft_wrap=True)


@app.command("report")
def report_command(
    folders: Annotated[list[Path], typer.Argument(help="Runs, or folders with runs below them.")],
    path: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="Its title.")] = "Evenkeel report",
) -> None:
    """Compare runs in one HTML file that needs nothing else: tables, curves, confusion, configs."""
    from evenkeel.report import write_report  # here, because matplotlib is slow to import

    with notes.status("Drawing"):
        runs = []
        for folder in find_runs(folders):
            try:
                runs.append(Results.read(folder))
            except RunError as error:  # one that is just beginning, say
                notes.print(f"Left out: {error}")
        if not runs:
            raise RunError("None of these runs has begun.")
        write_report(runs, path, title=title)
    out.print(measures_table(runs))
    out.print(f"Report: {path.resolve()}", soft_wrap=True)


@app.command("list")
def list_command() -> None:
    """Show what a config may name: presets, data sets, scenarios, nets, methods, adaptors, augmentations; settings."""
    for table in config_tables():
        out.print(table)


@data_app.command("list")
def data_list(data: DataFolder = None) -> None:
    """Show the data sets, and what is decoded in the cache."""
    table = Table("data set", "what", "evenkeel data get", title="Data sets", title_justify="left")
    for name, source in SOURCES.items():
        table.add_row(name, (source.__doc__ or "").split("\n")[0], "yes" if name in REPOSITORIES else "")
    out.print(table)
    out.print("Looked for in: " + ", ".join(map(str, places(data))))
    cached = Table("decoded", "train", "test", "classes", "MB", "folder", title="Cache", title_justify="left")
    for entry in cache.entries():
        megabytes = f"{entry.bytes / 1e6:.0f}"
        cached.add_row(entry.name, str(entry.train), str(entry.test), str(entry.classes), megabytes, str(entry.folder))
    out.print(cached if cached.rows else "The cache is empty.")


@data_app.command("get")
def data_get(name: Annotated[str, typer.Argument(help="cifar10, cifar100, ...")], data: DataFolder = None) -> None:
    """Download a data set from the Hugging Face hub. It is decoded when it is first used."""
    folder = get(name, root=data, progress=lambda what, *_: notes.print(what))  # the hub draws a bar of its own
    out.print(f"{name} is in {folder}")


@data_app.command("show")
def data_show(
    settings: Annotated[list[str], typer.Argument(help="A data set and its settings: cifar10, or folder path=photos.")],
    data: DataFolder = None,
) -> None:
    """Load a data set, decoding it if need be, and show what it is: sizes, classes, moments, digest."""
    name, *others = settings
    config = load_config({"data": {"name": name}}, [f"data.{each}" for each in others])
    with _progress() as bar:
        place = bar.add_task(f"Reading {name}", total=None)
        found = load_data(
            config, data, lambda what, done, total: bar.update(place, description=what, completed=done, total=total)
        )
    out.print(data_table(found))


@data_app.command("clear")
def data_clear(name: Annotated[str | None, typer.Argument(help="A decoded set; all if left out.")] = None) -> None:
    """Delete decoded data from the cache. Files you put somewhere yourself are never touched."""
    out.print(f"{cache.clear(name) / 1e6:.0f} MB are free again.")


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


@contextmanager
def _progress() -> Iterator[Progress]:
    with Progress(*PROGRESS, console=notes, transient=not notes.is_terminal) as bar:
        yield bar


def _scenario(config: Config) -> str:
    return "" if config.scenario is None else str(config.scenario["name"])


def _slug(name: str) -> str:
    return "-".join("".join(each if each.isalnum() else " " for each in name.lower()).split())
