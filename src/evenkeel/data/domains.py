"""Domains: how the inputs of a task are transformed, in training and in test alike.

A domain is called with a whole batch (n, ...) of any dtype and returns a batch of the same shape and dtype. It is
deterministic: anything random is drawn from the domain's own seed.
"""

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from evenkeel.errors import InputError, SettingsError
from evenkeel.learning.registry import call_text
from evenkeel.learning.rng import make_generator


class Domain(Protocol):
    """A fixed transformation of the inputs, with a name for reports."""

    name: str

    def __call__(self, x: Tensor, /) -> Tensor: ...


class Rotation:
    """A rotation of images about their centre, counter-clockwise: bilinear, with zeros outside the image.

    Quarter turns that keep the shape only move pixels; zero degrees change no bit.

    >>> Rotation(90)(torch.tensor([[[[1, 2], [3, 4]]]]))
    tensor([[[[2, 4],
              [1, 3]]]])
    """

    def __init__(self, degrees: float) -> None:
        if not math.isfinite(degrees):
            raise SettingsError(f"degrees={degrees}: an angle must be finite.")
        self.degrees = degrees
        self.name = f"rotation {degrees:g}°"

    def __call__(self, x: Tensor) -> Tensor:
        if x.dim() != 4:
            raise InputError(f"Rotation needs images (n, channels, height, width), but got the shape {tuple(x.shape)}.")
        quarters, rest = divmod(self.degrees % 360, 90)
        if rest == 0 and (quarters % 2 == 0 or x.shape[2] == x.shape[3]):
            return torch.rot90(x, int(quarters), (2, 3))
        values = x if x.dtype == torch.float64 else x.float()
        grid = self._sources(*x.shape[2:]).to(values).expand(len(x), -1, -1, -1)
        turned = F.grid_sample(values, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
        return (turned if x.is_floating_point() else turned.round()).to(x.dtype)

    def __repr__(self) -> str:
        return call_text(self)

    def _sources(self, height: int, width: int) -> Tensor:
        """Return (height, width, 2): the x and y that each pixel comes from, where the image spans -1 to 1 in both."""
        angle = math.radians(self.degrees)
        down = (torch.arange(height, dtype=torch.float64) - (height - 1) / 2)[:, None]
        right = torch.arange(width, dtype=torch.float64) - (width - 1) / 2
        x = math.cos(angle) * right - math.sin(angle) * down
        y = math.sin(angle) * right + math.cos(angle) * down
        return torch.stack([2 * x / width, 2 * y / height], dim=-1)


class Permutation:
    """A permutation of the pixels of images (all channels alike) or the features of vectors, the same for all samples.

    `number` distinguishes the permutations of one seed.

    >>> Permutation(seed=0, number=2)(torch.arange(10).view(2, 5))
    tensor([[1, 2, 4, 3, 0],
            [6, 7, 9, 8, 5]])
    """

    def __init__(self, seed: int, number: int = 1) -> None:
        self.seed = seed
        self.number = number
        self.name = f"permutation {number}"

    def __call__(self, x: Tensor) -> Tensor:
        if x.dim() < 2:
            raise InputError(f"A batch to be permuted must be of shape (n, ...), but its shape is {tuple(x.shape)}.")
        positions = x.flatten(2 if x.dim() == 4 else 1)
        order = torch.randperm(positions.shape[-1], generator=make_generator(self.seed, self.name))
        return positions[..., order.to(x.device)].view(x.shape)

    def __repr__(self) -> str:
        return call_text(self)
