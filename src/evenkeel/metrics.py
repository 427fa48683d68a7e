"""Measures of a run: pure functions of the accuracy matrix and of the anytime curve.

R[j, i] is the accuracy on task i after learning task j, both counted from 0, in percent; T is the number of tasks.
Forgetting has several definitions in the field; each has its own name here. All are 0 for a single task.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def average_accuracy(r: Matrix) -> float:
    """ACC = mean_i R[T-1, i]"""
    return float(r[-1].mean())


def learning_accuracy(r: Matrix) -> float:
    """mean_i R[i, i]: how well each task was learned when it came"""
    return float(np.diagonal(r).mean())


def forgetting(r: Matrix) -> float:
    """FM = mean over i < T-1 of max_j R[j, i] - R[T-1, i], as most code computes it (the released CBA code too)"""
    return _mean((r.max(axis=0) - r[-1])[:-1])


def forgetting_over_all(r: Matrix) -> float:
    """1/T sum over all i of max_j R[j, i] - R[T-1, i], the formula of the CBA paper

    It is (T-1)/T of `forgetting` where the last task is at its best in the end.
    """
    return float((r.max(axis=0) - r[-1]).mean())


def forgetting_since_learned(r: Matrix) -> float:
    """mean over i < T-1 of R[i, i] - R[T-1, i]"""
    return _mean((np.diagonal(r) - r[-1])[:-1])


def backward_transfer(r: Matrix) -> float:
    """BWT = mean over i < T-1 of R[T-1, i] - R[i, i]"""
    return 0.0 - forgetting_since_learned(r)


def forward_transfer(r: Matrix, untrained: Sequence[float]) -> float:
    """FWT = mean over i > 0 of R[i-1, i] - untrained[i]"""
    return _mean(np.diagonal(r, offset=1) - np.asarray(untrained, dtype=np.float64)[1:])


def area_under_curve(points: Sequence[float]) -> float:
    """ACC_AUC normalised: the mean of the anytime accuracies of the whole stream"""
    return _mean(np.asarray(points, dtype=np.float64))


def area_sum(points: Sequence[float], interval: int) -> float:
    """ACC_AUC as in the paper: sum_i a(i * interval) * interval, in accuracy x steps"""
    return float(np.sum(points)) * interval


def _mean(values: Matrix) -> float:
    return float(values.mean()) if values.size else 0.0
