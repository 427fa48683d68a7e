"""Scenarios: every sample exactly once, in the tasks that the scenario promises."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evenkeel.data.scenarios import (
    SCENARIOS,
    Plan,
    blurry,
    disjoint,
    gradual,
    i_blurry,
    offline,
    permuted,
    rotated,
)
from evenkeel.data.tasks import task_classes
from evenkeel.errors import InputError, SettingsError

FIVE_BY_TWO = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
SETTINGS: dict[str, dict[str, Any]] = {
    "disjoint": {"tasks": FIVE_BY_TWO},
    "blurry": {"tasks": FIVE_BY_TWO, "percent": 20},
    "i-blurry": {"tasks": FIVE_BY_TWO, "disjoint": 50, "blur": 20},
    "gradual": {"tasks": FIVE_BY_TWO},
    "offline": {"tasks": FIVE_BY_TWO, "epochs": 3},
    "rotated": {},
    "permuted": {"repeat": False},
}
CLASS_BASED = [name for name, chosen in SETTINGS.items() if "tasks" in chosen]
SIZES = st.lists(st.integers(1, 30), min_size=2, max_size=6)


def labels_of(*sizes: int, seed: int = 0) -> Tensor:
    """Return labels with these numbers of samples per class, shuffled."""
    labels = torch.cat([torch.full((size,), label) for label, size in enumerate(sizes)])
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))]


def parts_of(plan: Plan) -> list[Tensor]:
    """Return the first pass of each task."""
    return [task.passes[0] for task in plan.tasks]


def line_of(plan: Plan) -> Tensor:
    return torch.cat(parts_of(plan))


def foreign(labels: Tensor, part: Tensor, classes: Sequence[int]) -> int:
    """Count the samples of the part that belong to other classes."""
    return int((~torch.isin(labels[part], torch.tensor(classes))).sum())


def same(a: Plan, b: Plan) -> bool:
    """Check whether two plans agree bit for bit in every pass, and in names and classes."""
    return len(a.tasks) == len(b.tasks) and all(
        (one.name, one.classes, len(one.passes)) == (other.name, other.classes, len(other.passes))
        and all(torch.equal(*pair) for pair in zip(one.passes, other.passes, strict=True))
        for one, other in zip(a.tasks, b.tasks, strict=True)
    )


def one_by_one(count: int) -> list[list[int]]:
    return [[label] for label in range(count)]


# ---- all scenarios ----


def test_every_scenario_is_tested() -> None:
    assert SETTINGS.keys() == SCENARIOS.keys(), "Add settings of a new scenario to SETTINGS."


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_stream_depends_on_its_seed_alone(name: str) -> None:
    labels, scenario, chosen = labels_of(*[30] * 10), SCENARIOS[name], SETTINGS[name]
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = scenario(labels, seed=3, **chosen)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    assert same(first, scenario(labels, seed=3, **chosen))
    other = scenario(labels, seed=4, **chosen)
    assert not any(torch.equal(*pair) for pair in zip(parts_of(first), parts_of(other), strict=True))


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_labels_may_be_arrays(name: str, dtype: type[np.generic]) -> None:
    labels = labels_of(*[9] * 10)
    array = labels.numpy().astype(dtype)
    array.flags.writeable = False  # like those from a parquet file
    plan = SCENARIOS[name](array, **SETTINGS[name])
    assert same(plan, SCENARIOS[name](labels, **SETTINGS[name]))
    assert all(arrivals.dtype == torch.int64 for task in plan.tasks for arrivals in task.passes)


@pytest.mark.parametrize("name", SCENARIOS)
def test_boundaries_are_reported_as_set(name: str) -> None:
    labels, scenario, chosen = labels_of(*[9] * 10), SCENARIOS[name], SETTINGS[name]
    assert scenario(labels, **chosen).boundaries is (name not in ("i-blurry", "gradual"))
    if name != "gradual":
        reported, hidden = (scenario(labels, boundaries=boundaries, **chosen) for boundaries in (True, False))
        assert (reported.boundaries, hidden.boundaries) == (True, False)
        assert same(reported, hidden)


@pytest.mark.parametrize("name", CLASS_BASED)
def test_tasks_are_named_and_know_their_classes(name: str) -> None:
    plan = SCENARIOS[name](labels_of(*[9] * 10), **SETTINGS[name])
    assert [task.name for task in plan.tasks] == [f"task {number}" for number in range(1, 6)]
    assert [task.classes for task in plan.tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert all(task.domain is None for task in plan.tasks)


@pytest.mark.parametrize("name", CLASS_BASED)
def test_classes_that_no_task_names_are_left_out(name: str) -> None:
    labels = labels_of(5, 6, 7)
    plan = SCENARIOS[name](labels, **SETTINGS[name] | {"tasks": [[0], [2]]})
    assert line_of(plan).sort().values.tolist() == torch.isin(labels, torch.tensor([0, 2])).nonzero().flatten().tolist()


@pytest.mark.parametrize("name", CLASS_BASED)
@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([[0, 1], [1]], "tasks names a class twice; each class belongs to one task"),
        ([[0, 0], [1]], "tasks names a class twice"),
        ([], "tasks is empty"),
        ([[0], []], "a task without classes"),
        ([[0], [1, 2]], "tasks names the class 2, which has no training sample"),
    ],
    ids=["twice-in-two", "twice-in-one", "no-task", "no-class", "no-sample"],
)
def test_impossible_tasks_are_rejected(name: str, tasks: list[list[int]], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        SCENARIOS[name](labels_of(3, 3), **SETTINGS[name] | {"tasks": tasks})


@pytest.mark.parametrize("labels", [torch.zeros(3, 1, dtype=torch.int64), torch.zeros(3), np.array(["a", "b"])])
def test_invalid_labels_are_rejected(labels: Any) -> None:
    with pytest.raises(InputError, match="labels must be one whole number for each sample"):
        disjoint(labels, tasks=[[0]])


# ---- disjoint and offline ----


def test_disjoint_tasks_have_their_own_classes_only() -> None:
    labels = labels_of(*[30] * 10)
    plan = disjoint(labels, tasks=FIVE_BY_TWO)
    assert line_of(plan).sort().values.tolist() == list(range(300))
    for part, classes in zip(parts_of(plan), FIVE_BY_TWO, strict=True):
        assert len(part) == 60
        assert foreign(labels, part, classes) == 0


def test_tasks_may_be_in_any_order_and_of_any_size() -> None:
    labels = labels_of(5, 6, 7, 8)
    parts = parts_of(disjoint(labels, tasks=[[3], [0, 2, 1]]))
    assert [sorted(set(labels[part].tolist())) for part in parts] == [[3], [0, 1, 2]]


def test_streams_are_those_of_earlier_versions() -> None:
    """The results of a seed can be repeated only if its stream stays the same."""
    labels = torch.arange(24) % 4
    clear = [[21, 16, 9, 8, 13, 17, 20, 12, 1, 4, 0, 5], [22, 3, 6, 18, 10, 11, 15, 23, 2, 7, 19, 14]]
    blurred = [[21, 17, 13, 8, 16, 18, 20, 14, 1, 3, 0, 4], [22, 5, 6, 15, 9, 10, 12, 23, 2, 7, 19, 11]]
    tasks = [[0, 1], [2, 3]]
    assert [part.tolist() for part in parts_of(disjoint(labels, tasks=tasks, seed=7))] == clear
    assert [part.tolist() for part in parts_of(blurry(labels, tasks=tasks, percent=25, seed=7))] == blurred


def test_a_stream_is_shuffled_within_a_task() -> None:
    labels, tasks = labels_of(200, 200), one_by_one(2)
    for plan in (disjoint(labels, tasks=tasks), blurry(labels, tasks=tasks, percent=30), permuted(labels, tasks=2)):
        for part in parts_of(plan):
            assert part.tolist() != sorted(part.tolist())
            early, late = part[: len(part) // 2].double().mean(), part[len(part) // 2 :].double().mean()
            assert abs(float(early - late)) < 60  # of 400: an unsorted order could still be nearly sorted


@given(sizes=SIZES, epochs=st.integers(1, 4), seed=st.integers(0, 99))
@settings(max_examples=30)
def test_every_pass_has_every_sample_once(sizes: list[int], epochs: int, seed: int) -> None:
    labels, tasks = labels_of(*sizes), one_by_one(len(sizes))
    plan = offline(labels, tasks=tasks, epochs=epochs, seed=seed)
    for label, task in enumerate(plan.tasks):
        assert len(task.passes) == epochs
        for arrivals in task.passes:
            assert arrivals.sort().values.tolist() == (labels == label).nonzero().flatten().tolist()
    firsts = [task.passes[0] for task in disjoint(labels, tasks=tasks, seed=seed).tasks]
    assert all(torch.equal(*pair) for pair in zip(parts_of(plan), firsts, strict=True))


def test_every_pass_is_shuffled_again() -> None:
    for task in offline(labels_of(*[20] * 10), tasks=FIVE_BY_TWO, epochs=5).tasks:
        assert len({tuple(arrivals.tolist()) for arrivals in task.passes}) == 5


@pytest.mark.parametrize("epochs", [0, -1, 1.5, True])
def test_epochs_must_be_a_whole_number(epochs: Any) -> None:
    with pytest.raises(SettingsError, match=r"epochs=.* must be a whole number of at least 1"):
        offline(labels_of(3, 3), tasks=[[0], [1]], epochs=epochs)


# ---- blurry and i-blurry ----


@pytest.mark.parametrize("percent", [0, 10, 30, 50, 80, 100])
def test_blurry_shares_of_cifar10(percent: int) -> None:
    """Each task has 10,000; with 10 percent 9,000 stay and 250 come from each of the four others."""
    labels = labels_of(*[5000] * 10)
    parts = parts_of(blurry(labels, tasks=FIVE_BY_TWO, percent=percent))
    assert torch.cat(parts).sort().values.tolist() == list(range(50_000))
    for home, part in enumerate(parts):
        assert len(part) == 10_000
        shares = [len(part) - foreign(labels, part, classes) for classes in FIVE_BY_TWO]
        assert shares == [10_000 - 100 * percent if task == home else 25 * percent for task in range(5)]


@given(
    size=st.integers(1, 40),
    tasks=st.integers(1, 6),
    percent=st.one_of(st.integers(0, 100), st.floats(0, 100)),
    seed=st.integers(0, 99),
)
@settings(max_examples=60)
def test_blurry_for_tasks_of_equal_size(size: int, tasks: int, percent: float, seed: int) -> None:
    labels = labels_of(*[size] * tasks, seed=seed)
    split = one_by_one(tasks)
    parts = parts_of(blurry(labels, tasks=split, percent=percent, seed=seed))
    assert torch.cat(parts).sort().values.tolist() == list(range(len(labels)))
    for part, classes in zip(parts, split, strict=True):
        assert len(part) == size
        wanted = size * percent / 100 if tasks > 1 else 0
        assert wanted - (tasks - 1) < foreign(labels, part, classes) + 1e-9
        assert foreign(labels, part, classes) <= wanted + 1e-9


@given(sizes=SIZES, percent=st.floats(0, 100), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_blurry_for_tasks_of_any_size(sizes: list[int], percent: float, seed: int) -> None:
    """Every sample comes once; a task gives equal parts to all others, each less than one sample short of its share."""
    labels = labels_of(*sizes, seed=seed)
    parts = parts_of(blurry(labels, tasks=one_by_one(len(sizes)), percent=percent, seed=seed))
    assert torch.cat(parts).sort().values.tolist() == list(range(len(labels)))
    for home, size in enumerate(sizes):
        given_away = [int((labels[part] == home).sum()) for task, part in enumerate(parts) if task != home]
        wanted = size * percent / 100 / len(given_away)
        assert len(set(given_away)) == 1
        assert wanted - 1 < given_away[0] + 1e-9
        assert given_away[0] <= wanted + 1e-9


def test_another_seed_gives_other_samples_away() -> None:
    labels = labels_of(100, 100)
    gone = [set(parts_of(blurry(labels, tasks=[[0], [1]], percent=20, seed=seed))[1].tolist()) for seed in (0, 1)]
    assert gone[0] != gone[1]


@given(sizes=SIZES, percent=st.floats(0, 100), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_blur_at_its_limits_equals_disjoint_and_blurry_bit_for_bit(sizes: list[int], percent: float, seed: int) -> None:
    labels, tasks = labels_of(*sizes), one_by_one(len(sizes))
    clear = disjoint(labels, tasks=tasks, seed=seed)
    assert same(clear, blurry(labels, tasks=tasks, percent=0, seed=seed))
    assert same(clear, i_blurry(labels, tasks=tasks, disjoint=100, blur=percent, seed=seed))
    assert same(clear, i_blurry(labels, tasks=tasks, disjoint=percent, blur=0, seed=seed))
    blurred = blurry(labels, tasks=tasks, percent=percent, seed=seed)
    assert same(blurred, i_blurry(labels, tasks=tasks, disjoint=0, blur=percent, seed=seed))


@given(n=st.sampled_from([0, 20, 50, 80, 100]), m=st.sampled_from([10, 30, 50]), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_i_blurry_shares(n: int, m: int, seed: int) -> None:
    """N percent of the classes are in their own task only; M percent of the others' samples are spread evenly."""
    labels = labels_of(*[40] * 10, seed=seed)
    parts = parts_of(i_blurry(labels, tasks=FIVE_BY_TWO, disjoint=n, blur=m, seed=seed))
    assert torch.cat(parts).sort().values.tolist() == list(range(400))
    counts = torch.stack([labels[part].bincount(minlength=10) for part in parts])  # (tasks, classes)
    home = torch.arange(10) // 2
    away = 40 - counts[home, torch.arange(10)]
    by_task = away.view(5, 2)
    for task in range(5):
        # The blurry classes of a task share what it gives away; which class a sample is from is random.
        received = [int(counts[other, 2 * task : 2 * task + 2].sum()) for other in range(5) if other != task]
        assert len(set(received)) == 1
        assert int(by_task[task].sum()) in {blurred * 40 * m // 100 // 4 * 4 for blurred in (0, 1, 2)}
    alone = int((away == 0).sum())
    assert alone == n // 10
    total = sum(int((by_task[task] > 0).sum()) * 40 * m // 100 // 4 * 4 for task in range(5))
    assert int(away.sum()) == total


def test_the_disjoint_classes_are_drawn() -> None:
    labels = labels_of(*[100] * 10)
    chosen = set()
    for seed in range(20):
        parts = parts_of(i_blurry(labels, tasks=FIVE_BY_TWO, disjoint=50, blur=50, seed=seed))
        counts = torch.stack([labels[part].bincount(minlength=10) for part in parts])
        chosen.add(tuple((counts.amax(0) == 100).nonzero().flatten().tolist()))
    assert all(len(classes) == 5 for classes in chosen)
    assert len(chosen) > 10
    assert set().union(*chosen) == set(range(10))


@pytest.mark.parametrize("share", [-1, 100.5, float("nan"), float("inf")])
def test_a_share_must_be_a_percentage(share: float) -> None:
    labels, tasks = labels_of(3, 3), [[0], [1]]
    with pytest.raises(SettingsError, match=r"percent=.* must be a percentage from 0 to 100"):
        blurry(labels, tasks=tasks, percent=share)
    with pytest.raises(SettingsError, match=r"disjoint=.* must be a percentage"):
        i_blurry(labels, tasks=tasks, disjoint=share, blur=10)
    with pytest.raises(SettingsError, match=r"blur=.* must be a percentage"):
        i_blurry(labels, tasks=tasks, disjoint=50, blur=share)


# ---- gradual ----


def home_in_line(labels: Tensor, plan: Plan) -> Tensor:
    """Return the task that each sample belongs to, in order of arrival."""
    task_of = {label: number for number, task in enumerate(plan.tasks) for label in task.classes}
    return torch.tensor([task_of[label] for label in labels[line_of(plan)].tolist()])


@given(sizes=SIZES, width=st.floats(0, 3), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_gradual_drift_has_every_sample_once_in_parts_of_equal_size(sizes: list[int], width: float, seed: int) -> None:
    plan = gradual(labels_of(*sizes), tasks=one_by_one(len(sizes)), width=width, seed=seed)
    assert line_of(plan).sort().values.tolist() == list(range(sum(sizes)))
    lengths = [len(part) for part in parts_of(plan)]
    assert max(lengths) - min(lengths) <= 1


@given(sizes=SIZES, seed=st.integers(0, 99))
@settings(max_examples=30)
def test_without_width_tasks_come_one_after_the_other(sizes: list[int], seed: int) -> None:
    labels = labels_of(*sizes)
    line = line_of(gradual(labels, tasks=one_by_one(len(sizes)), width=0, seed=seed))
    assert labels[line].tolist() == sorted(labels.tolist())


def test_the_wider_the_drift_the_more_tasks_overlap() -> None:
    labels = labels_of(*[100] * 10)
    inversions = []
    for width in (0, 0.1, 0.3, 1, 3):
        home = home_in_line(labels, gradual(labels, tasks=FIVE_BY_TWO, width=width))
        place = torch.arange(len(home), dtype=torch.float64)
        means = [float(place[home == task].mean()) for task in range(5)]
        assert means == sorted(means)  # on average later tasks come later
        inversions.append(int((home[:, None] > home[None, :]).triu().sum()))
    assert inversions[0] == 0
    assert inversions == sorted(set(inversions))


def test_gradual_drift_has_the_arrival_times_of_its_formula() -> None:
    """Of two tasks, the share of samples that arrive before the middle of time is known: P(U + width * N < 1)."""
    labels, width = labels_of(20_000, 20_000), 0.5
    home = home_in_line(labels, gradual(labels, tasks=one_by_one(2), width=width))
    u = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000
    expected = float(torch.special.ndtr((1 - u) / width).mean())
    # By symmetry the middle of the stream is the middle of time.
    assert float((home[:20_000] == 0).double().mean()) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("width", [-0.1, float("nan"), float("inf")])
def test_a_width_must_not_be_negative(width: float) -> None:
    with pytest.raises(SettingsError, match=r"width=.* must be a number of at least 0"):
        gradual(labels_of(3, 3), tasks=[[0], [1]], width=width)


# ---- domains ----


@pytest.mark.parametrize("scenario", [rotated, permuted])
@given(sizes=SIZES, tasks=st.integers(1, 5), seed=st.integers(0, 99))
@settings(max_examples=30)
def test_domains_have_every_sample_each_or_once_in_all(scenario: Any, sizes: list[int], tasks: int, seed: int) -> None:
    labels = labels_of(*[size + 3 for size in sizes])  # enough for five tasks
    everything = list(range(len(labels)))
    repeated = scenario(labels, tasks=tasks, seed=seed)
    assert all(part.sort().values.tolist() == everything for part in parts_of(repeated))
    assert all(task.classes == tuple(range(len(sizes))) for task in repeated.tasks)

    split = scenario(labels, tasks=tasks, repeat=False, seed=seed)
    assert line_of(split).sort().values.tolist() == everything
    counts = torch.stack([labels[part].bincount(minlength=len(sizes)) for part in parts_of(split)])
    assert int((counts.amax(0) - counts.amin(0)).max()) <= 1  # stratified: each class as even as whole numbers allow
    assert int(counts.sum(1).max() - counts.sum(1).min()) <= 1
    assert all(task.classes == tuple(range(len(sizes))) for task in split.tasks)


@pytest.mark.parametrize("scenario", [rotated, permuted])
def test_each_domain_has_an_order_of_its_own(scenario: Any) -> None:
    parts = parts_of(scenario(labels_of(50, 50), tasks=4))
    assert len({tuple(part.tolist()) for part in parts}) == 4


def test_the_domain_of_a_sample_is_drawn() -> None:
    """Over many seeds a sample is in each of four parts equally often (chi-square, three degrees of freedom)."""
    labels = labels_of(6, 6)
    counts, together = torch.zeros(12, 4), torch.zeros(12, 12)
    for seed in range(400):
        for place, part in enumerate(parts_of(permuted(labels, tasks=4, repeat=False, seed=seed))):
            counts[part, place] += 1
            together[part[:, None], part] += 1
    chi = ((counts - 100) ** 2 / 100).sum(1)
    assert float(chi.max()) < 20  # exceeded by one sample in 6000
    # Six of a class are dealt as 2, 2, 1, 1: of their 15 pairs 2 are together, so a pair is 53 times in 400.
    pairs = together[(labels[:, None] == labels).triu(diagonal=1)]
    assert 25 < float(pairs.min()) <= float(pairs.max()) < 85


def test_rotations_are_multiples_or_as_listed() -> None:
    labels = labels_of(5, 5)
    plan = rotated(labels, tasks=3, degrees=15)
    assert [task.name for task in plan.tasks] == ["rotation 0°", "rotation 15°", "rotation 30°"]
    plan = rotated(labels, tasks=3, degrees=[0, 90, -22.5])
    assert [task.name for task in plan.tasks] == ["rotation 0°", "rotation 90°", "rotation -22.5°"]
    x = torch.randint(256, (2, 3, 6, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    for task, expected in zip(plan.tasks[:2], [x, x.rot90(1, (2, 3))], strict=True):
        assert task.domain is not None
        assert torch.equal(task.domain(x), expected)
    with pytest.raises(SettingsError, match="degrees lists 2 angles, but tasks=3"):
        rotated(labels, tasks=3, degrees=[0, 90])


def test_permutations_differ_by_task_and_seed() -> None:
    x = torch.arange(200).view(2, 100)
    plans = [permuted(labels_of(5, 5), tasks=4, seed=seed) for seed in (0, 1)]
    assert [task.name for task in plans[0].tasks] == ["task 1", "permutation 2", "permutation 3", "permutation 4"]
    assert plans[0].tasks[0].domain is None
    domains = [task.domain for plan in plans for task in plan.tasks[1:]]
    views = {tuple(domain(x).flatten().tolist()) for domain in domains if domain}
    assert len(views) == 6  # another for each task and each seed


@pytest.mark.parametrize("scenario", [rotated, permuted])
def test_domains_need_a_number_and_samples(scenario: Any) -> None:
    with pytest.raises(SettingsError, match="tasks=0 must be a whole number of at least 1"):
        scenario(labels_of(5, 5), tasks=0)
    with pytest.raises(SettingsError, match="3 samples are too few for 4 tasks"):
        scenario(labels_of(2, 1), tasks=4, repeat=False)
    with pytest.raises(SettingsError, match="0 samples are too few"):
        scenario(torch.zeros(0, dtype=torch.int64), tasks=2)


# ---- classes of the tasks ----


def test_a_number_of_tasks_divides_the_classes_in_order() -> None:
    assert task_classes(NAMES, tasks=5) == FIVE_BY_TWO
    assert task_classes(NAMES, tasks=1) == [list(range(10))]
    assert task_classes(NAMES, tasks=10) == one_by_one(10)


@given(tasks=st.sampled_from([1, 2, 5, 10]), seed=st.integers(0, 999))
@settings(max_examples=30)
def test_a_drawn_order_is_a_permutation_that_depends_on_the_seed(tasks: int, seed: int) -> None:
    torch.manual_seed(seed + 1)
    drawn = task_classes(NAMES, tasks=tasks, order="drawn", seed=seed)
    assert sorted(label for task in drawn for label in task) == list(range(10))
    assert {len(task) for task in drawn} == {10 // tasks}
    torch.manual_seed(seed + 2)
    assert drawn == task_classes(NAMES, tasks=tasks, order="drawn", seed=seed)
    whole, other = (task_classes(NAMES, tasks=1, order="drawn", seed=each) for each in (seed, seed + 1))
    assert whole != other
    assert [label for task in drawn for label in task] == whole[0]  # the number of tasks only decides where it is cut


def test_order_and_tasks_may_be_listed_by_name_and_by_index() -> None:
    assert task_classes(NAMES, tasks=2, order=["ship", 0, "cat", 9]) == [[8, 0], [3, 9]]
    assert task_classes(NAMES, tasks=[["cat", "dog"], [0], ("ship", 1, "bird")]) == [[3, 5], [0], [8, 1, 2]]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            {"tasks": 3},
            r"tasks=3: 10 classes do not divide evenly .* but into 1, 2, 5, 10\. For tasks of different sizes",
        ),
        ({"tasks": 20}, "into 1, 2, 5, 10"),
        ({"tasks": 2, "order": ["cat", "dog", "ship"]}, "3 classes do not divide evenly .* into 1, 3"),
        ({"tasks": 2, "order": []}, "0 classes do not divide"),
        ({"tasks": 0}, "tasks=0 must be a whole number of at least 1"),
        ({"tasks": True}, "tasks=True must be a whole number"),
        ({"tasks": 2.0}, r"tasks=2\.0 must be a whole number"),
        ({"tasks": "5"}, "tasks='5' must be a number, or a list with a list of classes"),
        ({"tasks": ["cat", "dog"]}, "must be a number, or a list with a list of classes for each task"),
        ({"tasks": [0, 1]}, "must be a number, or a list with a list of classes for each task"),
        ({"tasks": [["cat"], ["dgo"]]}, "'dgo' is not one of the 10 classes. Did you mean 'dog'?"),
        ({"tasks": 1, "order": ["shipp"]}, "Did you mean 'ship'?"),
        ({"tasks": [[0], [10]]}, "There is no class 10; the 10 classes are counted from 0"),
        ({"tasks": [[0], [-1]]}, "class=-1 must be a whole number of at least 0"),
        ({"tasks": [["cat"], [3]]}, "tasks names a class twice"),
        ({"tasks": 1, "order": ["cat", 3]}, "order names a class twice"),
        ({"tasks": [["cat"], []]}, "a task without classes"),
        ({"tasks": []}, "tasks is empty"),
        ({"tasks": 5, "order": "drwan"}, "order='drwan' is not one of 'given', 'drawn'. Did you mean 'drawn'?"),
        ({"tasks": [["cat"]], "order": "drawn"}, "order='drawn': tasks already lists the classes in order"),
        ({"tasks": [["cat"]], "order": ["cat"]}, "tasks already lists the classes in order"),
    ],
)
def test_impossible_classes_are_rejected(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message.replace("?", r"\?")):
        task_classes(NAMES, **chosen)
