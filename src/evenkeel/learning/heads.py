"""Heads other than nn.Linear: a cosine head, and one that adds outputs without changing the old ones."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenkeel.learning.rng import global_seed


class CosineHead(nn.Module):
    """A head that computes scale * cos(features, row) for each output, with a learned scale.

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
        """Return a cosine head with the rows of a linear head."""
        cosine = cls.__new__(cls)
        nn.Module.__init__(cosine)
        cosine.in_features, cosine.out_features = head.in_features, head.out_features
        assert isinstance(head.weight, nn.Parameter)
        cosine.weight = head.weight
        cosine.scale = nn.Parameter(head.weight.detach().new_full((), float(scale)))
        cosine.register_buffer("fixed", torch.zeros(head.out_features, dtype=torch.bool, device=head.weight.device))
        return cosine

    def forward(self, features: Tensor) -> Tensor:
        weight = torch.where(self.fixed[:, None], self.weight.detach(), self.weight)
        return self.scale * F.linear(F.normalize(features, dim=1), F.normalize(weight, dim=1))


class GrowingHead(nn.Module):
    """A head that adds outputs without changing the old ones.

    One wider matrix would be simpler, but a matrix product of another width may round its old columns differently. So
    new outputs are added as a new part. Parts double in size, with spare rows that stay hidden until needed: a head
    that grew class by class to C outputs has about log2(C) parts. Cosine parts share one scale.
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
        """Widen the head to `outputs`; return the new parameters, if any, each with the old one of the same role."""
        new: list[tuple[nn.Parameter, nn.Parameter]] = []
        if outputs > self._room:
            rows = max(outputs - self._room, self._room)
            with global_seed(seed):
                part = self._part(rows)
            self.parts.append(part)
            self._room += rows
            pairs = zip(part.parameters(), self.parts[0].parameters(), strict=True)
            new = [(added, old) for added, old in pairs if added is not old]
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
    """Return the parts of a cosine head, in the order of its outputs."""
    parts = list(head.parts) if isinstance(head, GrowingHead) else [head]
    return [part for part in parts if isinstance(part, CosineHead)]
