"""Samples for the command line, read from a folder of images, from tables, arrays or JSON lines."""

import hashlib
import json
import random
import sys
from collections.abc import Container, Hashable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from evenkeel.data.readers import csv_files, folders, images, npz, parquet, tables
from evenkeel.errors import DataError, InputError
from evenkeel.learning.texts import to_bytes
from evenkeel.service import samples
from evenkeel.service.config import ServiceConfig
from evenkeel.service.http.schemas import Schemas

STDIN = "-"
LABELLED = {"label", "id"}  # fields that only lines to learn from have
NO_LABEL = "(no label)"
PARTS = {"train": ("train",), "test": folders.TESTS}  # names of folders, and beginnings of names of parquet files


@dataclass(frozen=True)
class Item:
    """A sample, and where it was read from."""

    where: str
    x: bytes  # packed for the journal
    label: Hashable = None
    id: str | None = None


@dataclass(frozen=True)
class Feed:
    """A source of samples. `sample` and `label` name the columns to read from a table that has several.

    `part` is the part to read of a folder that has one for training and one for testing.
    """

    source: str
    config: ServiceConfig
    sample: str | None = None
    label: str | None = None
    part: Literal["train", "test"] = "train"

    def items(self, *, labelled: bool) -> Iterator[Item]:
        """Yield the samples of the source; raise DataError for one that cannot be used."""
        path = Path(self.source)
        if self.source == STDIN or path.suffix in (".jsonl", ".ndjson"):
            try:
                yield from self._lines(labelled)
            except UnicodeDecodeError:
                raise DataError(f"{self.source!r} is not text in UTF-8.") from None
        elif path.suffix == ".parquet" or (path.is_dir() and any(path.glob("*.parquet"))):
            yield from self._rows(path, labelled)
        elif path.suffix in (".csv", ".tsv") and path.is_file():
            yield from self._table(self._csv(path, labelled), path, labelled)
        elif path.suffix == ".npz" and path.is_file():
            yield from self._arrays(path, labelled)
        elif path.is_dir():
            yield from self._images(path, labelled)
        elif path.suffix.lower() in images.SUFFIXES and path.is_file() and not labelled:
            yield self._image(str(path), path.read_bytes(), None, path)
        else:
            kinds = "a folder of images, a .csv, .parquet, .npz or .jsonl file, or - for JSON lines from standard input"
            problem = "Cannot read samples from" if path.exists() else "There is no"
            raise DataError(f"{problem} {self.source!r}. Give {kinds}.")

    def _images(self, path: Path, labelled: bool) -> Iterator[Item]:
        """Yield the images `path/<class>/*` or `path/<part>/<class>/*`; without labels also `path/*`."""
        path = next((path / name for name in PARTS[self.part] if (path / name).is_dir()), path)
        if not labelled and any(entry.suffix.lower() in images.SUFFIXES for entry in path.iterdir()):
            files: folders.Listing = [(file, "") for file in folders.images_in(path)]
        else:
            files = folders.by_class(path)
        if labelled:  # one class after another is the hardest order to learn, and not one the user chose
            random.Random(self.config.seed).shuffle(files)
        for file, label in files:
            yield self._image(str(file), file.read_bytes(), label if labelled else None, file)

    def _rows(self, path: Path, labelled: bool) -> Iterator[Item]:
        shards = [sorted(path.glob(f"{name}*.parquet")) for name in (*PARTS[self.part], "")]
        for file in [path] if path.suffix == ".parquet" else next(filter(None, shards)):
            if not file.is_file():
                raise DataError(f"There is no file {str(file)!r}.")
            if parquet.is_wide(file, self.sample):
                yield from self._table(parquet.whole_table([file]), file, labelled)
                continue
            for cell, label, where in parquet.rows_of(file, sample=self.sample, label=self.label, labelled=labelled):
                if isinstance(cell, bytes):
                    yield self._image(where, cell, label, file)
                else:
                    yield self._vector(where, cell.tolist(), label, file)

    def _csv(self, file: Path, labelled: bool) -> Any:
        if not labelled:
            return csv_files.read_csv(file)
        (table,), _ = csv_files.read_labelled([[file]], str(file), label=self.label, sample=self.sample)
        return table

    def _table(self, table: Any, file: Path, labelled: bool) -> Iterator[Item]:
        """Yield the rows of a wide table. Without labels, a column too many is theirs: the one named, or the last."""
        names = [name for name in table.column_names if not name.startswith("__")]
        others = 1 if self.config.input.text else self.config.input.features or 0
        has_label = labelled or self.label in names or len(names) == 1 + others
        if not has_label:  # give it one, so that all columns are features
            table = table.append_column(NO_LABEL, [[0] * len(table)])
        label = self.label if has_label else NO_LABEL
        columns = tables.Columns.of(table, str(file), label=label, one_hot=False, sample=self.sample)
        labels = tables.labels_of(tables.column(table, columns.label), str(file)).tolist() if labelled else None
        item = self._vector if columns.text is None else self._text
        for row, sample in enumerate(columns.samples(table, str(file)).tolist()):
            yield item(f"{file}, row {row}", sample, labels[row] if labels else None, file)

    def _arrays(self, file: Path, labelled: bool) -> Iterator[Item]:
        """Yield the samples of one part of an .npz file."""
        x, labels = npz.read_part(file, self.part)
        for row, sample in enumerate(x):
            where, label = f"{file}, {self.part} {row}", labels[row] if labelled else None
            if sample.dtype.kind == "U":
                yield self._text(where, str(sample), label, file)
            elif sample.dtype != np.uint8:
                yield self._vector(where, sample.tolist(), label, file)
            elif self.config.input.size is None or sample.shape != self.config.input.sample:
                raise DataError(f"{where} is an image of shape {sample.shape}; needed are {self.config.input.sample}.")
            else:
                yield Item(where, sample.tobytes(), label, _identity(_place(where, file), sample.tobytes()))

    def _text(self, where: str, text: str, label: Hashable, file: Path) -> Item:
        if self.config.input.kind != "text":
            raise DataError(f"{where} is a text, but this service takes {self.config.input.kind}s.")
        x = to_bytes(text)
        return Item(where, x, label, _identity(_place(where, file), x))

    def _vector(self, where: str, numbers: list[float], label: Hashable, file: Path) -> Item:
        if self.config.input.kind != "vector":
            raise DataError(f"{where} is a vector, but this service takes {self.config.input.kind}s.")
        try:
            (x,) = samples.vectors([numbers], self.config.input, self.config.limits.magnitude)
        except InputError as error:
            raise DataError(f"{where}: {error}") from None
        return Item(where, x, label, _identity(_place(where, file), x))

    def _image(self, where: str, data: bytes, label: Hashable, file: Path) -> Item:
        if self.config.input.kind != "image":
            count = f" of {self.config.input.features} numbers" * (self.config.input.kind == "vector")
            raise DataError(f"{where} is an image, but this service takes {self.config.input.kind}s{count}.")
        x = samples.picture(data, self.config.input, self.config.limits.pixels, where)
        return Item(where, x, label, _identity(_place(where, file), x))

    def _lines(self, labelled: bool) -> Iterator[Item]:
        schemas, kind = Schemas(self.config), "learn" if labelled else "predict"
        with nullcontext(sys.stdin) if self.source == STDIN else Path(self.source).open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                where = f"line {number}" if self.source == STDIN else f"{self.source}, line {number}"
                if not line.strip():
                    continue
                try:
                    _, sent = schemas.read(kind, (line if labelled else _without_label(line)).encode())
                    if "examples" in type(sent).model_fields:
                        raise InputError("a line holds one sample; this one holds a list of examples.")
                    x = self._sample(sent, where)
                except ValidationError as error:
                    raise DataError(f"{where}: {_sentence(error, line)}") from None
                except InputError as error:
                    raise DataError(f"{where}: {error}") from None
                id = (sent.id or self._line_id(number, x)) if labelled else None
                yield Item(where, x, sent.label if labelled else None, id)

    def _line_id(self, number: int, x: bytes) -> str | None:
        """Return an id for a line of a file, which may be read again; None for one of standard input."""
        return None if self.source == STDIN else _identity(f"{Path(self.source).resolve()}, line {number}", x)

    def _sample(self, sent: object, where: str) -> bytes:
        """Return the sample of a parsed line, packed for the journal."""
        if self.config.input.text:
            return to_bytes(sent.text)  # type: ignore[attr-defined]
        if self.config.input.size is None:
            return samples.vectors([sent.x], self.config.input, self.config.limits.magnitude)[0]  # type: ignore[attr-defined]
        data = samples.from_base64(sent.image)  # type: ignore[attr-defined]
        return samples.picture(data, self.config.input, self.config.limits.pixels, where)


def as_known(label: Hashable, known: Container[Hashable]) -> Hashable:
    """Return a label as a learner knows it: a run names its classes by texts, and files may have numbers."""
    return str(label) if label not in known and str(label) in known else label


def _without_label(line: str) -> str:
    """Return a JSON line without the fields of labelled ones; what is no JSON object remains as it is."""
    try:
        sent = json.loads(line)
    except ValueError:
        return line
    if not isinstance(sent, dict) or not LABELLED & sent.keys():
        return line
    return json.dumps({name: value for name, value in sent.items() if name not in LABELLED})


def _sentence(error: ValidationError, line: str) -> str:
    """Return the first error in a line as a sentence."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"{place} is missing; the line has {', '.join(json.loads(line)) or 'nothing'}."
    if first["type"] == "json_invalid":
        return f"this is not JSON ({first['ctx']['error']})."
    if first["type"] in ("too_short", "too_long"):
        wanted = first["ctx"]["min_length" if first["type"] == "too_short" else "max_length"]
        return f"{place} must have {wanted} numbers, but has {first['ctx']['actual_length']}."
    return f"{place or 'the whole line'}: {first['msg']}."


def _place(where: str, file: Path) -> str:
    """Return a place in a file, whichever way the file was named."""
    return str(file.resolve()) + where.removeprefix(str(file))


def _identity(where: str, x: bytes) -> str:
    """Return an id that is the same for the same sample in the same place, so that nothing is taught twice."""
    return hashlib.blake2b(where.encode() + b"\0" + x, digest_size=16).hexdigest()
