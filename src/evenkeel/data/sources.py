"""Data sets by name. Each looks for its files in `root`, then in EVENKEEL_DATA, then in the user's cache."""
# ruff: noqa: ARG001 - all sources have one signature, even those that need no folder or report no progress

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenkeel.data import cache
from evenkeel.data.dataset import DataSet, Progress
from evenkeel.data.readers import cifar, folders, idx, images, names, splits
from evenkeel.data.readers import parquet as parquet_files
from evenkeel.data.readers.encoded import Encoded
from evenkeel.data.readers.npz import read_npz
from evenkeel.data.readers.places import existing, find
from evenkeel.errors import DataError, one_of

_Located = tuple[list[Path], Callable[[], Encoded]]  # the files of a set, and how to read them


def digits(root: Path | None, *, progress: Progress, test_share: float = 0.25, seed: int = 0) -> DataSet:
    """scikit-learn's 1,797 handwritten digits of 8 x 8 pixels; no files needed."""
    x, y = _digits()
    train, test = splits.stratified(y, test_share, seed, "digits")
    classes = [str(digit) for digit in range(10)]
    return DataSet.of(x[train], y[train], x[test], y[test], classes=classes, name="digits")


@lru_cache(maxsize=1)
def _digits() -> tuple[NDArray[np.uint8], Any]:
    """Return images and labels; parsed once, because that takes as long as a good part of a short run."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None], bunch.target


def cifar10(root: Path | None, *, progress: Progress) -> DataSet:
    """60,000 images of 32 x 32 pixels in 10 classes."""

    def look(place: Path) -> _Located | None:
        return _tables(
            place,
            ("cifar10/plain_text", "cifar10"),
            name="cifar10",
            label="label",
            names=names.CIFAR10,
            shape=cifar.SHAPE,
        ) or _pickled(
            place,
            ("cifar-10-batches-py", "cifar-10-python.tar.gz"),
            name="cifar10",
            train=[f"data_batch_{number}" for number in range(1, 6)],
            test="test_batch",
            meta="batches.meta",
            labels="labels",
            names="label_names",
        )

    looked_for = ["cifar10/plain_text/train-*.parquet", "cifar-10-batches-py", "cifar-10-python.tar.gz"]
    return cache.load("cifar10", {}, *find("cifar10", root, look, looked_for), progress)


def cifar100(root: Path | None, *, progress: Progress, labels: Literal["fine", "coarse"] = "fine") -> DataSet:
    """60,000 images of 32 x 32 pixels in 100 classes, or in their 20 groups with labels="coarse"."""
    one_of("labels", labels, ("fine", "coarse"))

    def look(place: Path) -> _Located | None:
        return _tables(
            place,
            ("cifar100/cifar100", "cifar100"),
            name="cifar100",
            label=f"{labels}_label",
            names=names.CIFAR100 if labels == "fine" else names.CIFAR100_COARSE,
            shape=cifar.SHAPE,
        ) or _pickled(
            place,
            ("cifar-100-python", "cifar-100-python.tar.gz"),
            name="cifar100",
            train=["train"],
            test="test",
            meta="meta",
            labels=f"{labels}_labels",
            names=f"{labels}_label_names",
        )

    looked_for = ["cifar100/cifar100/train-*.parquet", "cifar-100-python", "cifar-100-python.tar.gz"]
    return cache.load("cifar100", {"labels": labels}, *find("cifar100", root, look, looked_for), progress)


def tiny_imagenet(root: Path | None, *, progress: Progress) -> DataSet:
    """110,000 images of 64 x 64 pixels in 200 classes, named by their WordNet ids; val is the test split."""

    def look(place: Path) -> _Located | None:
        tables = _tables(
            place, ("tiny-imagenet/data", "tiny-imagenet"), name="tiny-imagenet", label="label", shape=(3, 64, 64)
        )
        original = _first(place, "tiny-imagenet", ("tiny-imagenet-200",))
        if tables or original is None:
            return tables
        listings = folders.list_tiny_imagenet(original)
        name = f"tiny-imagenet ({original})"
        return _files(listings), partial(folders.read_listing, listings, name=name, shape=(3, 64, 64))

    looked_for = ["tiny-imagenet/data/train-*.parquet", "tiny-imagenet-200"]
    return cache.load("tiny-imagenet", {}, *find("tiny-imagenet", root, look, looked_for), progress)


def fashion_mnist(root: Path | None, *, progress: Progress) -> DataSet:
    """70,000 gray images of 28 x 28 pixels in 10 classes of clothing."""
    homes = ("fashion-mnist", "fashion_mnist")

    def look(place: Path) -> _Located | None:
        tables = _tables(
            place,
            [inner for home in homes for inner in (f"{home}/fashion_mnist", home)],
            name="fashion-mnist",
            label="label",
            names=names.FASHION_MNIST,
            shape=(1, 28, 28),
        )
        for folder in (*(place / home for home in homes), place):
            files = None if tables else idx.find_parts(folder)
            if files:
                name = f"fashion-mnist ({folder})"
                return files, partial(idx.read_idx, files, name=name, classes=names.FASHION_MNIST)
        return tables

    looked_for = ["fashion-mnist/fashion_mnist/train-*.parquet", f"fashion-mnist/{idx.PARTS[0]}.gz"]
    return cache.load("fashion-mnist", {}, *find("fashion-mnist", root, look, looked_for), progress)


def folder(
    root: Path | None,
    *,
    progress: Progress,
    path: str | Path,
    size: images.Size = None,
    test_share: float = 0.25,
    seed: int = 0,
) -> DataSet:
    """Your own images: `path/train/<class>/*` and `path/test/<class>/*`, or `path/<class>/*`, which is split."""
    where, sides = existing(path, root), images.parse_size(size)
    listings = folders.list_folder(where, test_share=test_share, seed=seed)
    read = partial(folders.read_listing, listings, name=str(where), size=sides)
    settings = {"source": "folder", "size": sides, "test_share": test_share, "seed": seed}
    return cache.load(where.resolve().name, settings, _files(listings), read, progress)


def parquet(
    root: Path | None,
    *,
    progress: Progress,
    path: str | Path,
    image: str | None = None,
    label: str | None = None,
    size: images.Size = None,
) -> DataSet:
    """Your own parquet files `train*.parquet` and `test*.parquet`, with images or lists of floats, and labels."""
    where, sides = existing(path, root), images.parse_size(size)
    if where.is_file():
        raise DataError(f"{where} is a single file; give the folder that has train*.parquet and test*.parquet.")
    candidates = [shards for one in (where, *sorted(where.glob("*/"))) if (shards := parquet_files.find_shards(one))]
    if not candidates:
        raise DataError(f"{where} has no files train*.parquet.")
    shards, name = candidates[0], where.resolve().name
    features = parquet_files.feature_column(shards[0][0], image)
    if features is not None:
        (x_train, x_test), (y_train, y_test), classes = parquet_files.read_features(
            shards, name=str(where), features=features, label=label
        )
        return DataSet.of(x_train, y_train, x_test, y_test, classes=classes, name=name)
    read = partial(parquet_files.read_images, shards, name=str(where), image=image, label=label, size=sides)
    settings = {"source": "parquet", "image": image, "label": label, "size": sides}
    return cache.load(name, settings, [*shards[0], *shards[1]], read, progress)


def npz(root: Path | None, *, progress: Progress, path: str | Path) -> DataSet:
    """Your own arrays x_train, y_train, x_test, y_test, and optionally names, in one .npz file."""
    return read_npz(existing(path, root))


SOURCES: dict[str, Callable[..., DataSet]] = {
    "digits": digits,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "tiny-imagenet": tiny_imagenet,
    "fashion-mnist": fashion_mnist,
    "folder": folder,
    "parquet": parquet,
    "npz": npz,
}


def _tables(place: Path, inside: Sequence[str], *, name: str, **how: Any) -> _Located | None:
    """Return the parquet files of a known set from the first of the folders that has them, or None."""
    for one in inside:
        shards = parquet_files.find_shards(place / one, mark="-")
        if shards is not None:
            read = partial(parquet_files.read_images, shards, name=f"{name} ({place / one})", image=None, **how)
            return [*shards[0], *shards[1]], read
    return None


def _pickled(place: Path, sources: Sequence[str], *, name: str, **parts: Any) -> _Located | None:
    """Return the original batches, in their folder or archive, or None."""
    source = _first(place, name, sources)
    if source is None:
        return None
    files = [source]
    if source.is_dir():
        inner = (source / part for part in (*parts["train"], parts["test"], parts["meta"]))
        files = [file for file in inner if file.is_file()]
    return files, partial(cifar.read_cifar, source, name=f"{name} ({source})", **parts)


def _first(place: Path, home: str, wanted: Sequence[str]) -> Path | None:
    """Return the first of the wanted files or folders that exists in `place` or in the set's folder there, or None."""
    candidates = (where / one for one in wanted for where in (place, place / home))
    return next((one for one in candidates if one.exists()), None)


def _files(listings: tuple[folders.Listing, folders.Listing]) -> list[Path]:
    return [file for listing in listings for file, _ in listing]
