"""CLS-ER as released, written slowly from its description: float64, sample by sample where it chooses a teacher.

One thing differs: the released code forwards each memory batch twice through the working net, which moves that net's
running statistics twice; here, as in the library, it is forwarded once.
"""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

Group = tuple[Tensor, Tensor]  # samples and their outputs


class ReferenceCLSER:
    """The working net and two averages of its parameters, all of which stay in training mode for good."""

    def __init__(self, net: nn.Module, *, lr: float, reg: float, alpha: float) -> None:
        self.net = copy.deepcopy(net).train()
        self.stable, self.plastic = copy.deepcopy(self.net), copy.deepcopy(self.net)
        self.lr, self.reg, self.alpha = lr, reg, alpha
        self.steps = 0

    def step(self, new: Group, old: Group | None, chances: Sequence[bool]) -> float:
        """Learn one batch; `chances` say whether the plastic and the stable average move. Return the loss."""
        teacher = None if old is None else self._teacher(*old)
        loss = self._cross_entropy(self.net(new[0]), new[1])
        if old is not None:
            logits = self.net(old[0])
            loss = loss + self._cross_entropy(logits, old[1]) + self.reg * (logits - teacher).pow(2).mean()
        gradients = torch.autograd.grad(loss, list(self.net.parameters()))
        with torch.no_grad():
            for weight, gradient in zip(self.net.parameters(), gradients, strict=True):
                weight.copy_(weight - self.lr * gradient)
        self.steps += 1
        for average, moves in zip((self.plastic, self.stable), chances, strict=True):
            if moves:
                self._average(average)
        return float(loss.detach())

    def _teacher(self, x: Tensor, y: Tensor) -> Tensor:
        """Return, for each sample, the logits of the average that is surer of its class."""
        with torch.no_grad():
            stable, plastic = self.stable(x), self.plastic(x)
        rows = []
        for one, other, label in zip(stable, plastic, y.tolist(), strict=True):
            surer = one.softmax(0)[label] > other.softmax(0)[label]
            rows.append(one if surer else other)
        return torch.stack(rows)

    @torch.no_grad()
    def _average(self, average: nn.Module) -> None:
        keep = min(1 - 1 / (self.steps + 1), self.alpha)
        for old, new in zip(average.parameters(), self.net.parameters(), strict=True):
            old.copy_(keep * old + (1 - keep) * new)

    @staticmethod
    def _cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
        rows = [row.logsumexp(0) - row[label] for row, label in zip(logits, y.tolist(), strict=True)]
        return torch.stack(rows).mean()
