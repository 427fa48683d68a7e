"""Samples as clients send them, as the journal keeps them, and as the learner takes them."""

import base64
import binascii
import hashlib
import json
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from evenkeel.data.readers import images
from evenkeel.errors import DataError, InputError
from evenkeel.service.config import Input

Sample = NDArray[np.float32] | NDArray[np.uint8]


SIDE = 16_384  # pixels of an image's longer side, at most: a thin line of millions is no picture


def vectors(rows: Sequence[Sequence[float]], input: Input, most: float) -> list[bytes]:
    """Feature vectors, ready for the journal. `most`: how large a number may be."""
    for place, row in enumerate(rows):
        if len(row) != input.features:
            raise InputError(f"Vector {place} has {len(row)} numbers; this service takes {input.features}.")
    block = np.array(rows, dtype=np.float64)
    bad = ~(np.abs(block) <= most).all(axis=1)  # so that NaN is bad, too
    if bad.any():
        raise InputError(
            f"Vector {int(bad.argmax())} has a number that is not finite, or beyond {most:g} (limits.magnitude)."
        )
    return [row.tobytes() for row in block.astype(np.float32)]


def picture(data: bytes, input: Input, most_pixels: int, where: str = "The image") -> bytes:
    """An encoded image, decoded and resized, ready for the journal. Only one thread at a time."""
    return pictures([data], input, most_pixels, [where])[0]


def pictures(files: Sequence[bytes], input: Input, most_pixels: int, names: Sequence[str]) -> list[bytes]:
    """Several of them, which share the limit of pixels."""
    left, samples = most_pixels, []
    channels, height, width = input.sample
    for data, where in zip(files, names, strict=True):
        sides = images.size_of(data, where)
        left -= sides[0] * sides[1]
        if left < 0 or max(sides) > SIDE:
            raise DataError(
                f"{where} is {sides[0]} x {sides[1]} pixels; the limit is {most_pixels:,} pixels for all images of a "
                f"request, and {SIDE:,} for a side."
            )
        samples.append(images.decode([(data, where)], (channels, height, width), resize=True).tobytes())
    return samples


def from_base64(text: str, where: str = "The image") -> bytes:
    """Also with the prefix of a data URL, which browsers put before it."""
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"{where} is not base64.") from None


def unpack(samples: Sequence[bytes], input: Input) -> Sample:
    """(n, *shape) of what the journal keeps."""
    joined, shape = b"".join(samples), (len(samples), *input.sample)
    if input.size is None:
        return np.frombuffer(joined, dtype=np.float32).reshape(shape)
    return np.frombuffer(joined, dtype=np.uint8).reshape(shape)


def digest(x: bytes, label: Hashable) -> bytes:
    return hashlib.blake2b(json.dumps(label).encode() + b"\0" + x, digest_size=16).digest()
