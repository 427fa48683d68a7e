"""Image sets in the layouts of their authors: lists of files with their classes, and SVHN's arrays of MATLAB."""

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenkeel.data.dataset import encode
from evenkeel.data.readers.encoded import Encoded, EncodedSplit, held
from evenkeel.data.readers.folders import Listing, by_class, images_in, lines_of
from evenkeel.data.readers.splits import stratified
from evenkeel.errors import DataError, reason

Listings = tuple[Listing, Listing]
CORE50_TEST = ("s3", "s7", "s10")  # the sessions that its authors test on
CORE50_CATEGORIES = (
    *("plug adapter", "mobile phone", "scissors", "light bulb", "can"),
    *("glasses", "ball", "marker", "cup", "remote control"),
)  # five objects of each, in this order


def list_core50(folder: Path, labels: str) -> Listings:
    """Return the images `s<session>/o<object>/*.png`, by object or by category; three sessions are for testing."""
    train, test = list[tuple[Path, str]](), list[tuple[Path, str]]()
    sessions = sorted((one for one in folder.glob("s*") if one.name[1:].isdigit()), key=lambda one: int(one.name[1:]))
    if not sessions:
        raise DataError(f"{folder} has no sessions s1, s2, ...; is it the folder core50_128x128?")
    for session in sessions:
        for thing in sorted(session.glob("o*"), key=lambda one: (len(one.name), one.name)):
            label = thing.name if labels == "object" else _category(thing)
            (test if session.name in CORE50_TEST else train).extend((file, label) for file in images_in(thing))
    return train, test


def _category(thing: Path) -> str:
    number = int(thing.name[1:]) if thing.name[1:].isdigit() else 0
    if not 1 <= number <= 50:
        raise DataError(f"{thing} is not one of the objects o1 to o50 of CORe50.")
    return CORE50_CATEGORIES[(number - 1) // 5]


def list_clear(folder: Path) -> Listings:
    """Return the images `<part>/labeled_images/<bucket>/<class>/*`, bucket by bucket: the years in their order."""
    return _buckets(folder / "train_image_only"), _buckets(folder / "test")


def _buckets(part: Path) -> Listing:
    home = part / "labeled_images"
    buckets = sorted((one for one in home.glob("*") if one.name.isdigit()), key=lambda one: int(one.name))
    if not buckets:
        raise DataError(f"{home} has no folders 1, 2, ..., one for each period.")
    return [pair for bucket in buckets for pair in by_class(bucket)]


def list_mini_imagenet(folder: Path, test_share: float, seed: int) -> Listings:
    """Return the images that train.csv, val.csv and test.csv list (filename, label), split by class.

    The three files divide the classes, for few-shot learning; here all classes are learned and tested.
    """
    files = []
    for part in ("train.csv", "val.csv", "test.csv"):
        for number, line in enumerate(csv.reader(lines_of(folder / part)), start=1):
            if line[:2] == ["filename", "label"]:
                continue
            if len(line) != 2:
                raise DataError(
                    f"{folder / part}, line {number}, must be a file and a label, but is {','.join(line)!r}."
                )
            files.append((folder / "images" / line[0], line[1]))
    train, test = stratified([label for _, label in files], test_share, seed, str(folder))
    return [files[row] for row in train], [files[row] for row in test]


def list_cub200(folder: Path) -> Listings:
    """Return the images that images.txt lists, with the classes and the split of the files next to it."""
    names = _numbered(folder / "classes.txt")
    labels, splits = _numbered(folder / "image_class_labels.txt"), _numbered(folder / "train_test_split.txt")
    parts: dict[str, Listing] = {"1": [], "0": []}
    for number, file in _numbered(folder / "images.txt").items():
        label, split = names.get(labels.get(number, "")), splits.get(number, "")
        if label is None or split not in parts:
            raise DataError(f"Image {number} of {folder / 'images.txt'} has no class, or no split, in the other files.")
        parts[split].append((folder / "images" / file, label))
    return parts["1"], parts["0"]


def _numbered(file: Path) -> dict[str, str]:
    """Return lines such as "1 001.Black_footed_Albatross" by their numbers."""
    pairs = [line.split(maxsplit=1) for line in lines_of(file)]
    wrong = next((number for number, pair in enumerate(pairs, start=1) if len(pair) != 2), None)
    if wrong is not None:
        raise DataError(f"{file}, line {wrong}, must be a number and a text.")
    return {number: text.strip() for number, text in pairs}


def read_svhn(files: tuple[Path, Path], *, name: str) -> Encoded:
    """Read train_32x32.mat and test_32x32.mat; their label 10 is the digit 0."""
    (x_train, y_train), (x_test, y_test) = map(_matlab, files)
    (train, test), classes = encode(y_train, y_test, [str(digit) for digit in range(10)], name)
    return Encoded((3, 32, 32), classes, EncodedSplit(train, held(x_train)), EncodedSplit(test, held(x_test)))


def _matlab(file: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    from scipy.io import loadmat

    try:
        content = loadmat(file, variable_names=["X", "y"])
        x, y = content["X"], content["y"].ravel()
    except Exception as error:  # a damaged file makes scipy raise almost anything
        raise DataError(f"{file} is not a complete file of MATLAB with X and y ({reason(error)}).") from error
    if x.dtype != np.uint8 or x.shape[:3] != (32, 32, 3) or x.shape[3:] != y.shape:
        raise DataError(f"X in {file} must be uint8 of shape (32, 32, 3, {len(y)}), but is {x.dtype} of {x.shape}.")
    if len(y) and not (y.min() >= 1 and y.max() <= 10):
        raise DataError(f"y in {file} must be digits from 1 to 10, where 10 is 0.")
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), (y % 10).astype(np.int64)
