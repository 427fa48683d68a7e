"""Data sets by name. Each looks for its files in `root`, then in EVENKEEL_DATA, then in the user's cache."""
# ruff: noqa: ARG001 - all sources have one signature, even those that need no folder or report no progress

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenkeel.data import cache, own_files
from evenkeel.data.dataset import DataSet, Progress
from evenkeel.data.readers import cifar, folders, idx, images, layouts, names, splits
from evenkeel.data.readers import parquet as parquet_files
from evenkeel.data.readers.encoded import Encoded
from evenkeel.data.readers.places import find
from evenkeel.errors import one_of

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
        return own_files.listed(listings), partial(folders.read_listing, listings, name=name, shape=(3, 64, 64))

    looked_for = ["tiny-imagenet/data/train-*.parquet", "tiny-imagenet-200"]
    return cache.load("tiny-imagenet", {}, *find("tiny-imagenet", root, look, looked_for), progress)


def mnist(root: Path | None, *, progress: Progress) -> DataSet:
    """70,000 gray images of 28 x 28 pixels: handwritten digits."""
    digits = tuple(str(digit) for digit in range(10))
    homes = ("mnist", "MNIST/raw", "mnist/MNIST/raw")
    return _idx_set("mnist", root, progress, homes=homes, inner="mnist", classes=digits)


def fashion_mnist(root: Path | None, *, progress: Progress) -> DataSet:
    """70,000 gray images of 28 x 28 pixels in 10 classes of clothing."""
    homes = ("fashion-mnist", "fashion_mnist")
    classes = names.FASHION_MNIST
    return _idx_set("fashion-mnist", root, progress, homes=homes, inner="fashion_mnist", classes=classes)


def _idx_set(
    name: str, root: Path | None, progress: Progress, *, homes: Sequence[str], inner: str, classes: tuple[str, ...]
) -> DataSet:
    """Return a set of idx files, or of parquet files in the folder `inner` of the hub."""

    def look(place: Path) -> _Located | None:
        tables = _tables(
            place,
            [folder for home in homes for folder in (f"{home}/{inner}", home)],
            name=name,
            label="label",
            names=classes,
            shape=(1, 28, 28),
        )
        for folder in (*(place / home for home in homes), place):
            files = None if tables else idx.find_parts(folder)
            if files:
                return files, partial(idx.read_idx, files, name=f"{name} ({folder})", classes=classes)
        return tables

    looked_for = [f"{name}/{inner}/train-*.parquet", f"{name}/{idx.PARTS[0]}.gz"]
    return cache.load(name, {}, *find(name, root, look, looked_for), progress)


def svhn(root: Path | None, *, progress: Progress) -> DataSet:
    """99,289 images of 32 x 32 pixels: digits of house numbers."""
    parts = ("train_32x32.mat", "test_32x32.mat")

    def look(place: Path) -> _Located | None:
        home = next((one for one in (place / "svhn", place / "SVHN", place) if (one / parts[0]).is_file()), None)
        if home is None:
            return None
        files = (home / parts[0], home / parts[1])
        return list(files), partial(layouts.read_svhn, files, name=f"svhn ({home})")

    return cache.load("svhn", {}, *find("svhn", root, look, [f"svhn/{part}" for part in parts]), progress)


def core50(
    root: Path | None,
    *,
    progress: Progress,
    labels: Literal["object", "category"] = "object",
    size: images.Size = 32,
) -> DataSet:
    """164,866 images of 50 objects in 10 categories, filmed in 11 sessions, of which 3 are for testing."""
    one_of("labels", labels, ("object", "category"))
    list_files = partial(layouts.list_core50, labels=labels)
    homes = ("core50_128x128", "core50_32x32")
    return _listed_set("core50", root, progress, homes=homes, list_files=list_files, size=size, labels=labels)


def clear10(root: Path | None, *, progress: Progress, size: images.Size = 64) -> DataSet:
    """CLEAR: photos of 11 classes from ten periods of 2004 to 2014; the training samples are in the order of time."""
    homes = ("clear10", "CLEAR10", "CLEAR-10")
    return _listed_set("clear10", root, progress, homes=homes, list_files=layouts.list_clear, size=size)


def mini_imagenet(
    root: Path | None, *, progress: Progress, size: images.Size = 84, test_share: float = 1 / 6, seed: int = 0
) -> DataSet:
    """60,000 images of 100 classes of ImageNet; of each, 500 are learned and 100 tested."""
    list_files = partial(layouts.list_mini_imagenet, test_share=test_share, seed=seed)
    homes = ("mini-imagenet", "mini_imagenet", "miniimagenet")
    how: dict[str, Any] = {"size": size, "test_share": test_share, "seed": seed}
    return _listed_set("mini-imagenet", root, progress, homes=homes, list_files=list_files, sign="train.csv", **how)


def cub200(root: Path | None, *, progress: Progress, size: images.Size = 64) -> DataSet:
    """11,788 images of 200 kinds of birds (CUB-200-2011)."""
    homes = ("CUB_200_2011",)
    return _listed_set("cub200", root, progress, homes=homes, list_files=layouts.list_cub200, size=size)


def _listed_set(
    name: str,
    root: Path | None,
    progress: Progress,
    *,
    homes: Sequence[str],
    list_files: Callable[[Path], layouts.Listings],
    size: images.Size,
    sign: str = "",
    **settings: Any,
) -> DataSet:
    """Return a set of image files in the layout of its authors, resized to `size`."""
    sides = images.parse_size(size)

    def look(place: Path) -> _Located | None:
        home = _first(place, name, [f"{one}/{sign}" for one in homes])
        if home is None:
            return None
        home = home.parent if sign else home
        listings = list_files(home)
        read = partial(folders.read_listing, listings, name=f"{name} ({home})", size=sides)
        return own_files.listed(listings), read

    return cache.load(name, {**settings, "size": sides}, *find(name, root, look, homes), progress)


SOURCES: dict[str, Callable[..., DataSet]] = {
    "digits": digits,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "tiny-imagenet": tiny_imagenet,
    "fashion-mnist": fashion_mnist,
    "mnist": mnist,
    "svhn": svhn,
    "core50": core50,
    "clear10": clear10,
    "mini-imagenet": mini_imagenet,
    "cub200": cub200,
    "folder": own_files.folder,
    "csv": own_files.csv,
    "jsonl": own_files.jsonl,
    "parquet": own_files.parquet,
    "npz": own_files.npz,
    "huggingface": own_files.huggingface,
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
