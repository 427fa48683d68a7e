"""Random views of image batches: each sample gets its own, drawn from the caller's generator.

An augmentation is called as `augment(x, generator)` with a whole batch (n, channels, height, width). Parameters are
drawn on the CPU, for all samples at once; the pixels are then moved together, on their own device.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from evenkeel.errors import InputError, whole_number
from evenkeel.learning import rng
from evenkeel.learning.registry import call_text

BINS = 31  # steps of RandAugment's magnitude


class Augment(Protocol):
    """Any function that returns the batch with each sample changed at random, in the same shape and dtype."""

    def __call__(self, x: Tensor, generator: torch.Generator, /) -> Tensor: ...


class CropFlip:
    """Zero-pads, crops back to the original size at a random position, and mirrors half of the samples.

    >>> x = torch.arange(2 * 1 * 3 * 3, dtype=torch.uint8).view(2, 1, 3, 3)
    >>> augment = CropFlip(padding=1)
    >>> augment(x, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 1, 3, 3])
    >>> augment
    CropFlip(padding=1, flip=True)
    """

    def __init__(self, *, padding: int = 4, flip: bool = True) -> None:
        self.padding = whole_number("padding", padding, at_least=0)
        self.flip = flip

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        _check_images("CropFlip", x)
        return _crop(x, self.padding, self.flip, generator)

    def __repr__(self) -> str:
        return call_text(self)


class RandAugment:
    """A random crop, then `operations` draws per sample from torchvision's fourteen RandAugment operations.

    Magnitudes and results are those of torchvision on Pillow images, bit for bit. There is no flip: in the transform
    this follows (CBA's repository), RandAugment takes its place.

    >>> x = torch.full((2, 3, 8, 8), 7, dtype=torch.uint8)
    >>> augment = RandAugment()
    >>> augment(x, torch.Generator().manual_seed(0)).dtype
    torch.uint8
    >>> augment
    RandAugment(operations=1, magnitude=14, padding=4)
    """

    def __init__(self, *, operations: int = 1, magnitude: int = 14, padding: int = 4) -> None:
        self.operations = whole_number("operations", operations, at_least=1)
        self.magnitude = whole_number("magnitude", magnitude, at_least=0, at_most=BINS - 1)
        self.padding = whole_number("padding", padding, at_least=0)

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        _check_images("RandAugment", x)
        if x.dtype != torch.uint8:
            raise InputError(f"RandAugment needs uint8 images (whole numbers from 0 to 255), but got {x.dtype}.")
        if x.shape[1] not in (1, 3):
            raise InputError(f"RandAugment needs images with 1 or 3 channels, but got {x.shape[1]}.")
        x = _crop(x, self.padding, flip=False, generator=generator)
        for _ in range(self.operations):
            drawn = torch.randint(len(OPERATIONS), x.shape[:1], generator=generator)
            sign = 1 - 2 * torch.randint(2, x.shape[:1], generator=generator)
            x = self._operate(x, drawn, sign)
        return x

    def __repr__(self) -> str:
        return call_text(self)

    def _operate(self, x: Tensor, drawn: Tensor, sign: Tensor) -> Tensor:
        """Apply to each sample the operation drawn for it, an index into OPERATIONS; only some of them use `sign`."""
        # Samples of one operation are sorted next to each other: slices are cheaper than selections.
        order = drawn.argsort()
        drawn, sign = drawn[order], sign[order]
        level = torch.tensor(self._levels(*x.shape[2:]), dtype=torch.float64)[drawn]
        level = torch.where(drawn < OPERATIONS.index("Posterize"), sign * level, level)

        counts = drawn.bincount(minlength=len(OPERATIONS)).tolist()
        last = len(_WARPS) + 1
        sizes = [counts[0], sum(counts[1:last]), *counts[last:]]
        still, warped, *toned = torch.split(x.index_select(0, order.to(x.device)), sizes)
        _, kinds, *_ = torch.split(drawn - 1, sizes)
        _, bends, *_ = torch.split(level, sizes)
        _, _, *amounts = torch.split(level.float().to(x.device).view(-1, 1, 1, 1), sizes)

        parts = [still, _warp(warped, F.one_hot(kinds, len(_WARPS)) * bends[:, None])]
        for tone, part, amount in zip(_TONES.values(), toned, amounts, strict=True):
            parts.append(tone(part, amount) if len(part) else part)
        return torch.cat(parts).index_select(0, order.argsort().to(x.device))

    def _levels(self, height: int, width: int) -> list[float]:
        """Return what the magnitude means for each of OPERATIONS."""
        shear, turn, change, solarize = (
            _between(low, high, self.magnitude) for low, high in ((0.0, 0.3), (0.0, 30.0), (0.0, 0.9), (255.0, 0.0))
        )
        across, down = (int(_between(0.0, 150.0 / 331.0 * size, self.magnitude)) for size in (width, height))
        bits = 8 - round(self.magnitude / ((BINS - 1) / 4))
        return [0.0, shear, shear, across, down, turn, *[change] * 4, bits, solarize, 0.0, 0.0]


class PerSample:
    """An augmentation made from a one-argument transform of another library, such as torchvision's.

    Such a transform draws one set of parameters per call, from torch's global generator. So each image gets a call of
    its own, the only way to draw different parameters per sample. The global generator is seeded from `generator` for
    these calls and restored afterwards.

    >>> augment = PerSample(lambda image: image + torch.rand(()))
    >>> x = torch.zeros(2, 1, 1, 1)
    >>> first, second = (augment(x, torch.Generator().manual_seed(0)) for _ in range(2))
    >>> bool((first == second).all()), bool(first[0] == first[1])
    (True, False)
    """

    def __init__(self, transform: Callable[[Tensor], Tensor]) -> None:
        self.transform = transform

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        with rng.global_seed(rng.next_seed(generator), x.device):
            images = [self._view(image) for image in x.clone()]  # a copy, because transforms may work in place
        return torch.stack(images) if images else x.clone()

    def __repr__(self) -> str:
        return call_text(self)

    def _view(self, image: Tensor) -> Tensor:
        view: object = self.transform(image)
        if not isinstance(view, Tensor):
            raise InputError(f"The transform of PerSample must return a tensor, but returned a {type(view).__name__}.")
        if view.shape != image.shape or view.dtype != image.dtype:
            raise InputError(
                f"The transform of PerSample must keep shape and dtype, but it turned "
                f"{tuple(image.shape)} {image.dtype} into {tuple(view.shape)} {view.dtype}."
            )
        return view


AUGMENTS: dict[str, Callable[..., Augment]] = {"crop-flip": CropFlip, "rand-augment": RandAugment}


@lru_cache
def _between(low: float, high: float, magnitude: int) -> float:
    return float(torch.linspace(low, high, BINS, dtype=torch.float32)[magnitude])  # torchvision's value, bit for bit


def _check_images(name: str, x: Tensor) -> None:
    if x.dim() != 4:
        raise InputError(f"{name} needs images (n, channels, height, width), but got the shape {tuple(x.shape)}.")


def _pick(x: Tensor, index: Tensor) -> Tensor:
    """Return images composed of pixels of `x`. `index` (n, height, width) counts them row by row, for all channels."""
    n, channels = x.shape[:2]
    places = index.to(x.device).flatten(1)[:, None].expand(-1, channels, -1)
    return x.flatten(2).gather(2, places).view(n, channels, *index.shape[1:])


def _crop(x: Tensor, padding: int, flip: bool, generator: torch.Generator) -> Tensor:
    n, _, height, width = x.shape
    top, left = (torch.randint(2 * padding + 1, (n, 1), generator=generator) for _ in range(2))
    rows, columns = top + torch.arange(height), left + torch.arange(width)
    if flip:
        mirrored = torch.randint(2, (n, 1), generator=generator).bool()
        columns = torch.where(mirrored, columns.flip(1), columns)
    return _pick(F.pad(x, [padding] * 4), rows[:, :, None] * (width + 2 * padding) + columns[:, None, :])


def _warp(x: Tensor, warps: Tensor) -> Tensor:
    """Shear and shift in x and y and rotate (degrees, about the centre), at most one per sample: `warps` (n, 5).

    Source pixels are computed in Pillow's 16.16 fixed-point arithmetic, so that they are the same pixels.
    """
    height, width = x.shape[2:]
    shear_x, shear_y, shift_x, shift_y, degrees = warps[:, :, None, None].unbind(1)
    cos, sin = degrees.deg2rad().cos(), degrees.deg2rad().sin()
    row, column = torch.arange(height)[:, None], torch.arange(width)

    def source(size: int, per_column: Tensor, per_row: Tensor, offset: Tensor) -> Tensor:
        a, b, c = ((value * 65536 + 0.5).floor().long() for value in (per_column, per_row, offset))
        return ((a * column + c) + b * row >> 16).clamp(0, size + 1)

    # Pixel centres are mapped, hence half a step in both directions; the first pixel is 1, after a border of zeros to
    # which everything outside is mapped.
    across, along = shear_x - sin, shear_y + sin
    x_offset = (1 - cos) * width / 2 + sin * height / 2 - shift_x + (cos + across) / 2 + 1
    y_offset = (1 - cos) * height / 2 - sin * width / 2 - shift_y + (cos + along) / 2 + 1
    from_x, from_y = source(width, cos, across, x_offset), source(height, along, cos, y_offset)
    return _pick(F.pad(x, [1] * 4), from_y * (width + 2) + from_x)


def _blend(base: Tensor, x: Tensor, level: Tensor) -> Tensor:
    """Interpolate from `base` (level -1) to `x` (level 0), or extrapolate beyond."""
    start = base.float()
    return (start + (1 + level) * (x.float() - start)).clamp(0, 255).to(torch.uint8)


def _gray(x: Tensor) -> Tensor:
    if x.shape[1] == 1:
        return x
    red, green, blue = x.int().unbind(1)
    return (19595 * red + 38470 * green + 7471 * blue + 32768)[:, None] >> 16  # ITU-R 601 luma, in 65536ths


def _brightness(x: Tensor, level: Tensor) -> Tensor:
    return _blend(torch.zeros_like(x), x, level)


def _color(x: Tensor, level: Tensor) -> Tensor:
    return _blend(_gray(x), x, level)


def _contrast(x: Tensor, level: Tensor) -> Tensor:
    pixels = x.shape[2] * x.shape[3]
    mean = (2 * _gray(x).sum((2, 3), keepdim=True) + pixels) // (2 * pixels)  # rounded, halves up
    return _blend(mean, x, level)


def _sharpness(x: Tensor, level: Tensor) -> Tensor:
    # Pillow's kernel: weight 1 for the eight neighbours, 5 for the pixel itself, divided by 13, rounded.
    value = x.short()
    triples = value[..., :-2] + value[..., 1:-1] + value[..., 2:]
    sums = triples[:, :, :-2] + triples[:, :, 1:-1] + triples[:, :, 2:] + 4 * value[:, :, 1:-1, 1:-1]
    smooth = x.clone()  # pixels at the border lack neighbours and stay unchanged
    smooth[:, :, 1:-1, 1:-1] = (sums + 6) // 13
    return _blend(smooth, x, level)


def _posterize(x: Tensor, bits: Tensor) -> Tensor:
    dropped = (8 - bits).to(torch.uint8)
    return x >> dropped << dropped


def _solarize(x: Tensor, threshold: Tensor) -> Tensor:
    return torch.where(x < threshold, x, 255 - x)


def _look_up(x: Tensor, table: Tensor) -> Tensor:
    """Replace pixel values by their entries in `table` (n, channels, 256)."""
    return table.to(torch.uint8).to(x.device).gather(2, x.flatten(2).long()).view(x.shape)


def _auto_contrast(x: Tensor, _level: Tensor) -> Tensor:
    # On the CPU, because only double precision rounds like Pillow and some devices lack it. The tables are small.
    low, high = (extreme((2, 3)).cpu().double()[:, :, None] for extreme in (x.amin, x.amax))
    scale = torch.full_like(high, 255) / (high - low)  # 255 / tensor would multiply by the reciprocal
    value = torch.arange(256, dtype=torch.float64)
    return _look_up(x, torch.where(high > low, (value * scale - low * scale).clamp(0, 255), value))


def _equalize(x: Tensor, _level: Tensor) -> Tensor:
    values = x.flatten(2).long()
    counts = values.new_zeros(*x.shape[:2], 256).scatter_add_(2, values, torch.ones_like(values))
    brightest = counts.gather(2, values.amax(2, keepdim=True))
    step = (values.shape[2] - brightest) // 255
    table = (counts.cumsum(2) - counts + step // 2) // step.clamp(min=1)
    return _look_up(x, torch.where(step > 0, table.clamp(max=255), torch.arange(256, device=x.device)))


_WARPS = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
_TONES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Brightness": _brightness,
    "Color": _color,
    "Contrast": _contrast,
    "Sharpness": _sharpness,
    "Posterize": _posterize,
    "Solarize": _solarize,
    "AutoContrast": _auto_contrast,
    "Equalize": _equalize,
}
OPERATIONS = ("Identity", *_WARPS, *_TONES)
"""The operations of RandAugment, in the order of torchvision."""
