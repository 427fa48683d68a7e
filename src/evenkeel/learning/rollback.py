"""What an update may change before it is certain that its batch can be learned: kept, to be restored if it cannot."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from evenkeel.learning.adaptors import Adaptor
from evenkeel.learning.methods import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.rng import Generators


@dataclass(frozen=True)
class Before:
    """Statistics, what a method's hooks before the optimizer's step may write to, adaptor and generators, as they were.

    A method may write to the head and to its buffers, among them the running statistics of its teachers, and may
    replace a buffer by another tensor.
    """

    statistics: Sequence[tuple[Tensor, Tensor]]  # buffers, each with its value
    head: Sequence[tuple[Tensor, Tensor]]  # likewise
    places: Sequence[tuple[nn.Module, str, Tensor]]  # of the method's buffers
    adaptor: Adaptor | None
    adapted: Mapping[str, Any] | None  # the adaptor's own backup, if its state may change
    generators: Generators
    drawn: Mapping[str, Tensor]  # the states of the generators

    @classmethod
    def of(cls, net: Net, method: Method, adaptor: Adaptor | None, generators: Generators) -> "Before":
        """Return these parts as they are."""
        places = [
            (part, name, tensor)
            for part in method.modules()
            for name, tensor in part._buffers.items()  # `named_buffers` takes several times as long
            if tensor is not None
        ]
        return cls(
            _values(chain(net.buffers(), (tensor for _, _, tensor in places))),
            _values(net.head.parameters() if method.acts_before_loss else ()),
            places,
            adaptor,
            None if adaptor is None else adaptor.backup(),
            generators,
            generators.state_dict(),
        )

    @torch.no_grad()
    def restore(self) -> None:
        """Return the parts to what they were."""
        for part, name, tensor in self.places:
            setattr(part, name, tensor)
        for tensor, value in chain(self.statistics, self.head):
            tensor.copy_(value)
        if self.adaptor is not None and self.adapted is not None:
            self.adaptor.restore(self.adapted)
        self.generators.load_state_dict(self.drawn)


def _values(tensors: Iterable[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return [(tensor, tensor.detach().clone()) for tensor in tensors]
