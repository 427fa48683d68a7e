"""Averaged weights and momentum distillation, written slowly from their formulas in float64."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

State = Mapping[str, NDArray[np.float64]]


def reference_average(history: Sequence[State], decay: float | str) -> dict[str, NDArray[np.float64]]:
    """Return the average of a net's states, the first of which is that after the first update."""
    average = {name: np.zeros_like(value) for name, value in history[0].items()}
    for n, state in enumerate(history):
        share = max(10 / (n + 10), 0.01) if isinstance(decay, str) else max(1 / (n + 1), 1 - decay)
        for name, value in state.items():
            whole = value.dtype.kind != "f"
            average[name] = value if whole else average[name] + share * (value - average[name])
    return average


def reference_distillation(students: Sequence[Sequence[float]], teachers: Sequence[Sequence[float]]) -> float:
    """Return 16 KL(softmax(teacher / 4) || softmax(student / 4)), mean over samples."""
    total = 0.0
    for student, teacher in zip(students, teachers, strict=True):
        p, q = _probabilities(teacher), _probabilities(student)
        total += sum(one * math.log(one / other) for one, other in zip(p, q, strict=True))
    return 16 * total / len(students)


def _probabilities(logits: Sequence[float]) -> list[float]:
    weights = [math.exp(logit / 4) for logit in logits]
    return [weight / sum(weights) for weight in weights]
