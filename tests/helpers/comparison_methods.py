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
    """Return a net with batch norm and no unit that is ever silent: every sample has a direction."""
    torch.manual_seed(1)
    return ek.Net(nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.Tanh()), nn.Linear(5, outputs)).double()


def having_learned(method: ek.Method, *batches: Sequence[int]) -> ek.Net:
    """Return the net of `method` after learning batches of these outputs, each in its own task."""
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
    """Return float64 samples around a centre for each class; no two are equal."""
    centres = 2 * random(OUTPUTS, FEATURES, seed=99)
    return centres[list(y)] + spread * random(len(y), FEATURES, seed=seed), list(y)


def small_learner(
    method: ek.Method,
    *,
    net: ek.Net | None = None,
    memory: int | str | ek.Memory = 40,
    lr: float = 0.1,
    adaptor: ek.Adaptor | None = None,
    repeats: int = 1,
) -> ek.Learner:
    """Return a float64 learner without momentum or augmentation, so that each number can be computed by hand."""
    return ek.Learner(
        smooth_net() if net is None else net,
        method,
        memory=memory,
        replay=6,
        repeats=repeats,
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
    """Return the features, computed one sample at a time, in evaluation mode."""
    still = in_eval(net)
    with torch.no_grad():
        rows: list[list[float]] = [still.features(sample[None])[0].tolist() for sample in x]
    return rows


# ---- losses: slow references, sample by sample ----

TaskOf = Mapping[int, int]  # the task in which each seen output first appeared


def sides(task_of: TaskOf, task: int) -> tuple[list[int], list[int]]:
    """Return the old and the new outputs; none is old while a task has no new class."""
    new = [output for output, first in task_of.items() if first == task]
    old = [output for output, first in task_of.items() if first < task]
    return (old if new else []), new


# The classes of each task before the current one and those that the current one had so far; then an incoming batch and
# the memory draw. The batch of the second case has a sample of an old class, that of the fourth has no new class.
CASES: dict[str, tuple[list[list[int]], list[int], list[int]]] = {
    "first-task": ([[0, 1]], [1, 2, 0, 5], [0, 1, 2]),
    "second-task": ([[0, 1, 5], [3]], [3, 4, 1, 4], [0, 5, 3, 1, 1]),
    "third-task": ([[0], [1, 5], [3]], [3, 3, 4, 2], [0, 5, 3, 1]),
    "nothing-new": ([[0, 1, 5], []], [0, 5, 1], [0, 1]),
    "memory-empty": ([[0, 1], []], [3, 4], []),
}


def situation(case: str, width: int) -> tuple[list[list[int]], list[ek.View], TaskOf, int]:
    """Return the classes learned, views with `width` teacher columns, the task of each seen output, the last task."""
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
    """Compare autograd of `loss` with differences of the slow reference, in random directions of a net's outputs."""
    names = ("logits", "adapted", "comparable", "features")
    views = [replace(one, **{name: getattr(one, name).detach().requires_grad_() for name in names}) for one in views]
    inputs = [getattr(one, name) for one in views for name in names]
    gradient = torch.autograd.grad(loss(views), inputs, materialize_grads=True, allow_unused=True)
    for seed in range(3):
        along = [random(*value.shape, seed=500 + 10 * seed + place) for place, value in enumerate(inputs)]

        def at(step: float, along: Sequence[Tensor] = along) -> float:
            moved = iter([value.detach() + step * a for value, a in zip(inputs, along, strict=True)])
            return reference([replace(one, **{name: next(moved) for name in names}) for one in views])

        slope = (at(1e-5) - at(-1e-5)) / 2e-5
        assert slope != 0
        assert sum(float((g * a).sum()) for g, a in zip(gradient, along, strict=True)) == pytest.approx(slope, rel=1e-6)


def plain_learner(method: ek.Method, *, net: ek.Net | None = None, **settings: object) -> ek.Learner:
    """Return a learner without normalisation: the net gets the samples unchanged."""
    options: dict[str, object] = {"memory": 40, "replay": 6, "optimizer": partial(SGD, lr=0.1), **settings}
    return ek.Learner(smooth_net(2) if net is None else net, method, **options)  # type: ignore[arg-type]
