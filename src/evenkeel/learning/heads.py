"""Heads beside nn.Linear: one of cosines, and one that takes new outputs without touching the old ones."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenkeel.learning.rng import global_seed


class CosineHead(nn.Module):
    """scale * cos(features, row) for each output, with a learned scale.

    >>> head = CosineHead(3, 2, scale=4.0)
    >>> bool((head(torch.randn(5, 3)).abs() <= 4).all())
    True
    """

    fixed: Tensor  # (out_features,) rows that get no gradient

    def __init__(self, in_features: int, out_features: int, *, scale: float = 10.0) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = nn.Parameter(nn.Linear(in_features, out_features, bias=False).weight.detach())
        self.scale = nn.Parameter(torch.tensor(float(scale)))
        self.register_buffer("fixed", torch.zeros(out_features, dtype=torch.bool))

    @classmethod
    def of(cls, head: nn.Linear, *, scale: float = 10.0) -> "CosineHead":
        """With the rows of a linear head."""
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made.in_features, made.out_features = head.in_features, head.out_features
        assert isinstance(head.weight, nn.Parameter)
        made.weight = head.weight
        made.scale = nn.Parameter(head.weight.new_tensor(float(scale)))
        made.register_buffer("fixed", torch.zeros(head.out_features, dtype=torch.bool, device=head.weight.device))
        return made

    def forward(self, features: Tensor) -> Tensor:
        weight = torch.where(self.fixed[:, None], self.weight.detach(), self.weight)
        return self.scale * F.linear(F.normalize(features, dim=1), F.normalize(weight, dim=1))


class GrowingHead(nn.Module):
    """A head that takes new outputs without touching the old ones.

    One wider matrix would be simpler, but a matrix product of another width may round its old columns otherwise. So
    new outputs come as a new part. Parts double in size, with spare rows that are not shown until needed: a head that
    grew class by class to C outputs has about log2(C) parts. Parts of cosines share one scale.
    """

    def __init__(self, first: nn.Linear | CosineHead) -> None:
        super().__init__()
        self.parts = nn.ModuleList([first])
        self.in_features = first.in_features
        self.out_features = first.out_features
        self._room = first.out_features

    def forward(self, features: Tensor) -> Tensor:
        return torch.cat([part(features) for part in self.parts], dim=1)[:, : self.out_features]

    def grow(self, outputs: int, seed: int) -> list[tuple[nn.Parameter, nn.Parameter]]:
        """Returns the new parameters, if any, each with the old one whose part it takes."""
        new: list[tuple[nn.Parameter, nn.Parameter]] = []
        if outputs > self._room:
            rows = max(outputs - self._room, self._room)
            with global_seed(seed):
                part = self._part(rows)
            self.parts.append(part)
            self._room += rows
            pairs = zip(part.parameters(), self.parts[0].parameters(), strict=True)
            new = [(mine, old) for mine, old in pairs if mine is not old]
        self.out_features = outputs
        return new

    def _part(self, rows: int) -> nn.Linear | CosineHead:
        first = self.parts[0]
        if isinstance(first, CosineHead):
            part = CosineHead(self.in_features, rows).to(first.weight)
            part.scale = first.scale
            return part
        assert isinstance(first, nn.Linear)
        return nn.Linear(self.in_features, rows, bias=first.bias is not None).to(first.weight)


def cosine_parts(head: nn.Module) -> list[CosineHead]:
    """The parts of a head of cosines, in the order of its outputs."""
    parts = list(head.parts) if isinstance(head, GrowingHead) else [head]
    return [part for part in parts if isinstance(part, CosineHead)]
