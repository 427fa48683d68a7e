"""A slow and plain reference of the bi-level update of the Continual Bias Adaptor, to compare the library with.

Written from the paper's formulas and the known order of the released code, not from the library: the whole network is
copied and forwarded again, the losses are spelled out, and autograd differentiates through an explicit virtual step.
f are plain logits, g the residual of the adaptor, omega its weights, h the input features of the last layer.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel import Net

Loss = Literal["er", "derpp", "clser"]
ALPHA, BETA, REG = 0.2, 0.5, 0.1  # of DER++ and of CLS-ER, as released


@dataclass(frozen=True)
class Group:
    """A batch or memory draw as network input."""

    x: Tensor
    y: Tensor
    stored: Mapping[str, Tensor]


@dataclass(frozen=True)
class Sgd:
    """The next step of SGD for one parameter; `velocity` is None before its first step."""

    lr: float
    momentum: float
    dampening: float
    weight_decay: float
    nesterov: bool
    velocity: Tensor | None

    def move(self, weight: Tensor, gradient: Tensor) -> Tensor:
        d = gradient + self.weight_decay * weight
        if self.momentum == 0:
            return weight - self.lr * d
        v = d if self.velocity is None else self.momentum * self.velocity + (1 - self.dampening) * d
        return weight - self.lr * (d + self.momentum * v if self.nesterov else v)


@dataclass(frozen=True)
class Reference:
    """One choice of method and adaptor. Every function forwards a fresh copy of the network passed in."""

    loss: Loss
    probabilities: bool  # the input of g is softmax(f); otherwise f
    through: bool  # the gradient with respect to the network also flows through g
    joint_forward: bool = False

    # The adaptor and the losses

    def adapted(self, f: Tensor, omega: Sequence[Tensor]) -> Tensor:
        inputs = f.softmax(1) if self.probabilities else f
        out = inputs if self.through else inputs.detach()
        layers = pairs(omega)
        for weight, bias in layers[:-1]:
            out = (out @ weight.T + bias).relu()
        weight, bias = layers[-1]
        return f + out @ weight.T + bias

    def training_loss(self, logits: Sequence[Tensor], groups: Sequence[Group], omega: Sequence[Tensor]) -> Tensor:
        big_f = [self.adapted(f, omega) for f in logits]
        y = [group.y for group in groups]
        loss = F.cross_entropy(big_f[0], y[0])
        if self.loss == "er":
            return loss + F.cross_entropy(big_f[1], y[1])
        if self.loss == "derpp":
            dark = F.mse_loss(big_f[1], groups[1].stored["adapted"])
            return loss + ALPHA * dark + BETA * F.cross_entropy(big_f[2], y[2])
        consistency = F.mse_loss(logits[1], groups[1].stored["teacher"])  # does not depend on g
        return loss + F.cross_entropy(big_f[1], y[1]) + REG * consistency

    def query_loss(self, logits: Sequence[Tensor], query: Sequence[Group]) -> Tensor:
        """Return the loss of plain logits on fresh draws. DER++: weights 1 and 1, whatever alpha and beta."""
        if self.loss != "derpp":
            (f,), (group,) = logits, query
            return F.cross_entropy(f, group.y)
        (f1, f2), (dark, labelled) = logits, query
        return F.mse_loss(f1, dark.stored["logits"]) + F.cross_entropy(f2, labelled.y)

    def logit_gradients(
        self, logits: Sequence[Tensor], groups: Sequence[Group], omega: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return D of the training loss, by hand; only without `through`, where g is a constant to the network."""
        big_f = [self.adapted(f, omega) for f in logits]

        def of_cross_entropy(j: int) -> Tensor:
            one_hot = F.one_hot(groups[j].y, big_f[j].shape[1])
            return (big_f[j].softmax(1) - one_hot) / len(one_hot)

        def of_squares(difference: Tensor) -> Tensor:
            return 2 * difference / difference.numel()

        if self.loss == "er":
            return [of_cross_entropy(0), of_cross_entropy(1)]
        if self.loss == "derpp":
            dark = of_squares(big_f[1] - groups[1].stored["adapted"])
            return [of_cross_entropy(0), ALPHA * dark, BETA * of_cross_entropy(2)]
        consistency = of_squares(logits[1] - groups[1].stored["teacher"])
        return [of_cross_entropy(0), of_cross_entropy(1) + REG * consistency]

    # The network

    def features(self, net: Net, groups: Sequence[Group]) -> list[Tensor]:
        """Forward new samples, then the draws, in training mode; the running statistics of `net` itself change."""
        net.train()
        if self.joint_forward:
            sizes = [len(group.y) for group in groups]
            return list(net.backbone(torch.cat([group.x for group in groups])).flatten(1).split(sizes))
        return [net.backbone(group.x).flatten(1) for group in groups]

    def virtual_gradient(self, net: Net, groups: Sequence[Group], omega: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradient of the training loss with respect to the last layer, with a graph to omega."""
        twin = copy.deepcopy(net)
        weights = list(twin.head.parameters())
        logits = [last_layer(h, weights, twin.outputs) for h in self.features(twin, groups)]
        return list(torch.autograd.grad(self.training_loss(logits, groups, omega), weights, create_graph=True))

    def closed_gradient(self, net: Net, groups: Sequence[Group], omega: Sequence[Tensor]) -> list[Tensor]:
        """Return the same for one linear layer, by hand: gW = sum D_j^T h_j, gb = sum D_j^T 1. Not for `through`."""
        twin = copy.deepcopy(net)
        features = self.features(twin, groups)
        logits = [last_layer(h, list(twin.head.parameters()), twin.outputs) for h in features]
        outward = list(zip(self.logit_gradients(logits, groups, omega), features, strict=True))
        return [torch.stack([d.T @ h for d, h in outward]).sum(0), torch.stack([d.sum(0) for d, _ in outward]).sum(0)]

    def outer_loss(
        self,
        net: Net,
        groups: Sequence[Group],
        query: Sequence[Group],
        omega: Sequence[Tensor],
        sgd: Sequence[Sgd],
    ) -> Tensor:
        """Return L_buf after one virtual step of the last layer; `sgd` has an entry for each of its parameters."""
        weights = [weight.detach() for weight in net.head.parameters()]
        steps = zip(sgd, weights, self.virtual_gradient(net, groups, omega), strict=True)
        moved = [rule.move(weight, gradient) for rule, weight, gradient in steps]
        twin = copy.deepcopy(net).train()
        logits = [last_layer(twin.backbone(group.x).flatten(1), moved, net.outputs) for group in query]
        return self.query_loss(logits, query)

    def outer_gradient(
        self,
        net: Net,
        groups: Sequence[Group],
        query: Sequence[Group],
        omega: Sequence[Tensor],
        sgd: Sequence[Sgd],
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the outer loss and its gradient with respect to omega."""
        omega = leaves(omega)
        loss = self.outer_loss(net, groups, query, omega, sgd)
        return loss.detach(), list(torch.autograd.grad(loss, omega))

    def joint_gradients(
        self, net: Net, groups: Sequence[Group], query: Sequence[Group], omega: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the ablations' gradients of L_trn (+ L_buf if there is a query), for the whole network and omega."""
        omega, twin = leaves(omega), copy.deepcopy(net)
        weights = list(twin.parameters())
        head = list(twin.head.parameters())
        logits = [last_layer(h, head, twin.outputs) for h in self.features(twin, groups)]
        loss = self.training_loss(logits, groups, omega)
        if query:
            plain = [last_layer(twin.backbone(group.x).flatten(1), head, twin.outputs) for group in query]
            loss = loss + self.query_loss(plain, query)
        gradients = torch.autograd.grad(loss, [*weights, *omega])
        return list(gradients[: len(weights)]), list(gradients[len(weights) :])


def last_layer(h: Tensor, weights: Sequence[Tensor], outputs: int) -> Tensor:
    """Apply weight and bias, or several such pairs: a head that grew has a pair for each part, and spare rows."""
    return torch.cat([h @ weight.T + bias for weight, bias in pairs(weights)], dim=1)[:, :outputs]


def pairs(weights: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return list(zip(weights[::2], weights[1::2], strict=True))


def leaves(omega: Sequence[Tensor]) -> list[Tensor]:
    return [weight.detach().clone().requires_grad_() for weight in omega]
