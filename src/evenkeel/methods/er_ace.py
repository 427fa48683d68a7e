"""ER-ACE: experience replay with asymmetric cross-entropy."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel.methods.base import Method, cross_entropy
from evenkeel.nets import Net
from evenkeel.types import View


class ERACE(Method):
    """ER-ACE (Caccia et al. 2022): CE(new, old classes left out) + CE(memory).

    The incoming batch competes only with its own classes and with those never seen, so it does not push old classes
    down; memory, which holds all of them, competes with all. "Own" is what is in the batch: no boundary is needed.
    """

    seen: Tensor  # (outputs,) whether a class was learned before the present batch

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        self.register_buffer("seen", torch.zeros(net.outputs, dtype=torch.bool))

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        loss = F.cross_entropy(new.adapted.masked_fill(self.masked(new), torch.finfo(new.adapted.dtype).min), new.y)
        for view in old:
            loss = loss + cross_entropy(view)
        return loss

    def masked(self, new: View) -> Tensor:
        """(outputs,) the classes seen before and absent from the batch."""
        masked = widened(self.seen, new.logits.shape[1], fill=0)
        masked[new.y] = False
        return masked

    def remember(self, new: View) -> Mapping[str, Tensor]:
        self.seen = widened(self.seen, new.logits.shape[1], fill=0)
        self.seen[new.y] = True
        return {}


def widened(values: Tensor, outputs: int, fill: int) -> Tensor:
    """A copy of (old outputs,) `values`, filled up to (outputs,)."""
    return F.pad(values, (0, outputs - len(values)), value=fill).clone()
