"""Images in one folder per class, and Tiny ImageNet's variant of that layout."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenkeel.data.dataset import encode
from evenkeel.data.readers import images
from evenkeel.data.readers.encoded import Encoded, EncodedSplit, Shape, block_length
from evenkeel.data.readers.splits import stratified
from evenkeel.errors import DataError

Listing = list[tuple[Path, str]]  # files with their class names
TESTS = ("test", "val", "valid")
_KINDS = ", ".join(images.SUFFIXES)


def list_folder(path: Path, *, test_share: float, seed: int) -> tuple[Listing, Listing]:
    """Return training and test files: those in the folders `train` and `test` (or `val`), else a split by class."""
    if not path.is_dir():
        raise DataError(f"{path} is not a folder.")
    test = next((path / name for name in TESTS if (path / name).is_dir()), None)
    if (path / "train").is_dir() and test is not None:
        return by_class(path / "train"), by_class(test)
    if (path / "train").is_dir() or test is not None:
        has, lacks = ("train", f"any of {', '.join(TESTS)}") if test is None else (test.name, "train")
        raise DataError(f"{path} has the folder {has}, but not {lacks}.")
    files = by_class(path)
    train_rows, test_rows = stratified([label for _, label in files], test_share, seed, str(path))
    return [files[row] for row in train_rows], [files[row] for row in test_rows]


def list_tiny_imagenet(path: Path) -> tuple[Listing, Listing]:
    """Return training and test files of `tiny-imagenet-200`; its test split has no labels, so val serves as test."""
    wnids = sorted(lines_of(path / "wnids.txt"))
    train = [(file, wnid) for wnid in wnids for file in images_in(path / "train" / wnid / "images")]
    test = []
    annotations = path / "val" / "val_annotations.txt"
    for number, line in enumerate(lines_of(annotations), start=1):
        file, wnid = [*line.split("\t"), ""][:2]
        if wnid not in wnids:
            raise DataError(f"{annotations}, line {number}, has the class {wnid!r}, which wnids.txt does not list.")
        test.append((path / "val" / "images" / file, wnid))
    return train, test


def read_listing(
    listings: tuple[Listing, Listing], *, name: str, shape: Shape | None = None, size: tuple[int, int] | None = None
) -> Encoded:
    """Read both listings. `shape` is that of a known set; if None, it is determined from the images."""
    train, test = ([label for _, label in listing] for listing in listings)
    labels, classes = encode(train, test, None, name)
    files = [[(file, str(file)) for file, _ in listing] for listing in listings]
    if shape is None:
        shape = images.common_shape([*files[0], *files[1]], size)
    splits = (
        EncodedSplit(y, partial(_blocks, cells, shape, size is not None))
        for y, cells in zip(labels, files, strict=True)
    )
    return Encoded(shape, classes, *splits)


def by_class(folder: Path) -> Listing:
    """Return the images in the subfolders, each of which is named after its class."""
    classes = sorted(one for one in _entries(folder) if one.is_dir())
    if not classes:
        raise DataError(f"{folder} has no subfolders; it needs one for each class.")
    return [(file, one.name) for one in classes for file in images_in(one)]


def images_in(folder: Path) -> list[Path]:
    """Return the images directly inside, sorted by name; what is no image is left out."""
    entries = sorted(_entries(folder))
    unread = next((one for one in entries if one.suffix.lower() in images.UNREAD), None)
    if unread is not None:
        raise DataError(f"{unread} is an image of a kind that is not read; convert it to one of {_KINDS}.")
    files = [one for one in entries if one.suffix.lower() in images.SUFFIXES]
    if not files:
        raise DataError(f"{folder} has no images ({_KINDS}).")
    return files


def _entries(folder: Path) -> list[Path]:
    try:
        return [one for one in folder.iterdir() if not one.name.startswith(".")]
    except OSError as error:
        raise DataError(f"{folder} cannot be listed ({error.strerror}).") from error


def lines_of(file: Path) -> list[str]:
    """Return the lines of a text file that are not empty."""
    try:
        return [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read ({error}).") from error


def _blocks(cells: Sequence[images.Cell], shape: Shape, resize: bool) -> Iterator[NDArray[np.uint8]]:
    step = block_length(shape)
    for start in range(0, len(cells), step):
        yield images.decode(cells[start : start + step], shape, resize=resize)
