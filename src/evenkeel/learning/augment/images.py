"""What augmentations share: checks of their input and settings, pixels picked by place, and gray."""

import torch
from torch import Tensor

from evenkeel.errors import InputError, SettingsError
from evenkeel.learning.torch_utils import sent


def check_images(name: str, x: Tensor) -> None:
    if x.dim() != 4:
        raise InputError(f"{name} needs images (n, channels, height, width), but got the shape {tuple(x.shape)}.")


def check_bytes(name: str, x: Tensor) -> None:
    check_images(name, x)
    if x.dtype != torch.uint8:
        raise InputError(f"{name} needs uint8 images (whole numbers from 0 to 255), but got {x.dtype}.")
    if x.shape[1] not in (1, 3):
        raise InputError(f"{name} needs images with 1 or 3 channels, but got {x.shape[1]}.")


def number(setting: str, value: object, low: float, high: float) -> float:
    """Return `value` as a float; raise SettingsError unless it is a number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        limits = f"from {low:g} to {high:g}" if high < float("inf") else f"of at least {low:g}"
        raise SettingsError(f"{setting}={value!r} must be a number {limits}.")
    return float(value)


def interval(setting: str, value: object, high: float) -> tuple[float, float]:
    """Return `value` as two floats; raise SettingsError unless they are above 0, ascending, and at most `high`."""
    pair = tuple(value) if isinstance(value, tuple | list) else ()
    numbers = [each for each in pair if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(pair) != 2 or len(numbers) != 2 or not 0 < numbers[0] <= numbers[1] <= high:
        limit = "" if high == float("inf") else f" and at most {high:g}"
        raise SettingsError(f"{setting}={value!r} must be two numbers above 0{limit}, the smaller one first.")
    return float(numbers[0]), float(numbers[1])


def pick(x: Tensor, index: Tensor) -> Tensor:
    """Return images composed of pixels of `x`. `index` (n, height, width) counts them row by row, for all channels."""
    n, channels = x.shape[:2]
    places = sent(index, x.device).flatten(1)[:, None].expand(-1, channels, -1)
    return x.flatten(2).gather(2, places).view(n, channels, *index.shape[1:])


def gray(x: Tensor) -> Tensor:
    if x.shape[1] == 1:
        return x
    red, green, blue = x.int().unbind(1)
    return (19595 * red + 38470 * green + 7471 * blue + 32768)[:, None] >> 16  # ITU-R 601 luma, in 65536ths
