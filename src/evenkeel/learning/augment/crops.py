"""Crops: at the original size out of a padded image, or of any size and resized."""

from math import log

import torch
import torch.nn.functional as F
from torch import Tensor

from evenkeel.errors import whole_number
from evenkeel.learning.augment.images import check_bytes, check_images, interval
from evenkeel.learning.registry import call_text
from evenkeel.learning.torch_utils import sent

TRIES = 10  # sizes drawn for a crop until one fits into the image, as in torchvision


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
        check_images("CropFlip", x)
        return crop(x, self.padding, self.flip, generator)

    def __repr__(self) -> str:
        return call_text(self)


class ResizedCrop:
    """Crops a random part, `scale` of the area with a width to height of `ratio`, and resizes it to the full size.

    As torchvision's RandomResizedCrop: the area is uniform, the logarithm of the ratio as well, and so is the position;
    if ten crops do not fit, the largest that keeps the ratio is taken. Bilinear; `flip` mirrors half of the samples.

    >>> x = torch.arange(2 * 3 * 4 * 6, dtype=torch.uint8).view(2, 3, 4, 6)
    >>> augment = ResizedCrop()
    >>> augment(x, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3, 4, 6])
    """

    def __init__(
        self, *, scale: tuple[float, float] = (0.2, 1.0), ratio: tuple[float, float] = (3 / 4, 4 / 3), flip: bool = True
    ) -> None:
        self.scale = interval("scale", scale, 1)
        self.ratio = interval("ratio", ratio, float("inf"))
        self.flip = flip

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        check_bytes("ResizedCrop", x)
        height, width = x.shape[2:]
        tall, wide = self._sizes(len(x), height, width, generator)
        rows, columns = (
            _places(size, part, torch.rand(len(x), 1, dtype=torch.float64, generator=generator))
            for size, part in ((height, tall), (width, wide))
        )
        if self.flip:
            mirrored = torch.randint(2, (len(x), 1), generator=generator).bool()
            columns = torch.where(mirrored, columns.flip(1), columns)
        return _interpolated(x, rows, columns)

    def __repr__(self) -> str:
        return call_text(self)

    def _sizes(self, n: int, height: int, width: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return height and width (n, 1) of each crop, in whole pixels: the first draw that fits."""
        area, shape = (torch.rand(n, TRIES, dtype=torch.float64, generator=generator) for _ in range(2))
        (small, large), (narrow, broad) = self.scale, self.ratio
        area = height * width * (small + (large - small) * area)
        ratio = (log(narrow) + (log(broad) - log(narrow)) * shape).exp()
        tall, wide = (area / ratio).sqrt().round(), (area * ratio).sqrt().round()
        # The last column always fits: the largest crop whose ratio is allowed.
        tall, wide = (
            torch.cat([sizes, torch.full((n, 1), float(last), dtype=torch.float64)], 1)
            for sizes, last in (
                (tall, max(1, min(height, round(width / narrow)))),
                (wide, max(1, min(width, round(height * broad)))),
            )
        )
        fits = (tall >= 1) & (tall <= height) & (wide >= 1) & (wide <= width)
        first = torch.where(fits, torch.arange(TRIES + 1), TRIES).amin(1, keepdim=True)
        return tall.gather(1, first), wide.gather(1, first)


def crop(x: Tensor, padding: int, flip: bool, generator: torch.Generator) -> Tensor:
    """Return crops of the original size. Whole lines are copied, several times as fast as pixel by pixel."""
    n, channels, height, width = x.shape
    top, left = (torch.randint(2 * padding + 1, (n, 1), generator=generator) for _ in range(2))
    mirrored = torch.randint(2, (n, 1), generator=generator).bool() if flip else None
    if n == 0:
        return x.clone()
    line = width + 2 * padding
    area = (height + 2 * padding) * line
    images = x.new_zeros(1 if mirrored is None else 2, n, channels, height + 2 * padding, line)
    inside = images[..., padding : padding + height, padding : padding + width]
    inside[0] = x
    if mirrored is not None:
        inside[1] = x.flip(3)
        left = torch.where(mirrored, n * channels * area + 2 * padding - left, left)  # in the second half
    begin = torch.arange(0, n * channels * area, area).view(n, channels, 1)
    begin = begin + (top * line + left)[:, :, None] + torch.arange(0, height * line, line)
    lines = images.as_strided((images.numel() - width + 1, width), (1, 1))  # one begins at each pixel
    return lines.index_select(0, sent(begin.flatten(), x.device)).view(x.shape)


def _places(size: int, part: Tensor, start: Tensor) -> Tensor:
    """Return (n, size) places in the image that `size` pixels come from, between the centres of the `part` cropped.

    `start` in [0, 1) says where the crop begins.
    """
    first = (start * (size - part + 1)).floor()
    inside = (torch.arange(size, dtype=torch.float64) + 0.5) * part / size - 0.5
    return inside.clamp(min=0).minimum(part - 1) + first


def _interpolated(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return images with the pixels at these places, interpolated between neighbours."""
    n, _, height, width = x.shape
    if n == 0:
        return x.clone()
    down, across = ((2 * rows + 1) / height - 1)[:, :, None], ((2 * columns + 1) / width - 1)[:, None, :]
    grid = torch.stack([across.expand(n, height, width), down.expand(n, height, width)], 3).float().to(x.device)
    pixels = F.grid_sample(x.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return (pixels + 0.5).to(torch.uint8)
