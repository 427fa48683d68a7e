"""Whether the numbers of an update are finite: collected where they are, and read once.

To read a number makes the host wait for the device that computes it, so an update does that once, after its backward.
"""

from collections.abc import Mapping, Sequence
from math import inf, isfinite

import torch
from torch import Tensor

from evenkeel.errors import DivergenceError


def largest(values: Sequence[Tensor], norm: float = inf) -> Tensor | None:
    """Return () the largest norm of these tensors, which is NaN or infinite if a number in them is; None for none."""
    sizes = _norms(values, norm)
    return None if sizes is None else sizes.amax()


def largest_spoiled(pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor | None:
    """Return () the largest number in tensors, given with their values before, if those were finite; None for none."""
    sizes, earlier = _norms([now for now, _ in pairs]), _norms([before for _, before in pairs])
    if sizes is None or earlier is None:
        return None
    return torch.where(earlier.isfinite(), sizes, 0.0).amax()


def _norms(values: Sequence[Tensor], norm: float = inf) -> Tensor | None:
    fractions = [value.detach() for value in values if value.numel() and value.is_floating_point()]
    return torch.stack(torch._foreach_norm(fractions, norm)) if fractions else None


def read(numbers: Mapping[str, Tensor | float | None]) -> dict[str, float]:
    """Return these numbers, read at once; raise DivergenceError that names the first that is not finite."""
    there = {name: number.detach() for name, number in numbers.items() if isinstance(number, Tensor)}
    widest = max((number.dtype for number in there.values()), key=lambda dtype: dtype.itemsize)
    read = zip(there, torch.stack([number.to(widest) for number in there.values()]).cpu().tolist(), strict=True)
    values = {name: number for name, number in {**numbers, **dict(read)}.items() if isinstance(number, float)}
    for name, value in values.items():
        if not isfinite(value):
            raise DivergenceError(
                f"{name} is NaN or infinite; the network was rolled back to its state before this update, and the "
                "adaptor with it. A lower learning rate or normalised inputs may help."
            )
    return values
