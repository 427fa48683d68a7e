"""Parquet files as on the Hugging Face hub: a column of images or of features, one of labels, several shards."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenkeel.data.dataset import encode
from evenkeel.data.readers import images, tables
from evenkeel.data.readers.encoded import Encoded, EncodedSplit, Shape, block_length
from evenkeel.data.readers.names import settle
from evenkeel.errors import DataError, nearest, reason

TESTS = ("test", "valid", "val")  # in this order: val* would find valid*, too
Shards = tuple[list[Path], list[Path]]  # files of the training and of the test split


def find_shards(folder: Path, *, mark: str = "") -> Shards | None:
    """Return `train<mark>*.parquet` and `test<mark>*.parquet` (or `valid`) of a folder; None if it has no train."""
    train = _shards(folder, f"train{mark}")
    if not train:
        return None
    for name in TESTS:
        test = _shards(folder, f"{name}{mark}")
        if test:
            return train, test
    wanted = " or ".join(f"{name}{mark}*.parquet" for name in TESTS)
    raise DataError(f"{folder} has {train[0].name}, but no file {wanted} for the test split.")


def read_images(
    shards: Shards,
    *,
    name: str,
    image: str | None,
    label: str | None,
    names: Sequence[str] | None = None,
    shape: Shape | None = None,
    size: tuple[int, int] | None = None,
) -> Encoded:
    """Read the images of both splits. `names` and `shape` are those of a known set; if None, the files decide."""
    first = shards[0][0]
    image, label = image or image_column(first), label or _label_column(first)
    classes = settle(_class_names(first, label), names)
    splits, classes = _label_indices(shards, label, classes, name)
    if shape is None:
        every = (cell for files in shards for block in _cells(files, image, 1000) for cell in block)
        shape = images.common_shape(every, size)
    train, test = (
        EncodedSplit(y, partial(_blocks, files, image, shape, size is not None))
        for y, files in zip(splits, shards, strict=True)
    )
    return Encoded(shape, classes, train, test)


def read_features(
    shards: Shards, *, name: str, features: str, label: str | None
) -> tuple[tuple[NDArray[np.float32], ...], tuple[NDArray[np.int64], ...], tuple[str, ...]]:
    """Return x and y of both splits, and the classes."""
    label = label or _label_column(shards[0][0])
    labels, classes = _label_indices(shards, label, _class_names(shards[0][0], label), name)
    rows = [np.concatenate([_features(file, features) for file in files]) for files in shards]
    return tuple(rows), labels, classes


def rows_of(
    file: Path, *, sample: str | None, label: str | None, labelled: bool
) -> Iterator[tuple[bytes | NDArray[np.float32], str | int | None, str]]:
    """Yield for each row an encoded image or a vector, its label if `labelled`, and where it was read from."""
    labels: list[str | int | None] | None = None
    if labelled:
        column = label or _label_column(file)
        names = _class_names(file, column)
        values = _labels(file, column, names)
        labels = [names[index] for index in values] if names and values.dtype.kind in "iu" else values.tolist()
    features = feature_column(file, sample)
    if features is not None:
        cells: Iterator[tuple[Any, str]] = (
            (row, f"{file}, row {at}") for at, row in enumerate(_features(file, features))
        )
    else:
        cells = (cell for block in _cells([file], sample or image_column(file), 1000) for cell in block)
    for place, (cell, where) in enumerate(cells):
        yield cell, None if labels is None else labels[place], where


def is_wide(file: Path, sample: str | None) -> bool:
    """Return whether a file has a column for each number, or one of texts: neither images nor lists of features."""
    if sample is not None:
        kind = _columns(file).get(sample)
        return kind is not None and tables.is_text(kind)
    return not image_columns(file) and feature_column(file, None) is None


def whole_table(files: Sequence[Path]) -> Any:
    """Return all columns of these files."""
    parts = []
    for file in files:
        with _opened(file) as table:
            parts.append(table.read())
    return tables.joined(parts, str(files[0].parent))


def image_column(file: Path) -> str:
    """Return the one column that holds images."""
    return _only(file, image_columns(file), "images", "image")


def feature_column(file: Path, given: str | None) -> str | None:
    """Return the column of features: `given` if it holds any, or the only one in a file without images; else None."""
    columns = [name for name, kind in _columns(file).items() if _is_features(kind)]
    if given is not None:
        return given if given in columns else None
    return _only(file, columns, "features", "image") if columns and not image_columns(file) else None


def _shards(folder: Path, start: str) -> list[Path]:
    files = sorted(folder.glob(f"{start}*.parquet"))
    for file in files:
        count = re.search(r"-of-(\d+)\.parquet$", file.name)
        if count is not None and int(count[1]) != len(files):
            raise DataError(
                f"{folder} has {len(files)} of the {int(count[1])} files {start}*.parquet that {file.name} belongs to; "
                "the download may be incomplete."
            )
    return files


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as table:
            yield table
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file} is not a complete parquet file ({reason(error)}); download it again.") from error


def _columns(file: Path) -> dict[str, Any]:
    """Return the names and types of the columns, without the index that pandas adds."""
    with _opened(file) as table:
        return {field.name: field.type for field in table.schema_arrow if not field.name.startswith("__")}


def image_columns(file: Path) -> list[str]:
    """Return the columns that hold images."""
    return [name for name, kind in _columns(file).items() if _is_image(kind)]


def _label_column(file: Path) -> str:
    return _only(file, [name for name, kind in _columns(file).items() if _is_label(kind)], "labels", "label")


def _only(file: Path, columns: Sequence[str], what: str, setting: str) -> str:
    if len(columns) == 1:
        return columns[0]
    if not columns:
        raise DataError(f"{file} has no column of {what}; its columns are {', '.join(_columns(file))}.")
    raise DataError(
        f"{file} has {len(columns)} columns that could hold the {what}: {', '.join(columns)}; "
        f"choose one with {setting}=."
    )


def _is_image(kind: Any) -> bool:
    from pyarrow import types

    if types.is_struct(kind):
        place = kind.get_field_index("bytes")
        return place >= 0 and _is_image(kind.field(place).type)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _is_features(kind: Any) -> bool:
    from pyarrow import types

    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(lists and types.is_floating(kind.value_type))


def _is_label(kind: Any) -> bool:
    from pyarrow import types

    checks: tuple[Callable[[Any], bool], ...] = (types.is_integer, types.is_string, types.is_large_string)
    return any(check(kind) for check in (*checks, types.is_boolean, types.is_dictionary))


def _class_names(file: Path, column: str) -> list[str] | None:
    """Return the class names that the hub's metadata has for a column of labels, or None."""
    with _opened(file) as table:
        metadata = table.schema_arrow.metadata or {}
    try:
        names = json.loads(metadata[b"huggingface"])["info"]["features"][column]["names"]
    except (KeyError, TypeError, ValueError):  # no metadata, or none of this kind
        return None
    return [str(name) for name in names] if isinstance(names, list) else None


def _label_indices(
    shards: Shards, column: str, classes: Sequence[str] | None, name: str
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], tuple[str, ...]]:
    train, test = (np.concatenate([_labels(file, column, classes) for file in files]) for files in shards)
    return encode(train, test, classes, name)


def _labels(file: Path, column: str, classes: Sequence[str] | None) -> NDArray[Any]:
    """Return (rows,) whole numbers or strings."""
    import pyarrow as pa

    values = _read(file, column)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not _is_label(values.type):
        raise DataError(f"The column {column} of {file} is {values.type}; labels are whole numbers or strings.")
    _refuse_null(values, file, column)
    labels = np.array(values.to_pylist())
    if classes is not None and labels.dtype.kind in "iu":
        wrong = np.flatnonzero((labels < 0) | (labels >= len(classes)))
        if len(wrong):
            raise DataError(
                f"{file}, row {wrong[0]}, has the label {labels[wrong[0]]} in the column {column}, "
                f"but the {len(classes)} classes are 0 to {len(classes) - 1}."
            )
    return labels


def _features(file: Path, column: str) -> NDArray[np.float32]:
    """Return (rows, features)."""
    import pyarrow.compute as pc

    values = _read(file, column)
    if not _is_features(values.type):
        raise DataError(f"The column {column} of {file} is {values.type}, not lists of floats.")
    _refuse_null(values, file, column)
    lengths = pc.list_value_length(values).to_numpy()
    odd = np.flatnonzero(lengths != lengths[0])
    if len(odd):
        raise DataError(
            f"{file}, row {odd[0]}, has {lengths[odd[0]]} features in the column {column}, but row 0 has {lengths[0]}."
        )
    flat = pc.list_flatten(values).to_numpy()  # a missing number is a NaN now
    return np.ascontiguousarray(flat, dtype=np.float32).reshape(len(lengths), -1)


def _read(file: Path, column: str) -> Any:
    columns = _columns(file)
    if column not in columns:
        raise DataError(f"{file} has no column {column!r}; it has {', '.join(columns)}.{nearest(column, columns)}")
    with _opened(file) as table:
        values = table.read(columns=[column]).column(0)
    if not len(values):
        raise DataError(f"{file} has no rows.")
    return values


def _refuse_null(values: Any, file: Path, column: str) -> None:
    if values.null_count:
        row = values.is_null().index(True).as_py()
        raise DataError(f"{file}, row {row}, has nothing in the column {column}.")


def _cells(files: Sequence[Path], column: str, length: int) -> Iterator[list[images.Cell]]:
    """Yield encoded images, up to `length` at a time, each with its file and row."""
    for file in files:
        kind = _columns(file).get(column)
        if kind is None or not _is_image(kind):
            raise DataError(f"{file} has no column {column!r} of images.{nearest(column, _columns(file))}")
        row = 0
        with _opened(file) as table:
            for batch in table.iter_batches(batch_size=length, columns=[column]):
                cells = [cell["bytes"] if isinstance(cell, dict) else cell for cell in batch.column(0).to_pylist()]
                if None in cells:
                    raise DataError(f"{file}, row {row + cells.index(None)}, has no image in the column {column}.")
                yield [(cell, f"{file}, row {row + place}") for place, cell in enumerate(cells)]
                row += len(cells)


def _blocks(files: Sequence[Path], column: str, shape: Shape, resize: bool) -> Iterator[NDArray[np.uint8]]:
    for cells in _cells(files, column, block_length(shape)):
        yield images.decode(cells, shape, resize=resize)
