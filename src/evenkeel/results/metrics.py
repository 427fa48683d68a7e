"""The formulas behind the measures: pure functions of the accuracy matrix and the anytime curve.

R[j, i] is the accuracy on task i after learning task j, both counted from 0, in percent; T >= 1 is the number of
tasks. The first line of each docstring is the formula, which reports show; below it is who uses it. The field has
several definitions of forgetting; each has its own name here. All are 0 for a single task, as is the mean of no values.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Matrix = NDArray[np.float64]


def average_accuracy(r: Matrix) -> float:
    """ACC = mean over i of R[T-1, i]

    The headline number of most papers: the accuracy on all tasks at the end.
    """
    return float(r[-1].mean())


def average_incremental_accuracy(r: Matrix) -> float:
    """AIA = mean over t of mean over i <= t of R[t, i]

    Used by iCaRL and class-incremental work since: after each task, the accuracy on all tasks so far. LibContinual
    calls it overall average accuracy.
    """
    return float(np.mean([r[t, : t + 1].mean() for t in range(len(r))]))


def triangle_accuracy(r: Matrix) -> float:
    """A = mean over all j and i <= j of R[j, i]

    Used by Diaz-Rodriguez et al. 2018; Continuum calls it accuracy_A.
    """
    return float(r[np.tril_indices(len(r))].mean())


def learning_accuracy(r: Matrix) -> float:
    """LA = mean over i of R[i, i]

    Used in work on transfer, such as MER: how well each task was learned when it arrived. If all outputs compete it
    rewards bias toward the newest task; if only those of the task's own classes do, it shows plasticity alone.
    """
    return float(np.diagonal(r).mean())


def forgetting(r: Matrix) -> float:
    """FM = mean over i < T-1 of max over j >= i of R[j, i] - R[T-1, i]

    Used in most code: Mammoth, PyCIL, Continuum, and the code released with the CBA paper.
    """
    return _mean((_best(r) - r[-1])[:-1])


def forgetting_over_all(r: Matrix) -> float:
    """FM over all = 1/T * sum over i of max over j >= i of R[j, i] - R[T-1, i]

    The formula in the CBA paper, and in RaptorMai's code. It is (T-1)/T of FM if the last task is at its best at the
    end.
    """
    return float((_best(r) - r[-1]).mean())


def _best(r: Matrix) -> Matrix:
    """Return the best accuracy on each task since it was learned: what was known of it before cannot be forgotten."""
    best: Matrix = np.tril(r).max(axis=0)
    return best


def forgetting_before_end(r: Matrix) -> float:
    """FM before the end = mean over i of max over j < T-1 of R[j, i] - R[T-1, i], for all i where that max is not 0

    Used in i-Blurry's code, by class: `r` may also have a column of recalls for each class. A column that is 0 until
    the end counts as not learned yet. One that is best at the end counts as negative forgetting.
    """
    best = r[:-1].max(axis=0, initial=0)
    return _mean((best - r[-1])[best > 0])


def forgetting_since_learned(r: Matrix) -> float:
    """FM since learned = mean over i < T-1 of R[i, i] - R[T-1, i]

    Used by Avalanche, and by the survey of online methods built on it.
    """
    return _mean((np.diagonal(r) - r[-1])[:-1])


def forgetting_but_newest_two(r: Matrix) -> float:
    """FM but the newest two = 1/(T-1) * sum over i < T-2 of R[i, i] - R[T-1, i]

    Used in LibContinual's code, which omits the second-to-last task from the sum, though not from the count.
    """
    return float((np.diagonal(r) - r[-1])[:-2].sum()) / max(1, len(r) - 1)


def backward_transfer(r: Matrix) -> float:
    """BWT = mean over i < T-1 of R[T-1, i] - R[i, i]

    Used by GEM and its successors: forgetting since learned with the opposite sign.
    """
    return 0.0 - forgetting_since_learned(r)


def forward_transfer(r: Matrix, untrained: Sequence[float]) -> float:
    """FWT = mean over i > 0 of R[i-1, i] - untrained[i]

    Used by GEM and its successors: how much earlier tasks help one not learned yet, over an untrained network.
    """
    return _mean(np.diagonal(r, offset=1) - np.asarray(untrained, dtype=np.float64)[1:])


def worst_case_accuracy(curve: Sequence[Sequence[float]], tasks: Sequence[int], r: Matrix) -> float:
    """WC-ACC = 1/T * R[T-1, T-1] + 1/T * sum over i < T-1 of the lowest accuracy on task i ever after it was learned

    Used by De Lange et al. 2023 for the stability gap: the drop right after a task begins, which tests at task ends do
    not show. `curve[n]` has the accuracies on the tasks so far at anytime point n, recorded while task `tasks[n]` was
    being learned. The ends of later tasks count as points too. Runs without a curve have no such measure: their tests
    at task ends would miss the gap.
    """
    last = len(r) - 1
    lowest = [
        min(*r[i + 1 :, i], *(point[i] for point, task in zip(curve, tasks, strict=True) if task > i), np.inf)
        for i in range(last)
    ]
    return float(np.mean([*lowest, r[last, last]]))


def area_under_curve(points: Sequence[float]) -> float:
    """AUC = mean over n of a(n), the anytime accuracies of the whole stream

    Used by i-Blurry, which calls it A_AUC, and by papers on online learning since.
    """
    return _mean(np.asarray(points, dtype=np.float64))


def areas_by_task(points: Sequence[float], tasks: Sequence[int]) -> list[float]:
    """AUC of task t = mean over all n within task t of a(n)

    Used in the CBA paper's figures. `tasks[n]` is the task being learned at point n; a task without a point has 0.
    """
    values, during = np.asarray(points, dtype=np.float64), np.asarray(tasks, dtype=np.int64)
    return [_mean(values[during == task]) for task in range(during.max(initial=-1) + 1)]


def area_sum(points: Sequence[float], interval: int) -> float:
    """ACC_AUC = sum over n of a(n) * interval, in accuracy x steps

    The formula in the CBA paper, which grows with the length of the stream.
    """
    return float(np.sum(points)) * interval


def prequential_accuracy(correct: Sequence[int], samples: Sequence[int]) -> float:
    """prequential accuracy = 100 * sum over n of right(n) / sum over n of samples(n), predicting before learning

    Used in data-stream mining (MOA, CapyMOA, River), where there is no test data besides the stream.
    """
    return 100 * sum(correct) / sum(samples) if sum(samples) else 0.0


def recency_bias(predicted: Sequence[float]) -> float:
    """recency bias = 100 * p(T-1) / sum over i of p(i), where p(i) predictions fall on the classes of task i

    The bias that CBA is meant to correct. For a fair learner it is the newest task's share of the test samples, which
    is 100/T for tasks of equal size.
    """
    total = float(np.sum(predicted))
    return 100 * float(predicted[-1]) / total if total else 0.0


def recency_tilt(true: ArrayLike, predicted: ArrayLike) -> float:
    """recency tilt = 100 * (q - m) / (1 - m), or / m if q < m, q and m: mean recency of predicted and of true classes

    Whether classes seen recently are predicted too often (above 0) or too rarely (below 0): 100 if every sample is
    taken for a class seen last, -100 if for one seen longest ago. The recency of a class rises from 0, seen longest
    ago, in equal steps to 1, seen last. `true` and `predicted` hold, for each sample, when its true class and its
    predicted one were last seen: the task in a run, the example in a service, which measures the same on its memory.
    """
    moments, ranks = np.unique(np.stack([true, predicted]), return_inverse=True)
    if len(moments) < 2:
        return 0.0
    m, q = ranks.reshape(2, -1).mean(axis=1) / (len(moments) - 1)
    return 100 * float((q - m) / (1 - m if q >= m else m))


def class_recall(confusion: ArrayLike) -> Matrix:
    """recall of class c = 100 * n(c, c) / sum over p of n(c, p), where n(c, p) samples of class c are taken for p

    Used by i-Blurry, under the name class accuracy. A class without samples has 0.
    """
    counts: Matrix = np.asarray(confusion, dtype=np.float64)
    total = counts.sum(axis=1)
    return 100 * np.diagonal(counts) / np.where(total > 0, total, 1)


def _mean(values: Matrix) -> float:
    return float(values.mean()) if values.size else 0.0
