"""Tables with a column for each number, or one of texts, and one of labels: CSV, JSON lines, parquet, data frames."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenkeel.data.readers import images
from evenkeel.data.readers.splits import stratified
from evenkeel.errors import DataError, nearest, reason, some

Table = Any  # a pyarrow.Table: pyarrow has no type information
LABELS = ("label", "labels", "target", "class")  # what a column of labels is called, in this order
ENCODED = ("data:", "iVBORw0KGgo", "/9j/")  # how base64 of images begins: in a URL, of a PNG, of a JPEG


def read_json_lines(file: Path) -> Table:
    """Read a file with one JSON object per line. Texts stay texts, even those that Arrow takes for dates."""
    import pyarrow as pa
    from pyarrow import json

    try:
        with file.open("rb") as lines:
            longest = max(map(len, lines), default=0)
        block = json.ReadOptions(block_size=max(2**20, longest + 1))  # an object must fit into a block
        table = json.read_json(file, block)
        dates = [(each.name, pa.string()) for each in table.schema if pa.types.is_timestamp(each.type)]
        return json.read_json(file, block, json.ParseOptions(pa.schema(dates))) if dates else table
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file} cannot be read as JSON lines of one form ({reason(error)}).") from error


def joined(parts: Sequence[Table], where: str) -> Table:
    """Return the rows of all parts; whole numbers in one and fractions in another become fractions."""
    import pyarrow as pa

    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"The files of {where} do not fit together ({reason(error)}). A column must hold the same kind of values "
            "in all of them."
        ) from error


@dataclass(frozen=True)
class Columns:
    """How rows become samples: texts, or numbers, with a column for each category that the training rows have."""

    label: str
    features: tuple[str, ...]
    categories: Mapping[str, tuple[Any, ...]]
    text: str | None = None  # the one column whose texts are the samples

    @classmethod
    def of(cls, table: Table, where: str, *, label: str | None, one_hot: bool, sample: str | None = None) -> "Columns":
        """Choose the columns: that of the labels; of the others the one of texts named, or all.

        A single one of texts need not be named.
        """
        names = [name for name in table.column_names if not name.startswith("__")]  # pandas adds an index
        label = label_column([name for name in names if name != sample], label, where)
        features = tuple(name for name in names if name != label)
        if not features:
            raise DataError(f"{where} has only the column {label!r}, which holds the labels.")
        if sample is not None and sample not in names:
            raise DataError(f"{where} has no column {sample!r}; it has {', '.join(names)}.{nearest(sample, names)}")
        texts = [name for name in features if not is_numeric(table.schema.field(name).type)]
        if sample is not None and sample not in texts:
            raise DataError(f"The column {sample!r} of {where}, which sample= names, holds numbers, not texts.")
        _refuse_others(table, texts if sample is None else [sample], where)
        alone = texts[0] if len(features) == len(texts) == 1 and not one_hot else None
        if text := sample or alone:
            return cls(label, (text,), {}, text)
        if texts and not one_hot:
            raise DataError(
                f"{where} has text in the column{'s' * (len(texts) > 1)} {some(texts)}, but a network takes numbers. "
                "Set one_hot=true to make a column of each category, or leave such columns out; or name the one whose "
                f"texts are the samples with sample=. (The column of labels, which label= names, is {label!r} here.)"
            )
        return cls(label, features, {name: tuple(sorted(set(_filled(table, name, where)))) for name in texts})

    def samples(self, table: Table, where: str) -> NDArray[Any]:
        """Return (rows, numbers), or (rows,) texts."""
        if self.text is not None:
            return texts_of(table, self.text, where)
        parts = [self._numbers(table, name, where) for name in self.features]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def _numbers(self, table: Table, name: str, where: str) -> NDArray[np.float64]:
        """Return (rows, 1) or (rows, categories)."""
        if name not in table.column_names:
            raise DataError(f"{where} has no column {name!r}; it has {', '.join(table.column_names)}.")
        values = _filled(table, name, where)
        known = self.categories.get(name)
        if known is None:
            return np.array(values, dtype=np.float64)[:, None]
        unknown = next((row for row, value in enumerate(values) if value not in known), None)
        if unknown is not None:
            raise DataError(
                f"{where}, row {unknown}, has {values[unknown]!r} in the column {name!r}, which no training row has: "
                f"they have {some(known)}."
            )
        return np.array([[value == one for one in known] for value in values], dtype=np.float64)


def label_column(names: Sequence[str], label: str | None, where: str) -> str:
    """Return the column of labels: the one named, or else one that is called so, or else the last."""
    if label is not None and label not in names:
        raise DataError(f"{where} has no column {label!r}; it has {', '.join(names)}.{nearest(label, names)}")
    if not names:
        raise DataError(f"{where} has no columns.")
    return label or next((name for name in LABELS if name in names), names[-1])


def labels_of(values: Sequence[object], where: str) -> NDArray[Any]:
    """Return (rows,) whole numbers or texts; raise DataError with the row where one is missing or fractional."""
    for row, value in enumerate(values):
        if value is None or value == "" or value != value:  # noqa: PLR0124 - NaN
            raise DataError(f"{where}, row {row}, has no label.")
        if isinstance(value, bytes):
            raise DataError(
                f"{where}, row {row}, has the label {value!r}. A label is a whole number or a text, in UTF-8."
            )
        if isinstance(value, float) and not value.is_integer():
            raise DataError(
                f"{where}, row {row}, has the label {value!r}. A label is a whole number or a text; is it a quantity "
                "to predict? Then group it into classes first."
            )
    if all(isinstance(value, float | int) for value in values):
        return np.array([int(value) for value in values], dtype=np.int64)  # type: ignore[call-overload]
    return np.array([str(value) for value in values])


def wide_data(
    tables: tuple[Table, Table | None],
    where: str,
    *,
    label: str | None = None,
    sample: str | None = None,
    standardize: bool = False,
    one_hot: bool = False,
    test_share: float = 0.25,
    seed: int = 0,
) -> tuple[Any, Any, Any, Any]:
    """Return x_train, y_train, x_test, y_test of a table of training rows and one of test rows, or of one to split."""
    train, test = tables
    columns = Columns.of(train, where, label=label, one_hot=one_hot, sample=sample)
    if columns.text is not None and standardize:
        raise DataError(f"The samples of {where} are texts, in the column {columns.text!r}; leave out standardize.")
    x_train, y_train = columns.samples(train, where), labels_of(column(train, columns.label), where)
    if test is None:
        kept, tested = stratified(y_train.tolist(), test_share, seed, where)
        x_test, y_test, x_train, y_train = x_train[tested], y_train[tested], x_train[kept], y_train[kept]
    elif columns.label not in test.column_names:
        raise DataError(f"The test rows of {where} have no column {columns.label!r}.")
    else:
        where = f"{where} (test)"
        x_test, y_test = columns.samples(test, where), labels_of(column(test, columns.label), where)
    if standardize:
        x_train, x_test = standardized(x_train, x_test, where)
    return x_train, y_train, x_test, y_test


def sample_pairs(
    table: Table, where: str, sample: str, label: str | None, size: tuple[int, int] | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the samples of one column, lists of numbers, base64 of images or texts, and the labels."""
    names = [name for name in table.column_names if name not in (sample, "id")]
    if sample not in table.column_names:
        raise DataError(f"{where} has no column {sample!r}; it has {', '.join(table.column_names)}.")
    y = labels_of(column(table, label_column(names, label, where)), where)
    cells = _filled(table, sample, where)
    if isinstance(cells[0], str) and sample != "image" and not cells[0].startswith(ENCODED):
        return texts_of(table, sample, where), y
    if isinstance(cells[0], str):
        encoded = [(_from_base64(cell, f"{where}, row {row}"), f"{where}, row {row}") for row, cell in enumerate(cells)]
        return images.decode(encoded, images.common_shape(encoded, size), resize=size is not None), y
    odd = next((row for row, cell in enumerate(cells) if len(cell) != len(cells[0])), None)
    if odd is not None:
        raise DataError(
            f"{where}, row {odd}, has {len(cells[odd])} numbers in {sample!r}, but row 0 has {len(cells[0])}."
        )
    return np.array(cells, dtype=np.float32), y


def texts_of(table: Table, name: str, where: str) -> NDArray[Any]:
    """Return (rows,) texts; raise DataError with the row of an empty one."""
    if name not in table.column_names:
        raise DataError(f"{where} has no column {name!r}; it has {', '.join(table.column_names)}.")
    texts = _filled(table, name, where)
    empty = next((row for row, text in enumerate(texts) if not text.strip()), None)
    if empty is not None:
        raise DataError(f"{where}, row {empty}, has an empty text in the column {name!r}.")
    return np.array(texts)


def _from_base64(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True)
    except ValueError:
        raise DataError(f"{where}, is not base64 of an image.") from None


def standardized(
    train: NDArray[Any], test: NDArray[Any], where: str
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return both with mean 0 and deviation 1 of each feature over the training samples; a constant one becomes 0."""
    if train.dtype.kind != "f":
        raise DataError(f"The samples of {where} are no floats, but images or texts; leave out standardize.")
    mean, spread = train.mean(axis=0, dtype=np.float64), train.std(axis=0, dtype=np.float64)
    spread = np.where(spread > 0, spread, 1.0)
    return ((train - mean) / spread).astype(np.float32), ((test - mean) / spread).astype(np.float32)


def column(table: Table, name: str) -> list[Any]:
    values: list[Any] = table.column(name).to_pylist()
    return values


def is_numeric(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _refuse_others(table: Table, names: Sequence[str], where: str) -> None:
    for name in names:
        kind = table.schema.field(name).type
        if not is_text(kind):
            raise DataError(f"{where} has {kind} in the column {name!r}; columns are numbers, or categories as text.")


def _filled(table: Table, name: str, where: str) -> list[Any]:
    """Return the values of a column; raise DataError with the row of a missing one."""
    values = column(table, name)
    for row, value in enumerate(values):
        if value is None or value != value:  # noqa: PLR0124 - NaN
            raise DataError(f"{where}, row {row}, has nothing in the column {name!r}.")
    return values
