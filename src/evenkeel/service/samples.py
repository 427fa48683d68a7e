"""Conversion of samples between what clients send, what the journal keeps, and what the learner takes."""

import base64
import binascii
import io
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evenkeel.data.readers import images
from evenkeel.errors import DataError, InputError
from evenkeel.learning.texts import from_bytes
from evenkeel.service.config import Input

Sample = NDArray[np.float32] | NDArray[np.uint8]
SIDE = 16_384  # maximum pixels of an image's longer side: a thin line of millions is not a picture
NPY_HEADER = 1_000  # bytes, far more than an array of numbers needs


def vectors(rows: Sequence[Sequence[float]] | Sequence[str], input: Input, most: float, first: int = 0) -> list[bytes]:
    """Return feature vectors packed for the journal. Each is a list of numbers, or each is base64 of 32-bit floats.

    `most` is the largest absolute value allowed, `first` the number of the first vector, for errors.
    """
    if isinstance(rows[0], str):
        return _float32_vectors(cast("Sequence[str]", rows), input, most, first)
    for place, row in enumerate(rows, first):
        if len(row) != input.features:
            raise InputError(f"Vector {place} has {len(row)} numbers; this service takes {input.features}.")
    return _packed(np.array(rows, dtype=np.float64), most, first)


def _float32_vectors(texts: Sequence[str], input: Input, most: float, first: int) -> list[bytes]:
    data = [from_base64(text, f"Vector {place}") for place, text in enumerate(texts, first)]
    for place, each in enumerate(data, first):
        if len(each) != 4 * (input.features or 0):
            raise InputError(
                f"Vector {place} has {len(each):,} bytes; {input.features} numbers of 32 bits are "
                f"{4 * (input.features or 0):,}."
            )
    return _packed(np.frombuffer(b"".join(data), dtype="<f4").reshape(len(data), -1), most, first)


def npy_vectors(data: bytes, input: Input, most: float, most_rows: int) -> list[bytes]:
    """Return the rows of a .npy file packed for the journal. Only its header is interpreted; nothing is unpickled."""
    size = 2 if data[6:7] == b"\1" else 4  # bytes that hold the length of the header
    length = min(8 + size + int.from_bytes(data[8 : 8 + size], "little"), NPY_HEADER + 12)
    shape, fortran, dtype = _npy_header(data[:length])
    if dtype.kind not in "fiu" or dtype.itemsize > 8 or bool in map(type, shape):
        raise InputError(f"The .npy file holds {dtype}; give numbers, best as float32.")
    rows = (1, *shape) if len(shape) == 1 else shape
    if len(rows) != 2 or rows[1] != input.features or not 1 <= rows[0] <= most_rows:
        raise InputError(
            f"The .npy file has shape {shape}; this service takes ({input.features},) or (n, {input.features}), with n "
            f"up to {most_rows:,}."
        )
    values = data[length:]
    if len(values) != rows[0] * rows[1] * dtype.itemsize:
        raise InputError(f"The .npy file has {len(values):,} bytes of numbers, which is not what its shape needs.")
    return _packed(np.frombuffer(values, dtype).reshape(rows, order="F" if fortran else "C"), most)


@lru_cache(100)  # clients send the same ones again and again, and numpy takes long to read one
def _npy_header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and dtype of a .npy file from its beginning."""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran, dtype = read(file, max_header_size=NPY_HEADER)
    except Exception:  # a damaged header makes numpy raise almost anything: ValueError, SyntaxError, TokenError...
        raise InputError("The body is not a .npy file of numbers (format 1.0 or 2.0).") from None
    return shape, fortran, dtype


def _packed(block: NDArray[Any], most: float, first: int = 0) -> list[bytes]:
    """Return the rows as 32-bit floats; raise InputError if a number is not finite or too large."""
    if not (float(block.max()) <= most and float(block.min()) >= -most):  # written so that NaN is bad, too
        bad = ~(np.abs(block.astype(np.float64, copy=False)) <= most).all(axis=1)
        place = first + int(bad.argmax())
        raise InputError(f"Vector {place} has a number that is not finite or is beyond {most:g} (limits.magnitude).")
    return [row.tobytes() for row in block.astype(np.float32)]


def picture(data: bytes, input: Input, most_pixels: int, where: str = "The image") -> bytes:
    """Return an encoded image decoded, resized and packed for the journal."""
    _require_size(images.size_of(data, where), most_pixels, where)
    return images.decode([(data, where)], _shape(input), resize=True).tobytes()


def cost_of(file: bytes, input: Input, most: int, where: str) -> int:
    """Return how much work it is to decode an image, in pixels; raise DataError if that is too much, or it is none.

    A JPEG that is much larger than needed is decoded to a part of its size. Its other pixels count little.
    """
    whole = images.size_of(file, where)
    _require_size(whole, SIDE * SIDE, where)
    height, width = images.reduced_size_of(file, where, _shape(input))
    cost = max(height * width, whole[0] * whole[1] // 16)
    if cost > most:
        raise DataError(
            f"{where} is {whole[0]} x {whole[1]} pixels; the limit is {most:,} pixels for an image, or 16 times as "
            "many for a JPEG (limits.image_pixels). Send it smaller."
        )
    return cost


def reduced_pictures(files: Sequence[bytes], input: Input, names: Sequence[str]) -> list[bytes]:
    """Return images decoded, reduced and packed for the journal."""
    cells = list(zip(files, names, strict=True))
    return [block.tobytes() for block in images.decode(cells, _shape(input), resize=True, reduce=True)]


def _require_size(sides: tuple[int, int], most_pixels: int, where: str) -> None:
    if sides[0] * sides[1] > most_pixels or max(sides) > SIDE:
        raise DataError(
            f"{where} is {sides[0]} x {sides[1]} pixels; the limit is {most_pixels:,} pixels, and {SIDE:,} per side."
        )


def _shape(input: Input) -> tuple[int, int, int]:
    channels, height, width = input.sample
    return channels, height, width


def from_base64(text: str, where: str = "The image") -> bytes:
    """Decode base64, with or without the prefix of a data URL, which browsers add; raise InputError if it is not."""
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"{where} is not base64.") from None


def unpack(samples: Sequence[bytes], input: Input) -> Sample:
    """Return samples from the journal as one array of shape (n, *sample), (n, bytes) of texts; it may be written to."""
    if input.text:
        return from_bytes(samples)
    joined, shape = bytearray().join(samples), (len(samples), *input.sample)
    if input.size is None:
        return np.frombuffer(joined, dtype=np.float32).reshape(shape)
    return np.frombuffer(joined, dtype=np.uint8).reshape(shape)
