"""Conversion of samples between what clients send, what the journal keeps, and what the learner takes."""

import base64
import binascii
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evenkeel.data.readers import images
from evenkeel.errors import DataError, InputError
from evenkeel.service.config import Input

Sample = NDArray[np.float32] | NDArray[np.uint8]


SIDE = 16_384  # maximum pixels of an image's longer side: a thin line of millions is not a picture


def vectors(rows: Sequence[Sequence[float]], input: Input, most: float) -> list[bytes]:
    """Return feature vectors packed for the journal. `most` is the largest absolute value allowed."""
    for place, row in enumerate(rows):
        if len(row) != input.features:
            raise InputError(f"Vector {place} has {len(row)} numbers; this service takes {input.features}.")
    block = np.array(rows, dtype=np.float64)
    bad = ~(np.abs(block) <= most).all(axis=1)  # written so that NaN is bad, too
    if bad.any():
        raise InputError(
            f"Vector {int(bad.argmax())} has a number that is not finite or is beyond {most:g} (limits.magnitude)."
        )
    return [row.tobytes() for row in block.astype(np.float32)]


def picture(data: bytes, input: Input, most_pixels: int, where: str = "The image") -> bytes:
    """Return an encoded image decoded, resized and packed for the journal. Not thread-safe."""
    return pictures([data], input, most_pixels, [where])[0]


def pictures(files: Sequence[bytes], input: Input, most_pixels: int, names: Sequence[str]) -> list[bytes]:
    """Return several images packed for the journal. They share one limit on pixels."""
    left, samples = most_pixels, []
    channels, height, width = input.sample
    for data, where in zip(files, names, strict=True):
        sides = images.size_of(data, where)
        left -= sides[0] * sides[1]
        if left < 0 or max(sides) > SIDE:
            raise DataError(
                f"{where} is {sides[0]} x {sides[1]} pixels; the limit is {most_pixels:,} pixels for all images in a "
                f"request, and {SIDE:,} per side."
            )
        samples.append(images.decode([(data, where)], (channels, height, width), resize=True).tobytes())
    return samples


def from_base64(text: str, where: str = "The image") -> bytes:
    """Decode base64, with or without the prefix of a data URL, which browsers add; raise InputError if it is not."""
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"{where} is not base64.") from None


def unpack(samples: Sequence[bytes], input: Input) -> Sample:
    """Return samples from the journal as one array of shape (n, *sample)."""
    joined, shape = b"".join(samples), (len(samples), *input.sample)
    if input.size is None:
        return np.frombuffer(joined, dtype=np.float32).reshape(shape)
    return np.frombuffer(joined, dtype=np.uint8).reshape(shape)
