"""Measures of a run, checked by hand and against what other libraries publish for the same matrices."""

import inspect
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from evenkeel.results import metrics

Matrix = NDArray[np.float64]

# Three tasks. Task 0 is best in the middle (70 -> 80 -> 50), task 1 falls from 60 to 45, task 2 is just learned;
# values above the diagonal were measured before the task was learned.
HAND: Matrix = np.array([[70.0, 10.0, 20.0], [80.0, 60.0, 30.0], [50.0, 45.0, 90.0]])
BY_HAND: dict[str, tuple[Callable[[Matrix], float], float]] = {
    "average-accuracy": (metrics.average_accuracy, (50 + 45 + 90) / 3),
    "average-incremental-accuracy": (metrics.average_incremental_accuracy, (70 + (80 + 60) / 2 + 185 / 3) / 3),
    "learning-accuracy": (metrics.learning_accuracy, (70 + 60 + 90) / 3),
    "forgetting-over-T-1": (metrics.forgetting, (30 + 15) / 2),
    "forgetting-over-T": (metrics.forgetting_over_all, (30 + 15 + 0) / 3),
    "forgetting-before-end": (metrics.forgetting_before_end, (30 + 15 - 60) / 3),
    "forgetting-since-learned": (metrics.forgetting_since_learned, (20 + 15) / 2),
    "forgetting-but-newest-two": (metrics.forgetting_but_newest_two, 20 / 2),
    "backward-transfer": (metrics.backward_transfer, -(20 + 15) / 2),
    "forward-transfer": (lambda r: metrics.forward_transfer(r, [5, 12, 24]), ((10 - 12) + (30 - 24)) / 2),
    "worst-case-accuracy-at-task-ends": (lambda r: metrics.worst_case_accuracy([], [], r), (50 + 45 + 90) / 3),
}


@pytest.mark.parametrize(("measure", "expected"), BY_HAND.values(), ids=BY_HAND)
def test_by_hand(measure: Callable[[Matrix], float], expected: float) -> None:
    before = HAND.copy()
    assert measure(HAND) == pytest.approx(expected)
    assert np.array_equal(HAND, before)  # the released code pads its caller's lists


# Vectors from the tests of Avalanche ("first minus now") and Continuum, as fractions of 1.
AVALANCHE: Matrix = np.array([[1, 0, 0], [0.5, 0.8, 1], [0.2, 1, 0.5]])
CONTINUUM: Matrix = np.array([[1, 0.25], [0.25, 0.25]])
CONTINUUM_TRANSFER: Matrix = np.array([[1, 0.5], [0.5, 0]])
GOLDEN: dict[str, tuple[Callable[[Matrix], float], Matrix, float]] = {
    "avalanche-forgetting": (metrics.forgetting_since_learned, AVALANCHE, (0.8 - 0.2) / 2),
    "avalanche-transfer": (metrics.backward_transfer, AVALANCHE, -(0.8 - 0.2) / 2),
    "continuum-forgetting": (metrics.forgetting, CONTINUUM, 0.75),
    "continuum-accuracy": (metrics.triangle_accuracy, CONTINUUM, 0.5),
    "continuum-remembering": (lambda r: 1 + min(metrics.backward_transfer(r), 0), CONTINUUM, 0.25),
    "continuum-transfer": (metrics.backward_transfer, CONTINUUM_TRANSFER, -0.5),
}


@pytest.mark.parametrize(("measure", "matrix", "expected"), GOLDEN.values(), ids=GOLDEN)
def test_published_vectors(measure: Callable[[Matrix], float], matrix: Matrix, expected: float) -> None:
    assert measure(matrix) == pytest.approx(expected)


def test_forgetting_by_class_as_i_blurry_counts_it() -> None:
    """Three task ends, five classes: one forgotten, one best at the end, one new, one never learned, one kept."""
    recall: Matrix = np.array([[80.0, 20, 0, 0, 50], [60.0, 30, 0, 0, 50], [10.0, 70, 90, 0, 50]])
    assert metrics.forgetting_before_end(recall) == pytest.approx((70 - 40 + 0) / 3)
    assert metrics.forgetting_before_end(np.array([[0.0, 0], [50, 50]])) == 0  # nothing was learned before the end


def test_signs() -> None:
    """Forgetting is bad if positive, transfer if negative; improvement is negative forgetting since learned."""
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


def test_formulas_for_reports() -> None:
    """The first line is a formula; below it is who uses it."""
    public = [
        each
        for name, each in inspect.getmembers(metrics, inspect.isfunction)
        if each.__module__ == metrics.__name__ and not name.startswith("_")
    ]
    assert metrics.forgetting in public
    for measure in public:
        formula, empty, *users = inspect.getdoc(measure).splitlines()  # type: ignore[union-attr]
        assert " = " in formula
        assert empty == ""
        assert users


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
    assert all(np.isfinite(measure(r)) for name, (measure, _) in BY_HAND.items() if name != "forward-transfer")

    lower = np.tril(r)  # nothing is known about a task before it arrives
    assert metrics.average_incremental_accuracy(r) == pytest.approx(metrics.average_incremental_accuracy(lower))
    ends = [metrics.average_accuracy(lower[: t + 1, : t + 1]) for t in range(tasks)]
    assert metrics.average_incremental_accuracy(r) == pytest.approx(sum(ends) / tasks)

    learned = np.tril(r + 1)  # every task is above 0 once it is learned, not before
    before = metrics.forgetting_before_end(learned)
    assert metrics.forgetting(learned) == pytest.approx(
        float(np.maximum(learned[:-1].max(axis=0) - learned[-1], 0)[:-1].mean()) if tasks > 1 else 0
    )
    assert before <= metrics.forgetting(learned) + 1e-9  # which clips at 0

    gone = (np.diagonal(r) - r[-1])[:-1]
    shorter = metrics.forgetting_since_learned(r) - (gone[-1] / (tasks - 1) if tasks > 1 else 0)
    assert metrics.forgetting_but_newest_two(r) == pytest.approx(shorter)


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


@given(
    st.lists(st.tuples(st.integers(0, 4), st.floats(0, 100, width=16)), max_size=40).map(
        lambda drawn: sorted(drawn, key=lambda point: point[0])
    )
)
def test_areas_by_task(drawn: list[tuple[int, float]]) -> None:
    tasks, points = [task for task, _ in drawn], [value for _, value in drawn]
    areas = metrics.areas_by_task(points, tasks)
    assert len(areas) == max(tasks, default=-1) + 1
    for task, area in enumerate(areas):
        own = [value for of, value in drawn if of == task]
        assert area == pytest.approx(sum(own) / len(own) if own else 0)
    whole = sum(area * tasks.count(task) for task, area in enumerate(areas))
    assert whole == pytest.approx(metrics.area_under_curve(points) * len(points))


# ---- the stability gap ----


def test_worst_case_accuracy_by_hand() -> None:
    """Both old tasks drop below all their values at task ends when a later one begins."""
    curve: list[list[float]] = [[40, 0, 0], [70, 0, 0], [15, 30, 0], [80, 60, 0], [30, 5, 80], [50, 45, 90]]
    tasks = [0, 0, 1, 1, 2, 2]
    # Task 0 is at 15 when task 1 begins, task 1 at 5 when task 2 begins; values before they were learned are no drop.
    assert metrics.worst_case_accuracy(curve, tasks, HAND) == pytest.approx((15 + 5 + 90) / 3)
    assert metrics.worst_case_accuracy(curve[:2], tasks[:2], HAND) == pytest.approx((50 + 45 + 90) / 3)
    assert metrics.worst_case_accuracy([[3.0], [9.0]], [0, 0], np.array([[70.0]])) == 70


@given(r=MATRICES, data=st.data())
def test_the_worst_case_is_no_better_than_the_end(r: Matrix, data: st.DataObject) -> None:
    points = data.draw(st.integers(0, 12))
    tasks = sorted(data.draw(st.lists(st.integers(0, len(r) - 1), min_size=points, max_size=points)))
    curve = data.draw(hnp.arrays(np.float64, (points, len(r)), elements=st.floats(0, 100, width=16)))
    worst = metrics.worst_case_accuracy(curve.tolist(), tasks, r)
    assert worst <= metrics.worst_case_accuracy([], [], r) + 1e-9 <= metrics.average_accuracy(r) + 2e-9
    assert worst >= 0
    by_formula = 0.0  # with k = T, t the end
    for i in range(len(r) - 1):
        seen = [row[i] for row, task in zip(curve, tasks, strict=True) if task > i] + [row[i] for row in r[i + 1 :]]
        by_formula += min(seen)
    k = len(r)
    by_formula = r[-1, -1] / k + (1 - 1 / k) * (by_formula / (k - 1) if k > 1 else 0)
    assert worst == pytest.approx(by_formula)


# ---- predictions ----


@pytest.mark.parametrize(
    ("true", "predicted", "tilt"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 0),
        ([1, 2, 3, 4], [2, 1, 4, 3], 0),  # mistakes in both directions
        ([1, 2, 3, 4], [4, 4, 4, 4], 100),
        ([1, 2, 3, 4], [1, 1, 1, 1], -100),
        ([1, 1, 1, 9], [1, 1, 9, 9], 100 * (1 / 2 - 1 / 4) / (3 / 4)),
        ([1, 9, 9, 9], [1, 1, 9, 9], 100 * (1 / 2 - 3 / 4) / (3 / 4)),
        (
            [0, 10, 1000],
            [10, 10, 1000],
            100 * (2 / 3 - 1 / 2) / (1 / 2),
        ),  # how long ago does not matter, the order does
        ([5, 5], [5, 5], 0),
        ([9, 9], [1, 9], -50),
        ([], [], 0),
    ],
)
def test_recency_tilt(true: list[int], predicted: list[int], tilt: float) -> None:
    assert metrics.recency_tilt(true, predicted) == pytest.approx(tilt)


def test_recency_bias() -> None:
    assert metrics.recency_bias([10, 10, 10, 10]) == 25  # fair: 100/T
    assert metrics.recency_bias([10, 30, 60]) == 60
    assert metrics.recency_bias([0.1, 0.1, 0.2]) == pytest.approx(50)  # shares work too
    assert metrics.recency_bias([7]) == 100
    assert metrics.recency_bias([5, 0]) == 0
    assert metrics.recency_bias([]) == metrics.recency_bias([0, 0]) == 0
    assert metrics.recency_bias(np.array([1, 3])) == 75  # type: ignore[arg-type]


def test_recall_by_class() -> None:
    confusion = [[8, 2, 0], [0, 0, 0], [1, 2, 1]]
    assert metrics.class_recall(confusion).tolist() == [80, 0, 25]
    assert metrics.class_recall(np.array(confusion) / 100).tolist() == pytest.approx([80, 0, 25])  # shares work too
    assert metrics.class_recall([[3]]).tolist() == [100]
    assert metrics.class_recall(np.zeros((0, 0))).tolist() == []


def test_what_was_known_of_a_task_before_it_was_learned_cannot_be_forgotten() -> None:
    """As in the released code, which does not test tasks before they are learned."""
    known = HAND + np.triu(np.full(HAND.shape, 40.0), 1)
    for measure in (metrics.forgetting, metrics.forgetting_over_all):
        assert measure(known) == measure(HAND)
