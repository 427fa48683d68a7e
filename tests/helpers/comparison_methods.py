"""Learners, samples and slow references for the comparison methods."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

import evenkeel as ek
from tests.helpers.methods import (
    FEATURES,
    OUTPUTS,
    linear_net,
    random,
    seeded,
    view,
)

Labelled = tuple[Tensor, list[int]]


def smooth_net(outputs: int = OUTPUTS) -> ek.Net:
    """Batch norm, and no unit that is ever silent: every sample has a direction."""
    torch.manual_seed(1)
    return ek.Net(nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.Tanh()), nn.Linear(5, outputs)).double()


def having_learned(method: ek.Method, *batches: Sequence[int]) -> ek.Net:
    """The net of `method` once it has learned batches of these outputs, each in a task of its own."""
    net = linear_net()
    if method.cosine_head:
        net.make_cosine()
    method.prepare(net, seeded())
    for place, outputs in enumerate(batches):
        if place:
            method.boundary(net, ek.Memory(3))
        if len(outputs):
            method.remember(view(outputs, seed=place))
    return net


def points(y: Sequence[int], seed: int, spread: float = 1.0) -> Labelled:
    """Float64 samples around a centre for each class; no two are alike."""
    centres = 2 * random(OUTPUTS, FEATURES, seed=99)
    return centres[list(y)] + spread * random(len(y), FEATURES, seed=seed), list(y)


def small_learner(
    method: ek.Method,
    *,
    net: ek.Net | None = None,
    memory: int | str | ek.Memory = 40,
    lr: float = 0.1,
    adaptor: ek.CBA | None = None,
) -> ek.Learner:
    """No momentum and no augmentation, so that each number can be told by hand; batch norm inside, in float64."""
    return ek.Learner(
        smooth_net() if net is None else net,
        method,
        memory=memory,
        replay=6,
        adaptor=adaptor,
        optimizer=partial(SGD, lr=lr),
        normalize=([0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 1.0, 0.5]),
    )


def in_eval(net: ek.Net) -> ek.Net:
    return copy.deepcopy(net).eval()


def unit(row: Sequence[float]) -> list[float]:
    length = math.sqrt(sum(value * value for value in row))
    return [value / length for value in row]


def mean_of(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def slow_features(net: ek.Net, x: Tensor) -> list[list[float]]:
    """One sample at a time, in evaluation mode."""
    still = in_eval(net)
    with torch.no_grad():
        rows: list[list[float]] = [still.features(sample[None])[0].tolist() for sample in x]
    return rows


# ---- losses: slow references, sample by sample ----

TaskOf = Mapping[int, int]  # of each seen output, the task it first came in


def sides(task_of: TaskOf, task: int) -> tuple[list[int], list[int]]:
    """Old and new outputs; none is old while a task brings no class."""
    new = [output for output, first in task_of.items() if first == task]
    old = [output for output, first in task_of.items() if first < task]
    return (old if new else []), new


# The classes of each task before the present one, those that the present one had so far; then an incoming batch and the
# memory draw. In the second case a sample of an old class comes in, in the fourth no class is new.
CASES: dict[str, tuple[list[list[int]], list[int], list[int]]] = {
    "first-task": ([[0, 1]], [1, 2, 0, 5], [0, 1, 2]),
    "second-task": ([[0, 1, 5], [3]], [3, 4, 1, 4], [0, 5, 3, 1, 1]),
    "third-task": ([[0], [1, 5], [3]], [3, 3, 4, 2], [0, 5, 3, 1]),
    "nothing-new": ([[0, 1, 5], []], [0, 5, 1], [0, 1]),
    "memory-empty": ([[0, 1], []], [3, 4], []),
}


def situation(case: str, width: int) -> tuple[list[list[int]], list[ek.View], TaskOf, int]:
    """What was learned, the views with a teacher's word of `width` columns, the task of each seen output."""
    learned, new, old = CASES[case]
    views = [
        view(y, seed, {"teacher": random(len(y), width, seed=seed + 40)}) for seed, y in ((1, new), (2, old)) if len(y)
    ]
    task_of: dict[int, int] = {}
    for task, outputs in enumerate([*learned[:-1], [*learned[-1], *new]]):
        for output in outputs:
            task_of.setdefault(output, task)
    return learned, views, task_of, len(learned) - 1


def assert_gradient(
    loss: Callable[[Sequence[ek.View]], Tensor], reference: Callable[[Sequence[ek.View]], float], views: list[ek.View]
) -> None:
    """Autograd of `loss` against differences of the slow reference, in random directions of all that a net gives."""
    names = ("logits", "adapted", "features")
    views = [replace(one, **{name: getattr(one, name).detach().requires_grad_() for name in names}) for one in views]
    given = [getattr(one, name) for one in views for name in names]
    gradient = torch.autograd.grad(loss(views), given, materialize_grads=True, allow_unused=True)
    for seed in range(3):
        along = [random(*value.shape, seed=500 + 10 * seed + place) for place, value in enumerate(given)]

        def at(step: float, along: Sequence[Tensor] = along) -> float:
            moved = iter([value.detach() + step * a for value, a in zip(given, along, strict=True)])
            return reference([replace(one, **{name: next(moved) for name in names}) for one in views])

        slope = (at(1e-5) - at(-1e-5)) / 2e-5
        assert slope != 0
        assert sum(float((g * a).sum()) for g, a in zip(gradient, along, strict=True)) == pytest.approx(slope, rel=1e-6)


def plain_learner(method: ek.Method, *, net: ek.Net | None = None, **settings: object) -> ek.Learner:
    """Without normalisation: the net is given what was learned."""
    given: dict[str, object] = {"memory": 40, "replay": 6, "optimizer": partial(SGD, lr=0.1), **settings}
    return ek.Learner(smooth_net(2) if net is None else net, method, **given)  # type: ignore[arg-type]
