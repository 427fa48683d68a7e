"""A slow and plain reference of the running class prior and of its learned strength, to compare the library with.

Written from the formulas: shares are counted label by label, the network is copied and forwarded again, and autograd
differentiates through an explicit virtual step of the last layer. f are plain logits, o the offset, g CBA's residual.
"""

import copy
import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel import Net
from tests.helpers.reference_cba import ALPHA, BETA, Group, Sgd, last_layer, leaves, pairs


class SlowPrior:
    """pi <- (1 - rate) pi + rate pi_now, and o(c) = tau log max(pi(c), 1e-3 / classes with pi > 0)."""

    def __init__(self, rate: float = 0.2) -> None:
        self.rate = rate
        self.pi: dict[int, float] | None = None

    def observe(self, new: Sequence[int], memory: Sequence[int], share: float) -> None:
        now = {c: new.count(c) / len(new) for c in {*new, *memory}}
        if memory:
            now = {c: share * of_new + (1 - share) * memory.count(c) / len(memory) for c, of_new in now.items()}
        if self.pi is None:
            self.pi = now
            return
        every = {*self.pi, *now}
        self.pi = {c: (1 - self.rate) * self.pi.get(c, 0.0) + self.rate * now.get(c, 0.0) for c in every}

    def offset(self, outputs: int, tau: float = 1.0) -> list[float]:
        pi = self.pi or {}
        known = sum(1 for share in pi.values() if share > 0)
        return [tau * math.log(max(pi.get(c, 0.0), 1e-3 / known)) for c in range(outputs)]


def balanced_cross_entropy(
    new: Tensor, y_new: Sequence[int], old: Tensor, y_old: Sequence[int], memory: Sequence[int]
) -> Tensor:
    """Return the weighted mean of cross-entropies, a class counting as often as it is to be expected in new and old."""
    rows, labels = [*new, *old], [*y_new, *y_old]
    weights = [1 / (y_new.count(c) + len(y_old) * memory.count(c) / len(memory)) for c in labels]
    terms = [w * (row.logsumexp(0) - row[c]) for w, row, c in zip(weights, rows, labels, strict=True)]
    return torch.stack(terms).sum() / sum(weights)


def residual(f: Tensor, omega: Sequence[Tensor]) -> Tensor:
    """Return g(softmax f), a constant to f."""
    out = f.softmax(1).detach()
    layers = pairs(omega)
    for weight, bias in layers[:-1]:
        out = (out @ weight.T + bias).relu()
    return out @ layers[-1][0].T + layers[-1][1]


def outer_gradient(
    loss: Literal["er", "derpp"],
    net: Net,
    groups: Sequence[Group],
    query: Sequence[Group],
    *,
    memory: Sequence[int],
    log_pi: Tensor,
    sgd: Sequence[Sgd],
    log_tau: Tensor | None = None,
    omega: Sequence[Tensor] = (),
) -> tuple[Tensor, list[Tensor]]:
    """Return the outer loss and its gradient with respect to log tau (tau = 1 if None) and omega (no g if empty)."""
    trained = leaves([*([] if log_tau is None else [log_tau]), *omega])
    offset = log_pi if log_tau is None else trained[0].exp() * log_pi
    weights_of_g = trained if log_tau is None else trained[1:]
    twin = copy.deepcopy(net).train()
    weights = list(twin.head.parameters())
    features = [twin.backbone(group.x).flatten(1) for group in groups]
    plain = [last_layer(h, weights, net.outputs) for h in features]
    comparable = [f + residual(f, weights_of_g) if omega else f for f in plain]
    ce = [F.cross_entropy(one + offset, group.y) for one, group in zip(comparable, groups, strict=True)]
    if loss == "er":
        training = ce[0] + ce[1]
    else:
        target = groups[1].stored["adapted" if omega else "logits"]
        training = ce[0] + ALPHA * F.mse_loss(comparable[1], target) + BETA * ce[2]
    gradients = torch.autograd.grad(training, weights, create_graph=True)
    moved = [rule.move(w.detach(), d) for rule, w, d in zip(sgd, weights, gradients, strict=True)]
    fresh = [copy.deepcopy(net).train().backbone(group.x).flatten(1) for group in query]
    old = torch.cat([last_layer(h, moved, net.outputs) for h in fresh])
    y_old = torch.cat([group.y for group in query]).tolist()
    new = last_layer(features[0].detach(), moved, net.outputs)
    outer = balanced_cross_entropy(new, groups[0].y.tolist(), old, y_old, memory)
    return outer.detach(), list(torch.autograd.grad(outer, trained))
