"""`evenkeel data`: which data sets there are, where they are, how to get them."""

from typing import Annotated

import typer
from rich.table import Table

from evenkeel.cli.screen import DataFolder, notes, out, progress
from evenkeel.data import cache
from evenkeel.data.download import REPOSITORIES, get
from evenkeel.data.readers.places import places
from evenkeel.data.sources import SOURCES
from evenkeel.experiment import load_config
from evenkeel.experiment.course import load_data
from evenkeel.tables import data_table

app = typer.Typer(help="Data sets: which there are, where they are, how to get them.", no_args_is_help=True)


@app.command("list")
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


@app.command("get")
def data_get(name: Annotated[str, typer.Argument(help="cifar10, cifar100, ...")], data: DataFolder = None) -> None:
    """Download a data set from the Hugging Face hub. It is decoded when it is first used."""
    folder = get(name, root=data, progress=lambda what, *_: notes.print(what))  # the hub draws a bar of its own
    out.print(f"{name} is in {folder}")


@app.command("show")
def data_show(
    settings: Annotated[list[str], typer.Argument(help="A data set and its settings: cifar10, or folder path=photos.")],
    data: DataFolder = None,
) -> None:
    """Load a data set, decoding it if need be, and show what it is: sizes, classes, moments, digest."""
    name, *others = settings
    config = load_config({"data": {"name": name}}, [f"data.{each}" for each in others])
    with progress() as bar:
        place = bar.add_task(f"Reading {name}", total=None)
        found = load_data(
            config, data, lambda what, done, total: bar.update(place, description=what, completed=done, total=total)
        )
    out.print(data_table(found))


@app.command("clear")
def data_clear(name: Annotated[str | None, typer.Argument(help="A decoded set; all if left out.")] = None) -> None:
    """Delete decoded data from the cache. Files you put somewhere yourself are never touched."""
    out.print(f"{cache.clear(name) / 1e6:.0f} MB are free again.")
