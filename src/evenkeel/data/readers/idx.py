"""The idx files of MNIST and similar data sets, plain or gzipped."""

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenkeel.data.dataset import encode
from evenkeel.data.readers.encoded import Encoded, EncodedSplit, held
from evenkeel.errors import DataError

PARTS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def find_parts(folder: Path) -> list[Path] | None:
    """Return the four files, in the order of PARTS; None if the folder lacks the first."""
    files = [next((one for one in (folder / part, folder / f"{part}.gz") if one.is_file()), None) for part in PARTS]
    if files[0] is None:
        return None
    for file, part in zip(files, PARTS, strict=True):
        if file is None:
            raise DataError(f"{folder} has {files[0].name}, but neither {part} nor {part}.gz.")
    return [file for file in files if file is not None]


def read_idx(files: list[Path], *, name: str, classes: tuple[str, ...]) -> Encoded:
    x_train, y_train = _split(files[0], files[1], len(classes))
    x_test, y_test = _split(files[2], files[3], len(classes))
    if x_train.shape[1:] != x_test.shape[1:]:
        sizes = f"{x_train.shape[1:]}, but those of {files[2]} have {x_test.shape[1:]}"
        raise DataError(f"The images of {files[0]} have the size {sizes}.")
    (train, test), names = encode(y_train, y_test, classes, name)
    shape = (1, x_train.shape[1], x_train.shape[2])
    return Encoded(shape, names, EncodedSplit(train, held(x_train[:, None])), EncodedSplit(test, held(x_test[:, None])))


def _split(image_file: Path, label_file: Path, classes: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    x, y = _read(image_file, 3), _read(label_file, 1)
    if len(x) != len(y):
        raise DataError(f"{image_file} has {len(x)} images, but {label_file} has {len(y)} labels.")
    wrong = np.flatnonzero(y >= classes)
    if len(wrong):
        raise DataError(
            f"{label_file} has the label {y[wrong[0]]} at index {wrong[0]}, "
            f"but the {classes} classes are 0 to {classes - 1}."
        )
    return x, y


def _read(file: Path, dimensions: int) -> NDArray[np.uint8]:
    head = 4 + 4 * dimensions
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            start = stream.read(head)
            if len(start) < head or start[:4] != bytes([0, 0, 8, dimensions]):
                raise DataError(f"{file} does not begin like an idx file of bytes in {dimensions} dimensions.")
            shape = struct.unpack(f">{dimensions}I", start[4:])
            size = int(np.prod(shape, dtype=object))
            content = stream.read(size + 1)  # one byte too many, not all that a bomb would unpack to
    except (OSError, EOFError, zlib.error, OverflowError, MemoryError) as error:
        raise DataError(f"{file} cannot be read to its end ({error}); download it again.") from error
    if len(content) != size or not size:
        has = "more" if len(content) > size else f"{len(content):,}"
        raise DataError(f"{file} should have {size:,} bytes after its header, but has {has}.")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
