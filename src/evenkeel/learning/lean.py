"""The forward pass of an MLP without modules, whose calls take longer than the arithmetic of a single sample.

The operations are those of the modules, so the results are the same to the bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenkeel.learning.heads import GrowingHead
from evenkeel.learning.nets import Net


@dataclass(frozen=True)
class LeanNet:
    """The layers of an MLP, and the parts of its head, of which so many outputs are visible."""

    hidden: Sequence[nn.Linear]
    parts: Sequence[nn.Linear]
    outputs: int

    @classmethod
    def of(cls, net: Net) -> "LeanNet | None":
        """Return the layers of a net that `mlp` made; None for any other net."""
        if net.recipe is None or net.recipe["name"] != "mlp" or any(map(_is_hooked, net.modules())):
            return None
        hidden = list(cast("nn.Sequential", net.backbone))[1::2]
        parts = list(net.head.parts) if isinstance(net.head, GrowingHead) else [net.head]
        if any(type(layer) is not nn.Linear for layer in (*hidden, *parts)):  # a cosine head, say
            return None
        return cls(cast("list[nn.Linear]", hidden), cast("list[nn.Linear]", parts), net.outputs)

    def __call__(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        for layer in self.hidden:
            x = F.linear(x, layer.weight, layer.bias).relu_()
        scores = [F.linear(x, part.weight, part.bias) for part in self.parts]
        return (scores[0] if len(scores) == 1 else torch.cat(scores, dim=1))[:, : self.outputs]


def _is_hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)
