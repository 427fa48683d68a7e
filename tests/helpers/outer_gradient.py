"""The outer gradient of CBA: learners, batches, and records of updates to compare with the slow reference."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from evenkeel import CBA, Adaptor, Learner, Method, Net, View
from evenkeel.learning.adaptors.bilevel import unrolled_step
from evenkeel.learning.methods.base import sum_of_cross_entropies
from evenkeel.learning.step import Outcome, Step
from tests.helpers.reference_cba import Group, Sgd

NEW, REPLAY = 6, 8  # different, so that a mean over the wrong number is detected
OPTIMIZERS: dict[str, Callable[[Net], SGD]] = {
    "sgd": lambda net: SGD(net.parameters(), lr=0.1),
    "momentum-decay": lambda net: SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-2),
    "dampening": lambda net: SGD(net.parameters(), lr=0.1, momentum=0.9, dampening=0.3),
    "nesterov-own-group": lambda net: SGD(
        [{"params": net.backbone.parameters(), "lr": 0.05}, {"params": net.head.parameters(), "weight_decay": 1e-2}],
        lr=0.2,
        momentum=0.9,
        nesterov=True,
    ),
}


# ---- a learner in its second task, and its updates ----


def small_net(outputs: int = 5) -> Net:
    torch.manual_seed(0)
    convolution = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    return Net(convolution, nn.Linear(16, outputs)).double()


def batch(classes: tuple[int, int], seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.tensor(classes).repeat(NEW // 2)
    x = torch.randn(NEW, 1, 6, 6, dtype=torch.float64, generator=generator) + y.view(-1, 1, 1, 1) / 2
    return x, y


def second_task(
    method: Method,
    adaptor: Adaptor,
    optimizer: Callable[[Net], SGD] = OPTIMIZERS["momentum-decay"],
    outputs: int = 5,
    *,
    repeats: int = 1,
) -> Learner:
    """Return a learner whose memory holds only classes 0 and 1; the next batch should be of classes 2 and 3.

    Its momentum buffers are filled.
    """
    net = small_net(outputs)
    learner = Learner(
        net, method, adaptor=adaptor, memory=30, replay=REPLAY, repeats=repeats, optimizer=optimizer(net), seed=3
    )
    for seed in range(3):
        learner.learn(*batch((0, 1), seed))
    return learner


@dataclass
class Update:
    """A record of one update of the network. `net`, `omega` and `sgd` are from before it."""

    net: Net
    omega: list[Tensor]
    sgd: list[Sgd]
    groups: list[Group] = field(default_factory=list)  # of the real step
    query: list[Group] = field(default_factory=list)
    views: list[View] = field(default_factory=list)  # of the real step; the logits keep their gradient
    virtual: list[Tensor] = field(default_factory=list)  # gradients of the library's virtual step
    gradient: list[Tensor] = field(default_factory=list)  # of omega, as passed to Adam
    outer_loss: float | None = None


def watch(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> list[Update]:
    """Record every update from now on without changing it."""
    updates: list[Update] = []
    cba = learner.adaptor
    assert isinstance(cba, CBA)
    kind = type(learner.method)
    call, loss, query_loss, adam = Step.__call__, kind.loss, kind.query_loss, CBA._step

    def spied_call(step: Step, x: Tensor, y: Tensor, *, first: bool) -> Outcome:
        rules = [sgd_rule(learner, weight) for weight in step.net.head.parameters()]
        updates.append(Update(copy.deepcopy(step.net), [w.detach().clone() for w in cba.g.parameters()], rules))
        outcome = call(step, x, y, first=first)
        updates[-1].outer_loss = outcome.outer_loss
        return outcome

    def spied_loss(method: Method, new: View, old: Sequence[View]) -> Tensor:
        views = [new, *old]  # the last call is the real step's, and the only one with a graph to the backbone
        for view in views:
            if view.features.requires_grad:
                view.logits.retain_grad()
        updates[-1].views, updates[-1].groups = views, as_groups(views)
        return loss(method, new, old)

    def spied_query_loss(method: Method, old: Sequence[View]) -> Tensor:
        assert all(view.adapted is view.logits for view in old)  # even if a method uses `adapted`
        updates[-1].query = as_groups(old)
        return query_loss(method, old)

    def spied_unrolled_step(optimizer: SGD, weight: Tensor, gradient: Tensor) -> Tensor:
        updates[-1].virtual.append(gradient.detach().clone())
        return unrolled_step(optimizer, weight, gradient)

    def spied_adam(cba: CBA) -> None:
        updates[-1].gradient = [weight.grad.clone() for weight in cba.g.parameters() if weight.grad is not None]
        adam(cba)

    monkeypatch.setattr(Step, "__call__", spied_call)
    # What an outer step knows a closed form of stays known to it.
    if loss is sum_of_cross_entropies:
        monkeypatch.setattr("evenkeel.learning.adaptors.bilevel.sum_of_cross_entropies", spied_loss)
    owner = Method if query_loss is Method.query_loss else kind
    monkeypatch.setattr(kind, "loss", spied_loss)
    monkeypatch.setattr(owner, "query_loss", spied_query_loss)
    monkeypatch.setattr("evenkeel.learning.adaptors.bilevel.unrolled_step", spied_unrolled_step)
    monkeypatch.setattr(CBA, "_step", spied_adam)
    return updates


def as_groups(views: Sequence[View]) -> list[Group]:
    return [Group(view.x, view.y, view.stored) for view in views]


def sgd_rule(learner: Learner, weight: Tensor) -> Sgd:
    (group,) = [group for group in learner.optimizer.param_groups if any(weight is one for one in group["params"])]
    velocity = learner.optimizer.state.get(weight, {}).get("momentum_buffer")
    options = {name: group[name] for name in ("lr", "momentum", "dampening", "weight_decay", "nesterov")}
    return Sgd(**options, velocity=None if velocity is None else velocity.clone())


def assert_close(actual: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float) -> None:
    """Assert equality up to `tolerance`, absolute and relative to the largest entry, which must not be zero."""
    largest = max(float(one.detach().abs().max()) for one in expected)
    assert largest > 0
    for one, other in zip(actual, expected, strict=True):
        assert one.shape == other.shape
        assert float((one - other).detach().abs().max()) <= tolerance * min(1.0, largest)
