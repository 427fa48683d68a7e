"""Measures of a run, by hand and by what other libraries publish for the same matrices."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from evenkeel import metrics
from evenkeel.errors import InputError
from evenkeel.evaluate import task_accuracies

Matrix = NDArray[np.float64]

# Three tasks. Task 0 is best in the middle (70 -> 80 -> 50), task 1 falls from 60 to 45, task 2 is just learned;
# what is above the diagonal was measured before the task was learned.
HAND: Matrix = np.array([[70.0, 10.0, 20.0], [80.0, 60.0, 30.0], [50.0, 45.0, 90.0]])
BY_HAND: dict[str, tuple[Callable[[Matrix], float], float]] = {
    "average-accuracy": (metrics.average_accuracy, (50 + 45 + 90) / 3),
    "learning-accuracy": (metrics.learning_accuracy, (70 + 60 + 90) / 3),
    "forgetting-over-T-1": (metrics.forgetting, (30 + 15) / 2),
    "forgetting-over-T": (metrics.forgetting_over_all, (30 + 15 + 0) / 3),
    "forgetting-since-learned": (metrics.forgetting_since_learned, (20 + 15) / 2),
    "backward-transfer": (metrics.backward_transfer, -(20 + 15) / 2),
    "forward-transfer": (lambda r: metrics.forward_transfer(r, [5, 12, 24]), ((10 - 12) + (30 - 24)) / 2),
}


@pytest.mark.parametrize(("measure", "expected"), BY_HAND.values(), ids=BY_HAND)
def test_by_hand(measure: Callable[[Matrix], float], expected: float) -> None:
    before = HAND.copy()
    assert measure(HAND) == pytest.approx(expected)
    assert np.array_equal(HAND, before)  # the released code pads its caller's lists


# Vectors that Avalanche ("first minus now") and Continuum test themselves by.
AVALANCHE: Matrix = np.array([[1, 0, 0], [0.5, 0.8, 1], [0.2, 1, 0.5]])
CONTINUUM: Matrix = np.array([[1, 0.25], [0.25, 0.25]])
CONTINUUM_TRANSFER: Matrix = np.array([[1, 0.5], [0.5, 0]])
GOLDEN: dict[str, tuple[Callable[[Matrix], float], Matrix, float]] = {
    "avalanche-forgetting": (metrics.forgetting_since_learned, AVALANCHE, (0.8 - 0.2) / 2),
    "avalanche-transfer": (metrics.backward_transfer, AVALANCHE, -(0.8 - 0.2) / 2),
    "continuum-forgetting": (metrics.forgetting, CONTINUUM, 0.75),
    "continuum-remembering": (lambda r: 1 + min(metrics.backward_transfer(r), 0), CONTINUUM, 0.25),
    "continuum-transfer": (metrics.backward_transfer, CONTINUUM_TRANSFER, -0.5),
}


@pytest.mark.parametrize(("measure", "matrix", "expected"), GOLDEN.values(), ids=GOLDEN)
def test_published_vectors(measure: Callable[[Matrix], float], matrix: Matrix, expected: float) -> None:
    assert measure(matrix) == pytest.approx(expected)


def test_signs() -> None:
    """Forgetting is bad when positive, transfer when negative; what got better is negative forgetting since learned."""
    better: Matrix = np.array([[40.0, 0.0], [60.0, 50.0]])
    assert metrics.forgetting(better) == 0  # the last row counts among the best
    assert metrics.forgetting_since_learned(better) == -20
    assert metrics.backward_transfer(better) == 20
    assert metrics.forward_transfer(better, [0, 10]) == -10


@pytest.mark.parametrize("name", BY_HAND)
def test_a_single_task_has_forgotten_nothing(name: str) -> None:
    """The mean of nothing would be nan, with a warning."""
    measure, _ = BY_HAND[name]
    one: Matrix = np.array([[70.0]])
    if name == "forward-transfer":
        assert metrics.forward_transfer(one, [5.0]) == 0
    else:
        assert measure(one) == (70 if "accuracy" in name else 0)


MATRICES = st.integers(1, 7).flatmap(
    lambda tasks: hnp.arrays(np.float64, (tasks, tasks), elements=st.floats(0, 100, width=16))
)


@given(MATRICES)
@settings(deadline=None)
def test_how_the_measures_relate(r: Matrix) -> None:
    tasks = len(r)
    r[:-1, -1] = np.minimum(r[:-1, -1], r[-1, -1])  # nothing to forget of the task just learned
    assert metrics.forgetting_over_all(r) == pytest.approx((tasks - 1) / tasks * metrics.forgetting(r))
    assert metrics.backward_transfer(r) == -metrics.forgetting_since_learned(r)
    assert metrics.forgetting(r) >= max(0, metrics.forgetting_since_learned(r)) - 1e-9
    measures = [metrics.average_accuracy, metrics.learning_accuracy, metrics.forgetting, metrics.backward_transfer]
    assert all(np.isfinite(measure(r)) for measure in measures)


@given(st.lists(st.floats(0, 100, width=16), min_size=1, max_size=30), st.integers(1, 10))
@settings(deadline=None)
def test_area_under_the_curve(points: list[float], interval: int) -> None:
    mean = sum(points) / len(points)
    assert metrics.area_under_curve(points) == pytest.approx(mean)
    assert metrics.area_sum(points, interval) == pytest.approx(mean * len(points) * interval)


def test_the_area_counts_every_point_of_every_task() -> None:
    """The released code keeps the points of the last task only."""
    assert metrics.area_under_curve([10, 20, 30, 100]) == 40
    assert metrics.area_sum([10, 20, 30, 100], 5) == 800
    assert metrics.area_under_curve([]) == 0
    assert metrics.area_sum([], 5) == 0


# ---- accuracies by task ----


def test_accuracies_by_hand() -> None:
    logits = torch.tensor(
        [
            [5.0, 1.0, 0.0, 0.0],  # 0, right
            [0.0, 1.0, 5.0, 0.0],  # 1, taken for a class of the other task
            [1.0, 0.0, 0.0, 0.0],  # 1, wrong within its task too
            [0.0, 0.0, 0.0, 5.0],  # 3, right
            [0.0, 0.0, 1.0, 0.0],  # 2, right
            [9.0, 0.0, 1.0, 0.0],  # 2, taken for a class of the other task
        ]
    )
    y = torch.tensor([0, 1, 1, 3, 2, 2])
    tasks = [[0, 1], [2, 3]]
    assert task_accuracies(logits, y, tasks) == pytest.approx([100 / 3, 200 / 3])
    assert task_accuracies(logits, y, tasks, masked=True) == pytest.approx([200 / 3, 100])


def test_outputs_that_no_task_has_compete_unless_masked() -> None:
    """As in the CBA paper: outputs of classes not yet seen count; cutting them off would give higher numbers."""
    logits, y = torch.tensor([[1.0, 0.0, 2.0]]), torch.tensor([0])
    assert task_accuracies(logits, y, [[0, 1]]) == [0]
    assert task_accuracies(logits, y, [[0, 1]], masked=True) == [100]


def accuracies_both_ways(scores: NDArray[Any], y: list[int], tasks: list[list[int]]) -> tuple[list[float], list[float]]:
    logits = torch.tensor(scores, dtype=torch.float32)
    before, labels = logits.clone(), torch.tensor(y)
    plain = task_accuracies(logits, labels, tasks)
    masked = task_accuracies(logits, labels, tasks, masked=True)
    assert torch.equal(logits, before)
    assert labels.tolist() == y
    return plain, masked


@given(data=st.data(), tasks=st.sampled_from([[[0, 1], [2, 3]], [[0], [1, 2, 3]], [[1, 3], [0, 2]]]))
@settings(deadline=None)
def test_knowing_the_task_never_hurts_and_the_logits_stay(data: st.DataObject, tasks: list[list[int]]) -> None:
    y = [0, 1, 2, 3, *data.draw(st.lists(st.integers(0, 3), max_size=8))]
    scores = data.draw(hnp.arrays(np.float32, (len(y), 5), elements=st.integers(-3, 3)))  # with many ties
    plain, masked = accuracies_both_ways(scores, y, tasks)
    assert all(known >= unknown for known, unknown in zip(masked, plain, strict=True))


def test_knowing_the_task_does_not_hurt_in_whatever_order_its_classes_are_listed() -> None:
    plain, masked = accuracies_both_ways(np.zeros((1, 2)), [0], [[1, 0]])
    assert masked >= plain


def test_a_task_without_samples_is_told() -> None:
    with pytest.raises(InputError, match=r"no test sample of the task with outputs \[1\]"):
        task_accuracies(torch.zeros(1, 2), torch.tensor([0]), [[0], [1]])
