"""RandAugment, as torchvision does it to Pillow images, for whole batches."""

from collections.abc import Callable
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from evenkeel.errors import whole_number
from evenkeel.learning.augment.crops import crop
from evenkeel.learning.augment.images import check_bytes, gray, pick
from evenkeel.learning.registry import call_text

BINS = 31  # steps of RandAugment's magnitude


class RandAugment:
    """A random crop, then `operations` draws per sample from torchvision's fourteen RandAugment operations.

    Magnitudes and results are those of torchvision on Pillow images, bit for bit. There is no flip: in the transform
    this follows (CBA's repository), RandAugment takes its place. After another crop in a list, set padding=0.

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
        check_bytes("RandAugment", x)
        x = crop(x, self.padding, flip=False, generator=generator)
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


@lru_cache
def _between(low: float, high: float, magnitude: int) -> float:
    return float(torch.linspace(low, high, BINS, dtype=torch.float32)[magnitude])  # torchvision's value, bit for bit


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
    return pick(F.pad(x, [1] * 4), from_y * (width + 2) + from_x)


def _blend(base: Tensor, x: Tensor, level: Tensor) -> Tensor:
    """Interpolate from `base` (level -1) to `x` (level 0), or extrapolate beyond."""
    start = base.float()
    return (start + (1 + level) * (x.float() - start)).clamp(0, 255).to(torch.uint8)


def _brightness(x: Tensor, level: Tensor) -> Tensor:
    return _blend(torch.zeros_like(x), x, level)


def _color(x: Tensor, level: Tensor) -> Tensor:
    return _blend(gray(x), x, level)


def _contrast(x: Tensor, level: Tensor) -> Tensor:
    pixels = x.shape[2] * x.shape[3]
    mean = (2 * gray(x).sum((2, 3), keepdim=True) + pixels) // (2 * pixels)  # rounded, halves up
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
