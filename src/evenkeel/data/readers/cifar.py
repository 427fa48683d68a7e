"""The original CIFAR files: batches pickled by Python 2, in a folder or in the archive they came in.

A pickle can call anything, so these are read by a restricted unpickler that accepts four names only. Each resolves to
a stand-in below, never to the real thing; the stand-ins build arrays of bytes and nothing else, so that no untrusted
byte reaches numpy's own unpickling either.
"""

import io
import math
import pickle
import tarfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenkeel.data.dataset import encode
from evenkeel.data.readers.encoded import Encoded, EncodedSplit, Shape, held
from evenkeel.errors import DataError, reason

SHAPE: Shape = (3, 32, 32)
_LARGEST = 2**29  # bytes; the largest file of the real sets has 155 MB


def read_cifar(
    source: Path, *, name: str, train: Sequence[str], test: str, meta: str, labels: str, names: str
) -> Encoded:
    """Read `source`, a folder or a .tar.gz; `labels` and `names` are the keys of the labels and of the class names."""
    files = _members(source, [*train, test, meta])
    classes = _entry(unpickle(files[meta], _where(source, meta)), names, _where(source, meta))
    if not isinstance(classes, list) or not all(isinstance(one, str) for one in classes):
        raise DataError(f"{names} in {_where(source, meta)} must be a list of names.")
    parts = [_batch(files[part], _where(source, part), labels, len(classes)) for part in (*train, test)]
    x_train = np.concatenate([x for x, _ in parts[:-1]])
    splits, known = encode(np.concatenate([y for _, y in parts[:-1]]), parts[-1][1], classes, name)
    return Encoded(SHAPE, known, EncodedSplit(splits[0], held(x_train)), EncodedSplit(splits[1], held(parts[-1][0])))


def unpickle(data: bytes, where: str) -> Any:
    """Return dicts, lists, strings, bytes, numbers and arrays of whole numbers; raise DataError for anything else."""
    try:
        return _Unpickler(data, where).load()
    except DataError:
        raise
    except Exception as error:  # damaged bytes are damaged instructions, which can raise anything
        raise DataError(f"{where} is not a complete pickle file ({reason(error)}); download it again.") from error


class _Array:
    """A stand-in for numpy.ndarray."""

    values: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[int, tuple[int, ...], "_Dtype", bool, str | bytes]) -> None:
        _, shape, dtype, fortran, content = state
        raw = content.encode("latin1") if isinstance(content, str) else content
        if math.prod(shape) * dtype.real.itemsize != len(raw):
            raise ValueError(f"an array of shape {shape} has {len(raw)} bytes")
        self.values = np.frombuffer(raw, dtype.real).reshape(shape, order="F" if fortran else "C")


class _Dtype:
    """A stand-in for numpy.dtype."""

    def __init__(self, code: str, *_: object) -> None:
        self.real = np.dtype(str(code))
        if self.real.kind not in "iu":
            raise ValueError(f"an array of {self.real}, which is not of whole numbers")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.real = self.real.newbyteorder(state[1])


class _Reconstruct:
    """Like `_Encode`, an object without attributes, because a pickle can set the attributes of the objects it names."""

    __slots__ = ()

    def __call__(self, *_: object) -> _Array:
        return _Array()  # its state comes next


class _Encode:
    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise ValueError(f"text in {encoding!r}")
        return text.encode(encoding)  # how Python 3 writes bytes for Python 2


_ADMITTED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Encode(),
}


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, where: str) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")
        self.where = where

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise DataError(
                f"{self.where} refers to {module}.{name}, which no data file needs; it was not run. "
                "Download the file again from a source you trust."
            )
        return _ADMITTED[module, name]


def _members(source: Path, wanted: Sequence[str]) -> dict[str, bytes]:
    """Return the content of the wanted files, by name."""
    try:
        if source.is_dir():
            contents = {name: (source / name).read_bytes() for name in wanted if (source / name).is_file()}
        else:
            contents = _untar(source, wanted)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DataError(f"{source} cannot be read to its end ({error}); download it again.") from error
    missing = [name for name in wanted if name not in contents]
    if missing:
        raise DataError(f"{source} lacks {', '.join(missing)}; the set is incomplete.")
    return contents


def _untar(archive: Path, wanted: Sequence[str]) -> dict[str, bytes]:
    """Return the wanted files of the archive, without writing anything to disk."""
    contents: dict[str, bytes] = {}
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            name = Path(member.name).name
            content = tar.extractfile(member) if name in wanted and member.size < _LARGEST else None
            if content is not None:
                contents[name] = content.read()
    return contents


def _batch(data: bytes, where: str, labels: str, classes: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return (n, 3, 32, 32) images and (n,) labels of one file."""
    batch = unpickle(data, where)
    stored, listed = _entry(batch, "data", where), _entry(batch, labels, where)
    pixels = stored.values if isinstance(stored, _Array) else None
    if pixels is None or pixels.dtype != np.uint8 or pixels.shape[1:] != (3072,):
        actual = "no array" if pixels is None else f"{pixels.dtype} of shape {pixels.shape}"
        raise DataError(f"data in {where} must be uint8 of shape (n, 3072), but is {actual}.")
    values = listed.values.tolist() if isinstance(listed, _Array) and listed.values is not None else listed
    if not isinstance(values, list) or len(values) != len(pixels):
        count = len(values) if isinstance(values, list) else "no list of"
        raise DataError(f"{where} has {len(pixels)} images, but {count} {labels}.")
    for place, label in enumerate(values):
        if type(label) is not int or not 0 <= label < classes:
            raise DataError(
                f"{where} has the label {label!r} at index {place}, but the {classes} classes are 0 to {classes - 1}."
            )
    return pixels.reshape(-1, *SHAPE), np.array(values, dtype=np.int64)


def _entry(content: Any, key: str, where: str) -> Any:
    if not isinstance(content, dict) or key not in content:
        has = f"has {', '.join(map(str, content))}" if isinstance(content, dict) else f"is a {type(content).__name__}"
        raise DataError(f"{where} has no {key!r}; it {has}.")
    return content[key]


def _where(source: Path, member: str) -> str:
    return str(source / member) if source.is_dir() else f"{member} in {source}"
