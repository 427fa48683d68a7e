"""CSV files, whose values have no types: columns get the type that all values have, labels stay as they are written."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from evenkeel.data.readers.tables import Table, joined, label_column
from evenkeel.errors import DataError, reason


def read_labelled(
    splits: Sequence[Sequence[Path]],
    where: str,
    *,
    label: str | None,
    sample: str | None,
    header: bool = True,
    delimiter: str | None = None,
) -> tuple[list[Table], str]:
    """Return a table of the files of each split, and the column of labels, by the names in the first file."""
    names = read_csv(splits[0][0], header=header, delimiter=delimiter).column_names
    label = label_column([name for name in names if name != sample and not name.startswith("__")], label, where)
    tables = [
        joined([read_csv(file, header=header, delimiter=delimiter, text=label) for file in files], where)
        for files in splits
    ]
    return _with_numbers(tables, label), label


def read_csv(file: Path, *, header: bool = True, delimiter: str | None = None, text: str | None = None) -> Table:
    """Read a CSV file, or one with tabs if its name ends so. `text` is a column that is not to become numbers."""
    import pyarrow as pa
    from pyarrow import csv

    separator = delimiter or ("\t" if file.suffix == ".tsv" else ",")
    try:
        table = csv.read_csv(
            file,
            read_options=csv.ReadOptions(autogenerate_column_names=not header),
            parse_options=csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types={} if text is None else {text: pa.string()}),
        )
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file} cannot be read as CSV ({reason(error)}).") from error
    if header and _are_values(table.column_names):
        raise DataError(
            f"{file} seems to have no names in its first line, but values ({', '.join(table.column_names[:3])}, ...). "
            "Add a line with names, or set header=false."
        )
    binary = next((field.name for field in table.schema if pa.types.is_binary(field.type)), None)
    if binary is not None:
        raise DataError(f"{file} is not UTF-8 in the column {binary!r}; save it as UTF-8.")
    return table


def _with_numbers(tables: Sequence[Table], label: str) -> list[Table]:
    """Return the tables with numbers in the column of labels, if they are numbers in all of them."""
    import pyarrow as pa

    there = [table for table in tables if label in table.column_names]  # the test rows may lack it
    texts = pa.chunked_array([chunk for table in there for chunk in table.column(label).chunks], pa.string())
    kind = _number_type(_with_missing(texts))
    if kind is None:
        return list(tables)
    return [_with_labels(table, label, kind) if label in table.column_names else table for table in tables]


def _with_labels(table: Table, label: str, kind: Any) -> Table:
    place = table.column_names.index(label)
    return table.set_column(place, label, _with_missing(table.column(label)).cast(kind))


def _with_missing(texts: Any) -> Any:
    """Return texts with null in the place of those that stand for a missing number, such as NA."""
    import pyarrow as pa
    from pyarrow import compute, csv

    missing = compute.is_in(texts, value_set=pa.array(csv.ConvertOptions().null_values))
    return compute.if_else(missing, pa.scalar(None, pa.string()), texts)


def _number_type(texts: Any) -> Any:
    """Return the type of numbers that texts are; None if they are none, or would lose something, as 007 its zeros."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        whole = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        pass
    else:
        return pa.int64() if whole.cast(pa.string()).equals(texts) else None
    try:
        texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    too_long = compute.all(compute.utf8_is_decimal(texts)).as_py()  # whole numbers that a float would round
    return None if too_long else pa.float64()


def _are_values(names: Sequence[str]) -> bool:
    """Return whether these seem to be a row: numbers, but for one label. Numbers that count are names of columns."""
    numbers = [float(name) for name in names if _is_number(name)]
    counted = all(after == before + 1 for before, after in pairwise(numbers)) and len(numbers) > 1
    return len(numbers) == len(names) or (len(numbers) == len(names) - 1 > 0 and not counted)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
