"""Streams: every sample exactly once, in the tasks the scenario promises."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evenkeel.data.scenarios import SCENARIOS, blurry, disjoint
from evenkeel.errors import SettingsError

FIVE_BY_TWO = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


def labels_of(*sizes: int, seed: int = 0) -> Tensor:
    """So many samples of each class, shuffled."""
    labels = torch.cat([torch.full((size,), label) for label, size in enumerate(sizes)])
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))]


def foreign(labels: Tensor, part: Tensor, classes: Sequence[int]) -> int:
    """Samples of the part that are of another task's classes."""
    return int((~torch.isin(labels[part], torch.tensor(classes))).sum())


def same(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(one, other) for one, other in zip(a, b, strict=True))


def test_disjoint_tasks_have_their_classes_and_no_other() -> None:
    labels = labels_of(*[30] * 10)
    parts = disjoint(labels, tasks=FIVE_BY_TWO)
    assert torch.cat(parts).sort().values.tolist() == list(range(300))
    for part, classes in zip(parts, FIVE_BY_TWO, strict=True):
        assert len(part) == 60
        assert foreign(labels, part, classes) == 0


def test_tasks_may_be_in_any_order_and_of_any_size() -> None:
    labels = labels_of(5, 6, 7, 8)
    parts = disjoint(labels, tasks=[[3], [0, 2, 1]])
    assert [sorted(set(labels[part].tolist())) for part in parts] == [[3], [0, 1, 2]]


def test_classes_that_no_task_names_are_left_out() -> None:
    labels = labels_of(5, 6, 7)
    for parts in (disjoint(labels, tasks=[[0], [2]]), blurry(labels, tasks=[[0], [2]], percent=20)):
        assert set(labels[torch.cat(parts)].tolist()) == {0, 2}


@pytest.mark.parametrize("percent", [0, 10, 30, 50, 80, 100])
def test_blurry_shares_of_cifar10(percent: int) -> None:
    """10,000 of each task; with 10 percent 9,000 stay and 250 come from each of the four others."""
    labels = labels_of(*[5000] * 10)
    parts = blurry(labels, tasks=FIVE_BY_TWO, percent=percent)
    assert torch.cat(parts).sort().values.tolist() == list(range(50_000))
    for home, part in enumerate(parts):
        assert len(part) == 10_000
        shares = [len(part) - foreign(labels, part, classes) for classes in FIVE_BY_TWO]
        assert shares == [10_000 - 100 * percent if task == home else 25 * percent for task in range(5)]


@given(
    size=st.integers(0, 40),
    tasks=st.integers(1, 6),
    percent=st.one_of(st.integers(0, 100), st.floats(0, 100)),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_blurry_for_tasks_of_one_size(size: int, tasks: int, percent: float, seed: int) -> None:
    labels = labels_of(*[size] * tasks, seed=seed)
    split = [[task] for task in range(tasks)]
    parts = blurry(labels, tasks=split, percent=percent, seed=seed)
    assert torch.cat(parts).sort().values.tolist() == list(range(len(labels)))
    for part, classes in zip(parts, split, strict=True):
        assert len(part) == size
        wanted = size * percent / 100 if tasks > 1 else 0
        assert wanted - (tasks - 1) < foreign(labels, part, classes) + 1e-9
        assert foreign(labels, part, classes) <= wanted + 1e-9


@given(sizes=st.lists(st.integers(0, 30), min_size=1, max_size=6), percent=st.floats(0, 100), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_blurry_for_tasks_of_any_size(sizes: list[int], percent: float, seed: int) -> None:
    """Every sample once; a task gives equal parts to all the others, less than one sample short of its share each."""
    labels = labels_of(*sizes, seed=seed)
    parts = blurry(labels, tasks=[[task] for task in range(len(sizes))], percent=percent, seed=seed)
    assert torch.cat(parts).sort().values.tolist() == list(range(len(labels)))
    for home, size in enumerate(sizes):
        given_away = [int((labels[part] == home).sum()) for task, part in enumerate(parts) if task != home]
        assert len(set(given_away)) <= 1
        if given_away:
            wanted = size * percent / 100 / len(given_away)
            assert wanted - 1 < given_away[0] + 1e-9
            assert given_away[0] <= wanted + 1e-9


@given(sizes=st.lists(st.integers(0, 30), min_size=2, max_size=6), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_no_blur_is_disjoint_to_the_bit(sizes: list[int], seed: int) -> None:
    labels = labels_of(*sizes)
    tasks = [[label] for label in range(len(sizes))]
    assert same(blurry(labels, tasks=tasks, percent=0, seed=seed), disjoint(labels, tasks=tasks, seed=seed))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_stream_comes_from_its_seed_alone(name: str) -> None:
    labels, settings_ = labels_of(*[30] * 10), {"percent": 20} if name == "blurry" else {}
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = SCENARIOS[name](labels, tasks=FIVE_BY_TWO, seed=3, **settings_)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    assert same(first, SCENARIOS[name](labels, tasks=FIVE_BY_TWO, seed=3, **settings_))
    assert not same(first, SCENARIOS[name](labels, tasks=FIVE_BY_TWO, seed=4, **settings_))


def test_a_stream_is_shuffled_within_a_task() -> None:
    labels = labels_of(200, 200)
    for part in disjoint(labels, tasks=[[0], [1]]) + blurry(labels, tasks=[[0], [1]], percent=30):
        assert part.tolist() != sorted(part.tolist())
        early, late = part[:100].double().mean(), part[100:].double().mean()
        assert abs(float(early - late)) < 60  # of 400: unsorted alone could still be nearly sorted


def test_what_a_task_gives_away_is_another_choice_with_another_seed() -> None:
    labels = labels_of(100, 100)
    gone = [set(blurry(labels, tasks=[[0], [1]], percent=20, seed=seed)[1].tolist()) for seed in (0, 1)]
    assert gone[0] != gone[1]


@pytest.mark.parametrize("percent", [-1, 100.5, float("nan"), float("inf")])
def test_a_share_must_be_a_percentage(percent: float) -> None:
    with pytest.raises(SettingsError, match=r"percent=.*: a share lies between 0 and 100"):
        blurry(labels_of(3, 3), tasks=[[0], [1]], percent=percent)


@pytest.mark.parametrize("tasks", [[[0, 1], [1]], [[0, 0], [1]]], ids=["two-tasks", "one-task"])
def test_a_class_belongs_to_one_task(tasks: list[list[int]]) -> None:
    with pytest.raises(SettingsError, match="names a class twice; each class belongs to one task"):
        disjoint(labels_of(3, 3), tasks=tasks)
    with pytest.raises(SettingsError, match="names a class twice"):
        blurry(labels_of(3, 3), tasks=tasks, percent=10)
