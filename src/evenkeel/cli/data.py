"""`evenkeel data`: list, download, inspect and clear data sets."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenkeel.cli.console import DataFolder, decoding, notes, out, print_table, progress
from evenkeel.errors import SettingsError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evenkeel.data.dataset import DataSet
    from evenkeel.results.table import ResultTable

FEW = 16  # numbers of a vector whose means are shown

app = typer.Typer(help="List, download, inspect and clear data sets.", no_args_is_help=True)


@app.command("list")
def data_list(data: DataFolder = None) -> None:
    """List the data sets, where they are searched for, and what the cache holds decoded."""
    from evenkeel.data import cache
    from evenkeel.data.download import REPOSITORIES
    from evenkeel.data.readers.places import places
    from evenkeel.data.sources import SOURCES
    from evenkeel.results.formats import to_rich
    from evenkeel.results.table import ResultTable, Row

    rows = [
        Row.of(name, (source.__doc__ or "").split("\n")[0], "yes" if name in REPOSITORIES else "")
        for name, source in SOURCES.items()
    ]
    out.print(to_rich(ResultTable("Data sets", ["data set", "description", "evenkeel data get"], rows)))
    out.print("\nSearched in: " + ", ".join(map(str, places(data))), soft_wrap=True)
    cached = [
        Row.of(entry.name, entry.train, entry.test, entry.classes, round(entry.bytes / 1e6), str(entry.folder))
        for entry in cache.entries()
    ]
    if not cached:
        out.print("The cache is empty.")
        return
    out.print()
    print_table(ResultTable("Cache", ["decoded", "train", "test", "classes", "MB", "folder"], cached))


@app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="Name of the data set, such as cifar10 or cifar100.")],
    data: DataFolder = None,
) -> None:
    """Download a data set from the Hugging Face Hub. It is decoded on first use."""
    from evenkeel.data.download import get

    folder = get(name, root=data, progress=lambda what, *_: notes.print(what))  # the hub draws its own bar
    out.print(f"{name} is in {folder}")


@app.command("show")
def data_show(
    settings: Annotated[
        list[str], typer.Argument(help="A data set and its settings, such as cifar10, or folder path=photos.")
    ],
    data: DataFolder = None,
) -> None:
    """Load a data set, decoding it if necessary, and show its sizes, classes, moments and digest."""
    from evenkeel.experiment.config import load_config
    from evenkeel.experiment.setup import read_data

    name, *others = settings
    config = load_config({"data": {"name": name}}, [f"data.{each}" for each in others])
    with progress() as bar:
        place = bar.add_task(f"Reading {name}", total=None)
        data_set = read_data(config.data, data, decoding(bar, place))
    print_table(data_table(data_set))


@app.command("clear")
def data_clear(
    name: Annotated[str | None, typer.Argument(help="Name of a decoded data set. Default: all.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete all of them without a question.")] = False,
) -> None:
    """Delete decoded data from the cache. Your own files are never touched; decoding them again takes a while."""
    from evenkeel.data import cache

    cleared = sorted({entry.name for entry in cache.entries() if name in (None, entry.name)})
    if name is None and cleared and not yes:
        _require_consent(f"all decoded data sets: {', '.join(cleared)}")
    out.print(f"{cache.clear(name) / 1e6:.0f} MB freed: {', '.join(cleared) or 'nothing was decoded'}.")


def _require_consent(what: str) -> None:
    """Ask whether to delete something; raise SettingsError if nobody is there to answer."""
    if not sys.stdin.isatty():
        raise SettingsError(f"This would delete {what}. Give the name of one, or --yes.")
    typer.confirm(f"Delete {what}?", abort=True)


def data_table(data: "DataSet") -> "ResultTable":
    from evenkeel.results.table import ResultTable, Row

    sample = data.train.sample
    shown = ", ".join(data.classes[:20]) + (", ..." if len(data.classes) > 20 else "")
    facts = {
        "train / test": f"{len(data.train.y):,} / {len(data.test.y):,}",
        "sample": f"{sample} {data.train.x.dtype}" if sample else "texts, as UTF-8",
        "classes": f"{len(data.classes)}: {shown}",
    }
    if len(sample) == 3 or (len(sample) == 1 and sample[0] <= FEW):
        mean, std = (", ".join(f"{value:.4f}" for value in values) for values in _moments(data.train.x))
        facts["normalize"] = f"{{ mean = [{mean}], std = [{std}] }}"
    facts["digest"] = data.digest
    return ResultTable(data.name, ["", ""], [Row.of(*fact) for fact in facts.items()])


def _moments(x: "NDArray[Any]") -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """Return mean and deviation by channel of pixels scaled to 0..1, from counts of the 256 values, in blocks.

    Of vectors, return those of each number.
    """
    import numpy as np

    if x.dtype != np.uint8:
        others = (0, *range(2, x.ndim))
        return x.mean(axis=others, dtype=np.float64), x.std(axis=others, dtype=np.float64)
    levels = np.arange(256) / 255
    counts = np.zeros((x.shape[1], 256))
    for begin in range(0, len(x), 1000):  # numpy counts a copy with eight bytes per pixel
        for channel in range(x.shape[1]):
            counts[channel] += np.bincount(x[begin : begin + 1000, channel].ravel(), minlength=256)
    shares = counts / counts.sum(axis=1, keepdims=True)
    mean = shares @ levels
    return mean, np.sqrt(shares @ levels**2 - mean**2)
