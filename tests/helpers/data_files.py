"""Small data files of every layout, written the way their original authors write them."""

import csv
import gzip
import io
import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]


class ProgressLog(list[tuple[str, int, int]]):
    """A progress callback that records its calls."""

    def __call__(self, what: str, done: int, total: int) -> None:
        self.append((what, done, total))


def write_csv(path: Path, rows: list[dict[str, Any]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def pictures(count: int, shape: tuple[int, ...] = (3, 32, 32), seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(256, size=(count, *shape), dtype=np.uint8)


def as_image(pixels: Pixels) -> Image.Image:
    """Return a Pillow image of pixels with channels first."""
    return Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))


def encoded(pixels: Pixels, form: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    as_image(pixels).save(out, form, **options)
    return out.getvalue()


def png_of(width: int, height: int) -> bytes:
    """Return a file that claims a size and has no pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def image_column(cells: Sequence[bytes | None]) -> pa.Array:
    rows = [None if cell is None else {"bytes": cell, "path": f"{place}.png"} for place, cell in enumerate(cells)]
    return pa.array(rows, type=pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


def write_parquet(file: Path, columns: dict[str, Any], names: dict[str, Sequence[str]] | None = None) -> Path:
    """Write a table; `names` are the class names by column, for the metadata, where the hub keeps them."""
    table = pa.table(columns)
    if names is not None:
        features = {column: {"names": list(of), "_type": "ClassLabel"} for column, of in names.items()}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file)
    return file


def write_cifar_parquet(folder: Path, train: Pixels, test: Pixels, classes: int = 10, shards: int = 1) -> None:
    """Write both splits; sample i has the class i % classes."""
    for split, pixels, count in (("train", train, shards), ("test", test, 1)):
        labels = np.arange(len(pixels)) % classes
        for shard, rows in enumerate(np.array_split(np.arange(len(pixels)), count)):
            write_parquet(
                folder / f"{split}-{shard:05d}-of-{count:05d}.parquet",
                {"img": image_column([encoded(pixels[row]) for row in rows]), "label": labels[rows]},
            )


def python2_pickle(value: Any) -> bytes:
    """Pickle as Python 2's cPickle did with protocol 2: strings are bytes, arrays use numpy.core.multiarray."""
    return b"\x80\x02" + _opcodes(value) + b"."


def _opcodes(value: Any) -> bytes:
    if isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        return (b"U" + bytes([len(raw)]) if len(raw) < 256 else b"T" + struct.pack("<i", len(raw))) + raw
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"](" + b"".join(map(_opcodes, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(_opcodes(item) for pair in value.items() for item in pair) + b"u"
    assert isinstance(value, np.ndarray), value
    fortran = value.flags.f_contiguous and not value.flags.c_contiguous
    shape = b"(" + b"".join(map(_opcodes, value.shape)) + b"t"
    dtype: bytes = b"cnumpy\ndtype\nU\x02" + value.dtype.str[1:].encode() + b"K\x00K\x01\x87R"
    dtype += b"(K\x03U\x01" + value.dtype.str[:1].encode() + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    content: bytes = value.tobytes("F" if fortran else "C")
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01" + shape + dtype
    return array + (b"\x88" if fortran else b"\x89") + b"T" + struct.pack("<i", len(content)) + content + b"tb"


def write_idx(file: Path, array: Pixels) -> Path:
    content = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
    return file


def write_image(file: Path, pixels: Pixels, **options: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    as_image(pixels).save(file, **options)
    return file
