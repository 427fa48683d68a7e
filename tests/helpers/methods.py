"""Views, losses computed sample by sample, and small nets for tests of methods."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evenkeel import (
    Memory,
    Method,
    Net,
    mlp,
)
from evenkeel.learning.types import View

OUTPUTS, FEATURES = 7, 4


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed))


def view(y: Sequence[int], seed: int, stored: Mapping[str, Tensor] | None = None, *, corrected: bool = True) -> View:
    """Return a view whose three kinds of logits are unrelated, so that using the wrong ones is detected."""
    n = len(y)
    logits = random(n, OUTPUTS, seed=seed).requires_grad_()
    adapted = random(n, OUTPUTS, seed=seed + 100).requires_grad_() if corrected else logits
    comparable = random(n, OUTPUTS, seed=seed + 400).requires_grad_() if corrected else logits
    x, features = random(n, FEATURES, seed=seed + 200), random(n, FEATURES, seed=seed + 300)
    return View(x, torch.tensor(y), stored or {}, features, logits, adapted, comparable)


def linear_net(outputs: int = OUTPUTS, seed: int = 0) -> Net:
    return mlp(features=FEATURES, classes=outputs, hidden=(), seed=seed).double()


# ---- a slow reference, sample by sample, from the formulas ----


def reference_ce(scores: Tensor, y: Tensor, allowed: Callable[[int], Iterable[int]] | None = None) -> float:
    """Return the mean of -log softmax, over the outputs that `allowed` returns for a label."""
    total = 0.0
    for row, label in zip(scores.tolist(), y.tolist(), strict=True):
        outputs = range(len(row)) if allowed is None else allowed(label)
        total -= row[label] - math.log(sum(math.exp(row[output]) for output in outputs))
    return total / len(y)


def reference_kd(scores: Tensor, teacher: Tensor, outputs: Sequence[int], temperature: float) -> float:
    """Return T^2 KL(softmax(teacher / T) || softmax(scores / T)) over `outputs`, mean over samples."""

    def probabilities(row: Sequence[float]) -> list[float]:
        weights = [math.exp(row[output] / temperature) for output in outputs]
        return [weight / sum(weights) for weight in weights]

    total = 0.0
    for row, target in zip(scores.tolist(), teacher.tolist(), strict=True):
        pairs = zip(probabilities(target), probabilities(row), strict=True)
        total += sum(p * math.log(p / q) for p, q in pairs)
    return temperature**2 * total / len(scores)


def teacher_logits(net: Net, x: Tensor) -> Tensor:
    assert isinstance(net.head, nn.Linear)
    weight, bias = net.head.weight.tolist(), net.head.bias.tolist()
    rows = [
        [sum(w * a for w, a in zip(line, sample, strict=True)) + b for line, b in zip(weight, bias, strict=True)]
        for sample in x.tolist()
    ]
    return torch.tensor(rows, dtype=torch.float64)


MakeMethod = Callable[[], Method]


def norm_net(outputs: int = OUTPUTS) -> Net:
    torch.manual_seed(1)
    body = nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.ReLU())
    return Net(body, nn.Linear(5, outputs)).double()


def reference_mse(scores: Tensor, targets: Tensor) -> float:
    """Return the squared error, mean over samples and outputs."""
    squares: list[float] = [
        (a - b) ** 2
        for row, target in zip(scores.tolist(), targets.tolist(), strict=True)
        for a, b in zip(row, target, strict=True)
    ]
    return sum(squares) / len(squares)


# ---- losses ----

NEW = view([2, 3, 3, 4, 2], seed=1)
OLD = [view([0, 1, 1], seed=2), view([5, 0], seed=3)]


def having_learned(method: Method, *batches: Sequence[int]) -> Method:
    """Return `method` after learning batches of these outputs, each in its own task."""
    net = linear_net()
    method.prepare(net, seeded())
    for place, batch in enumerate(batches):
        if place:
            method.boundary(net, Memory(3))
        method.remember(view(batch, seed=place))
    return method


def state_of(net: Net) -> dict[str, np.ndarray[Any, Any]]:
    return {name: value.detach().clone().numpy() for name, value in net.state_dict().items()}


def shake(net: Net, seed: int) -> None:
    """Change weights and running statistics, as a training step would."""
    with torch.no_grad():
        for place, weight in enumerate(net.parameters()):
            weight.add_(random(*weight.shape, seed=seed * 10 + place))
    net(random(6, FEATURES, seed=seed) * 2 + 1)


# ---- teachers in a learner ----


def stream(batches: int, first: int = 0) -> list[tuple[Tensor, list[int]]]:
    result = []
    for place in range(first, first + batches):
        x = random(6, FEATURES, seed=place)
        result.append((x, [int(label) + 2 * (place // 4) for label in torch.arange(6) % 2]))
    return result
