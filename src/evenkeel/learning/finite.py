"""Whether the numbers of an update are finite: collected where they are, and read once.

To read a number makes the host wait for the device that computes it, so an update does that once, after its backward.
"""

from collections.abc import Mapping, Sequence
from math import inf, isfinite

import torch
from torch import Tensor

from evenkeel.errors import DivergenceError
from evenkeel.learning.torch_utils import to_host


def sizes(values: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return a number () for each tensor of fractions, which is NaN or infinite if a number in that is."""
    fractions = [value.detach() for value in values if value.numel() and value.is_floating_point()]
    if not fractions:
        return []
    if fractions[0].device.type == "cpu":  # where a sum takes a fraction of the time of a norm
        return [fraction.sum() for fraction in fractions]
    return torch._foreach_norm(fractions, inf)  # one operation for all


def spoiled(pairs: Sequence[tuple[Tensor, Tensor]]) -> Sequence[Tensor]:
    """Return the sizes of tensors, given with their values before; 0 for those that were not finite then either."""
    now, before = (sizes(tensors) for tensors in zip(*pairs, strict=True)) if pairs else ([], [])
    return [torch.where(then.isfinite(), size, 0.0) for size, then in zip(now, before, strict=True)]


def read(
    numbers: Mapping[str, Sequence[Tensor | float]], along: Sequence[Tensor] = ()
) -> tuple[dict[str, list[float]], list[Tensor]]:
    """Return these numbers, and the tensors `along` on the host, all read at once.

    Raise DivergenceError that names the first number that is not finite.
    """
    there = [number.detach() for several in numbers.values() for number in several if isinstance(number, Tensor)]
    if there[0].device.type == "cpu":
        floats = iter([number.item() for number in there])
    else:
        packed, *along = to_host([torch.stack(there), *along])
        floats = iter(packed.tolist())
    values = {
        name: [next(floats) if isinstance(number, Tensor) else number for number in several]
        for name, several in numbers.items()
    }
    for name, several in values.items():
        if not all(map(isfinite, several)):
            raise DivergenceError(
                f"{name} is NaN or infinite; the network was rolled back to its state before this update, and the "
                "adaptor with it. A lower learning rate or normalised inputs may help."
            )
    return values, list(along)
