"""What the contract tries a method on: a small learner, a short stream, and adaptors that show what it relies on."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

from evenkeel.learning.adaptors import ADAPTORS, Adaptor
from evenkeel.learning.learner import Learner
from evenkeel.learning.methods import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.rng import global_seed
from evenkeel.learning.types import StepRecord, View

MakeMethod = Callable[[], Method]
LabelledBatch = tuple[Tensor, list[int]]


def net(outputs: int = 4) -> Net:
    with global_seed(0):
        return Net(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU()), nn.Linear(8, outputs))


class Silent(Adaptor):
    """An adaptor that corrects nothing."""

    def correct(self, view: View, *, learning: bool = False) -> View:
        same = view.logits + torch.zeros_like(view.logits)
        return replace(view, adapted=same, comparable=same)


class Offset(Adaptor):
    """An adaptor that adds a residual, as CBA does, and a constant for each class, as a prior does."""

    def __init__(self, *, size: float) -> None:
        self.size = size

    def correct(self, view: View, *, learning: bool = False) -> View:
        offset, comparable = self.size * torch.arange(1.0, 1 + view.logits.shape[1]), 1.1 * view.logits
        return replace(view, adapted=comparable + offset, comparable=comparable)


def cba() -> Adaptor:
    make: Callable[..., Adaptor] = ADAPTORS["cba"]
    return make(hidden=(8,), every=2, lr=1e-2)


def adaptors(make: MakeMethod) -> list[Adaptor | None]:
    """Return None, and a new CBA if the method can be combined with one."""
    return [None] if make().no_adaptor else [None, cba()]


def learner(method: Method, adaptor: Adaptor | None, *, outputs: int = 4, memory: int = 8) -> Learner:
    optimizer = partial(SGD, lr=0.1, momentum=0.5)
    return Learner(net(outputs), method, adaptor=adaptor, memory=memory, replay=4, optimizer=optimizer)


def stream() -> list[LabelledBatch]:
    """Return six batches of five samples: classes 0 and 1, then 2 and 3."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(4, 6, generator=generator)
    batches = []
    for task in (0, 0, 0, 1, 1, 1):
        y = torch.randint(2, (5,), generator=generator) + 2 * task
        batches.append((centres[y] + 0.3 * torch.randn(5, 6, generator=generator), y.tolist()))
    return batches


def learn(learner: Learner, batches: Sequence[LabelledBatch], *, start: int = 0) -> list[StepRecord]:
    """Learn the batches, with a boundary after the third batch of the stream."""
    records = []
    for place, (x, y) in enumerate(batches, start):
        records.append(learner.learn(x, y))
        if place == 2:
            learner.boundary()
    return records


def taught(method: Method, adaptor: Adaptor | None) -> tuple[Learner, list[StepRecord]]:
    """Return a learner that has learned the stream, and its records."""
    made = learner(method, adaptor)
    return made, learn(made, stream())


def weights(learner: Learner) -> Tensor:
    return nn.utils.parameters_to_vector(learner.net.parameters()).detach()


def contents(view: View) -> dict[str, Any]:
    tensors = {"x": view.x, "y": view.y, "features": view.features, "logits": view.logits, "adapted": view.adapted}
    tensors["comparable"] = view.comparable
    return {name: value.detach() for name, value in {**tensors, **view.stored}.items()}


def with_other_columns(view: View) -> View:
    """Return the view with other numbers in the columns that have an entry per output."""
    generator = torch.Generator().manual_seed(0)
    columns = {
        name: torch.randn(column.shape, generator=generator)
        for name, column in view.stored.items()
        if column.shape == view.logits.shape and column.is_floating_point()
    }
    return replace(view, stored={**view.stored, **columns})
