"""What an image reader returns: labels and shape at once, pixels block by block on demand."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, int, int]  # channels, height, width


@dataclass(frozen=True)
class EncodedSplit:
    """A split whose images are not decoded yet. Each call of `blocks` starts from the beginning."""

    y: NDArray[np.int64]
    blocks: Callable[[], Iterator[NDArray[np.uint8]]]  # each (images, channels, height, width); len(y) images in all


@dataclass(frozen=True)
class Encoded:
    shape: Shape
    classes: tuple[str, ...]
    train: EncodedSplit
    test: EncodedSplit


def block_length(shape: Shape) -> int:
    """Return the number of images per block: at most 1,000, and about 64 MB."""
    return max(1, min(1000, 2**26 // int(np.prod(shape))))


def held(images: NDArray[np.uint8]) -> Callable[[], Iterator[NDArray[np.uint8]]]:
    """Return the blocks of images that are already in memory."""
    step = block_length((images.shape[1], images.shape[2], images.shape[3]))
    return lambda: (images[start : start + step] for start in range(0, len(images), step))
