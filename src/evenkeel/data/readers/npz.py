"""Arrays saved by numpy: x_train, y_train, x_test, y_test and optionally the class names."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenkeel.data.dataset import DataSet, channels_first
from evenkeel.data.readers import tables
from evenkeel.errors import DataError, nearest, reason

WANTED = ("x_train", "y_train", "x_test", "y_test")
NAMES = ("classes", "names")
ZIP, NPY = b"PK\3\4", b"\x93NUM"  # how files of several arrays and of a single one begin


def read_npz(file: Path) -> DataSet:
    """Return the data set of a file."""
    arrays = read_arrays(file)
    classes = next((arrays[name] for name in NAMES if name in arrays), None)
    if classes is not None and (classes.ndim != 1 or classes.dtype.kind not in "iuU"):
        raise DataError(f"The class names in {file} must be a list of strings, but are {classes.dtype}.")
    try:
        named = None if classes is None else classes.tolist()
        return DataSet.of(*(arrays[name] for name in WANTED), classes=named, name=file.stem)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None


def read_part(file: Path, part: str) -> tuple[NDArray[Any], list[Any]]:
    """Return the samples of one part, images with channels first, and their labels: by name, if there are names."""
    arrays = read_arrays(file)
    x, y = arrays[f"x_{part}"], tables.labels_of(arrays[f"y_{part}"].tolist(), str(file)).tolist()
    if len(x) != len(y):
        raise DataError(f"{file}: x_{part} has {len(x)} samples, but y_{part} has {len(y)} labels.")
    names = next((arrays[name].tolist() for name in NAMES if name in arrays and arrays[name].dtype.kind == "U"), None)
    if names is not None and all(isinstance(label, int) for label in y):
        wrong = next((label for label in y if not 0 <= label < len(names)), None)
        if wrong is not None:
            raise DataError(f"{file} has the label {wrong} in y_{part}, but only {len(names)} class names.")
        y = [names[label] for label in y]
    return channels_first(x, f"x_{part} of {file}") if x.dtype == np.uint8 else x, y


def read_arrays(file: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file by name."""
    try:
        with file.open("rb") as stream:  # numpy does not close a file that it cannot read
            if stream.read(4) not in (ZIP, NPY):
                raise DataError(f"{file} is not an .npz file; numpy.savez(file, x_train=..., y_train=...) writes one.")
            stream.seek(0)
            return _read(np.load(stream, allow_pickle=False), file)
    except DataError:
        raise
    except IsADirectoryError:
        raise DataError(f"{file} is a folder; an .npz file is needed.") from None
    except Exception as error:  # damaged archives and arrays raise BadZipFile, zlib.error, TokenError, EOFError...
        raise DataError(f"{file} cannot be read as an .npz of plain arrays ({reason(error)}).") from error


def _read(archive: Any, file: Path) -> dict[str, NDArray[Any]]:
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise DataError(f"{file} is a single array; an .npz with {', '.join(WANTED)} is needed.")
    for name in WANTED:
        if name not in archive.files:
            has = ", ".join(archive.files) or "nothing"
            raise DataError(f"{file} has no array {name!r}; it has {has}.{nearest(name, archive.files)}")
    # Read each only once: the archive decompresses an array at every access.
    return {name: _array(archive, name, file) for name in (*WANTED, *NAMES) if name in archive.files}


def _array(archive: Any, name: str, file: Path) -> NDArray[Any]:
    try:
        array: Any = archive[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):  # numpy's advice, which must not be followed with a file of others
            raise
        raise DataError(
            f"{name} in {file} holds Python objects; save an array of numbers, or of texts for labels."
        ) from None
    if not isinstance(array, np.ndarray):
        raise DataError(f"{name} in {file} is not an array.")
    return array
