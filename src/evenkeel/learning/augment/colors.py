"""Changes of color. Gray images have no saturation and no hue, so these leave them as they are."""

import torch
from torch import Tensor

from evenkeel.learning.augment.images import check_bytes, gray, number
from evenkeel.learning.registry import call_text

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


class ColorJitter:
    """Changes brightness, contrast, saturation and hue of a share `p` of the samples, in an order of its own for each.

    As torchvision's ColorJitter: a factor is uniform from 1 - strength (at least 0) to 1 + strength; hue is turned by
    up to `hue` of the circle in either direction. Numbers are rounded once, at the end. Of images with one channel,
    brightness and contrast change.

    >>> x = torch.full((2, 3, 8, 8), 7, dtype=torch.uint8)
    >>> augment = ColorJitter()
    >>> augment(x, torch.Generator().manual_seed(0)).dtype
    torch.uint8
    >>> augment
    ColorJitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, p=0.8)
    """

    def __init__(
        self,
        *,
        brightness: float = 0.4,
        contrast: float = 0.4,
        saturation: float = 0.4,
        hue: float = 0.1,
        p: float = 0.8,
    ) -> None:
        self.brightness = number("brightness", brightness, 0, float("inf"))
        self.contrast = number("contrast", contrast, 0, float("inf"))
        self.saturation = number("saturation", saturation, 0, float("inf"))
        self.hue = number("hue", hue, 0, 0.5)
        self.p = number("p", p, 0, 1)

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        check_bytes("ColorJitter", x)
        chosen = torch.rand(len(x), generator=generator) < self.p
        amounts = self._amounts(torch.rand(len(x), 4, generator=generator))
        order = torch.rand(len(x), 4, generator=generator).argsort(1)
        mine = chosen.nonzero().flatten()
        result = x.clone()
        result[mine.to(x.device)] = _changed(x[mine.to(x.device)], amounts[mine], order[mine])
        return result

    def __repr__(self) -> str:
        return call_text(self)

    def _amounts(self, drawn: Tensor) -> Tensor:
        """Return three factors and the turn of the hue (n, 4) for numbers from 0 to 1."""
        strengths = (self.brightness, self.contrast, self.saturation)
        low = torch.tensor([*(max(0.0, 1 - strength) for strength in strengths), -self.hue])
        high = torch.tensor([*(1 + strength for strength in strengths), self.hue])
        return low + (high - low) * drawn


class Grayscale:
    """Turns a share `p` of the samples gray; images with one channel stay as they are.

    Gray is Pillow's, bit for bit, in all three channels.

    >>> x = torch.arange(3, dtype=torch.uint8).view(1, 3, 1, 1) * 100
    >>> Grayscale(p=1)(x, torch.Generator()).flatten().tolist()
    [82, 82, 82]
    """

    def __init__(self, *, p: float = 0.2) -> None:
        self.p = number("p", p, 0, 1)

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        check_bytes("Grayscale", x)
        chosen = torch.rand(len(x), 1, 1, 1, generator=generator) < self.p
        return torch.where(chosen.to(x.device), gray(x).to(torch.uint8), x)

    def __repr__(self) -> str:
        return call_text(self)


def _changed(x: Tensor, amounts: Tensor, order: Tensor) -> Tensor:
    """Apply to each sample its four changes in its own order; `amounts` and `order` are (n, 4), on the CPU."""
    pixels = x.float()
    for kind in order.unbind(1):
        amount = amounts.gather(1, kind[:, None])
        factor = torch.where(kind[:, None] == HUE, 1, amount)
        pixels = _blended(pixels, *(each.to(x.device).view(-1, 1, 1, 1) for each in (kind, factor)))
        turned = (kind == HUE).nonzero().flatten()
        if x.shape[1] == 3 and len(turned):
            here = turned.to(x.device)
            pixels[here] = _turned(pixels[here], amount[turned].to(x.device).view(-1, 1, 1))
    return (pixels + 0.5).to(torch.uint8)


def _blended(pixels: Tensor, kind: Tensor, factor: Tensor) -> Tensor:
    """Return each sample moved away from, or toward, black, its mean gray, or its own gray, depending on `kind`."""
    shade = pixels if pixels.shape[1] == 1 else _luma(pixels)
    base = torch.where(kind == CONTRAST, shade.mean((2, 3), keepdim=True), shade).masked_fill(kind == BRIGHTNESS, 0)
    return torch.lerp(base.expand_as(pixels), pixels, factor).clamp(0, 255)


def _luma(pixels: Tensor) -> Tensor:
    red, green, blue = pixels.unbind(1)
    return (0.299 * red + 0.587 * green + 0.114 * blue)[:, None]


def _turned(pixels: Tensor, turn: Tensor) -> Tensor:
    """Return color images with their hue (in HSV) turned by this part of the circle; value and chroma stay."""
    red, green, blue = pixels.unbind(1)
    value, brightest = pixels.max(1)
    chroma = value - pixels.amin(1)
    ahead = torch.stack([green - blue, blue - red, red - green]).gather(0, brightest[None])[0]
    hue = ahead / chroma.clamp(min=1e-6) + 2 * brightest + 6 * turn  # in sixths of the circle
    parts = [(hue + shift) % 6 for shift in (5, 3, 1)]
    return torch.stack([value - chroma * part.minimum(4 - part).clamp(0, 1) for part in parts], 1)
