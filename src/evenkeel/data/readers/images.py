"""Decode images to pixels with Pillow."""

import io
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenkeel.data.readers.encoded import Shape
from evenkeel.errors import DataError, SettingsError, reason
from evenkeel.learning.inputs import is_channels_last

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF")
"""The formats decoded; Pillow's other decoders never see untrusted bytes. Of an animation, the first frame is used."""
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif")
UNREAD = (".tif", ".tiff", ".avif", ".heic", ".heif", ".jp2", ".jxl", ".ppm", ".pgm", ".tga")  # images of other kinds
Size = int | Sequence[int] | None  # one number for both sides, or (height, width)
Cell = tuple[bytes | Path, str]  # an encoded image and where it comes from, for errors
LARGE = 1_000_000  # pixels beyond which an image may be reduced while it is decoded
GAP = 2.0  # how much larger than needed an image stays while it is reduced quickly
_opening = threading.Lock()  # warnings are turned on and off for all threads
_GRAY = ("1", "L", "LA", "I", "I;16", "I;16B", "I;16L", "I;16N")


def parse_size(size: Size) -> tuple[int, int] | None:
    if size is None:
        return None
    sides = tuple(size) if isinstance(size, Sequence) else (size, size)
    if len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
        raise SettingsError(f"size={size!r} is neither a whole number of pixels nor (height, width).")
    return sides[0], sides[1]


def common_shape(cells: Iterable[Cell], size: tuple[int, int] | None) -> Shape:
    """Return the shape: one channel if all are gray, else three; the common size, or `size`. Read only headers."""
    gray, first = True, None
    for source, where in cells:
        with _opened(source, where) as image:
            gray = gray and image.mode in _GRAY
            here = image.height, image.width
        if first is None:
            first = here, where
        elif size is None and here != first[0]:
            raise DataError(
                f"{where} is {_sides(here)} pixels, but the first image, {first[1]}, is {_sides(first[0])}; "
                "give a size to resize all to."
            )
    if first is None:
        raise DataError("There are no images.")
    return (1 if gray else 3, *(size or first[0]))


def size_of(source: bytes | Path, where: str) -> tuple[int, int]:
    """Return (height, width), from the header alone."""
    with _opened(source, where) as image:
        return image.height, image.width


def reduced_size_of(source: bytes, where: str, shape: Shape) -> tuple[int, int]:
    """Return the (height, width) to which an image is decoded if that may be reduced for `shape`."""
    with _opened(source, where) as image:
        _reduce(image, shape)
        return image.height, image.width


def decode(cells: Sequence[Cell], shape: Shape, *, resize: bool = False, reduce: bool = False) -> NDArray[np.uint8]:
    """Return (len(cells), *shape) pixels. Images of another size are resized (bilinear) or rejected.

    `reduce`: images beyond `LARGE` are reduced while they are decoded, which takes less time, and changes pixels a bit.
    """
    # A simple loop: for images this small threads are slower, as most of the time is spent in Python.
    block = np.empty((len(cells), *shape), dtype=np.uint8)
    for place, (source, where) in enumerate(cells):
        with _opened(source, where) as image:
            if not resize and (image.height, image.width) != shape[1:]:
                here = _sides((image.height, image.width))
                raise DataError(f"{where} is {here} pixels, but the images of this set are {_sides(shape[1:])}.")
            is_reduced = reduce and _reduce(image, shape)
            block[place] = _pixels(image, shape, GAP if is_reduced else None)
    return block


def _reduce(image: "Image", shape: Shape) -> bool:
    """Return whether an image is large. A JPEG is then decoded to a half, a quarter or an eighth, if that suffices."""
    channels, height, width = shape
    if image.width * image.height <= LARGE:
        return False
    image.draft("L" if channels == 1 else "RGB", (int(GAP * width), int(GAP * height)))
    return True


@contextmanager
def _opened(source: bytes | Path, where: str) -> Iterator["Image"]:
    from PIL import Image, UnidentifiedImageError

    try:
        with _opening, warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS)
        with opened:
            yield opened
    except DataError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise DataError(f"{where} claims an absurd number of pixels and is not decoded: {error}") from None
    except UnidentifiedImageError:
        raise DataError(f"{where} is not an image, or not one of {', '.join(FORMATS)}.") from None
    except Exception as error:  # damaged bytes make Pillow raise almost anything: OSError, SyntaxError, struct.error...
        raise DataError(f"{where} is a damaged image: {reason(error)}.") from error


def pixels_of(image: Any, size: tuple[int, int] | None) -> NDArray[np.uint8]:
    """Return (channels, height, width) of an image of Pillow: one channel if it is gray, else three."""
    height, width = size or (image.height, image.width)
    return _pixels(image, (1 if image.mode in _GRAY else 3, height, width))


def resized(pixels: NDArray[Any], size: tuple[int, int], where: str) -> NDArray[np.uint8]:
    """Return (channels, *size) of pixels (height, width), or with one or three channels first or last."""
    from PIL import Image

    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
        raise DataError(f"{where} is no image of uint8 pixels, so it cannot be resized; leave out size.")
    last = pixels if pixels.ndim == 2 or is_channels_last(pixels.shape) else pixels.transpose(1, 2, 0)
    if last.ndim == 3 and last.shape[2] not in (1, 3):
        raise DataError(f"{where} has {last.shape[2]} channels; images with 1 or 3 can be resized. Leave out size.")
    return pixels_of(Image.fromarray(last[..., 0] if last.ndim == 3 and last.shape[2] == 1 else last), size)


def _pixels(image: "Image", shape: Shape, gap: float | None = None) -> NDArray[np.uint8]:
    from PIL import Image

    channels, height, width = shape
    if image.mode == "F":
        raise DataError("An image of fractions (mode F of Pillow) has no range; convert it to eight bits first.")
    if image.mode.startswith("I"):  # sixteen bits, which Pillow would clip, or eight in a wider type
        values = np.asarray(image)
        eight = image.mode == "I" and values.max(initial=0) < 256
        image = Image.fromarray((values if eight else values >> 8).clip(0, 255).astype(np.uint8))
    if image.mode == "P":  # a palette may hold transparency, which Pillow removes only via RGBA
        image = image.convert("RGBA")
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=gap)
    pixels = np.asarray(image)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _sides(size: Sequence[int]) -> str:
    return f"{size[0]} x {size[1]}"
