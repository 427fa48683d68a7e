"""Runs for tuning: the first tasks of a stream equal those of the whole, and test data has no influence."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import evenkeel as ek
from evenkeel.errors import DataError, SettingsError
from evenkeel.experiment.setup import Setup, new_learner, planned
from evenkeel.results.groups import groups
from evenkeel.results.records import to_line
from tests.helpers.experiments import config
from tests.helpers.streams import images

SIZES = (12, 15, 13, 20, 12, 18)  # training samples per class
SCENARIOS: dict[str, dict[str, Any]] = {
    "disjoint": {"tasks": 3, "order": "drawn"},
    "blurry": {"tasks": 3, "percent": 30},
    "i-blurry": {"tasks": 3, "disjoint": 50, "blur": 30},
    "gradual": {"tasks": 3},
    "offline": {"tasks": 3, "epochs": 2},
    "rotated": {"tasks": 3},
    "permuted": {"tasks": 3},
}
DOMAINS = ("rotated", "permuted")  # each task has all classes, and is tested on them


def noise(labels: list[int], seed: int) -> Tensor:
    """Return an image for each label, no two alike: the pattern of its class, and noise."""
    pattern = torch.randint(200, (6, 1, 8, 8), generator=torch.Generator().manual_seed(0))
    chance = torch.randint(56, (len(labels), 1, 8, 8), generator=torch.Generator().manual_seed(seed))
    return (pattern[labels] + chance).to(torch.uint8)


def make_data(test: int = 4, seed: int = 2) -> ek.DataSet:
    """Return six classes of uneven sizes, mixed."""
    y = [label for label, size in enumerate(SIZES) for _ in range(size)]
    y = [y[place] for place in torch.randperm(len(y), generator=torch.Generator().manual_seed(1)).tolist()]
    y_test = list(range(6)) * test
    return ek.DataSet.of(noise(y, 1), y, noise(y_test, seed), y_test, classes=list("abcdef"), name="six")


DATA = make_data()


def config_for(scenario: str, *overrides: str, **parts: Any) -> ek.Config:
    return config(*overrides, scenario={"name": scenario, **SCENARIOS[scenario]}, **parts)


def setup_of(one: ek.Config) -> Setup:
    return planned(one, DATA, None, lambda *_: None)


def rows(x: Iterable[Tensor]) -> Counter[bytes]:
    """Count how often each sample occurs, by content."""
    return Counter(row.numpy().tobytes() for part in x for row in part)


def learned(setup: Setup) -> Counter[bytes]:
    return rows(batch.x for batch in setup.stream.batches())


def samples_to_test(setup: Setup) -> Counter[bytes]:
    assert setup.test_set is not None
    return rows([setup.test_set.x])


# ---- the first tasks ----


@given(
    scenario=st.sampled_from(list(SCENARIOS)),
    tasks=st.integers(1, 3),
    seed=st.integers(0, 99),
    size=st.integers(1, 12),
    drop_last=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_first_tasks_are_those_of_the_whole_stream(
    scenario: str, tasks: int, seed: int, size: int, drop_last: bool
) -> None:
    how = (f"seed={seed}", f"batches.size={size}", f"batches.drop_last={str(drop_last).lower()}")
    whole, first = setup_of(config_for(scenario, *how)), setup_of(config_for(scenario, *how, f"limits.tasks={tasks}"))
    expected = [batch for batch in whole.stream.batches() if batch.task < tasks]
    batches = list(first.stream.batches())
    assert len(batches) == len(expected) == first.stream.steps
    for one, other in zip(batches, expected, strict=True):
        assert torch.equal(one.x, other.x)
        assert replace(one, x=None) == replace(other, x=None)
    assert first.tasks == whole.tasks[:tasks]
    assert first.boundaries == whole.boundaries
    assert (first.digest == whole.digest) == (tasks == 3)
    assert first.data == whole.data
    assert first.test_set is not None
    assert whole.test_set is not None
    part = whole.test_set.until(tasks - 1)  # all test data of the tasks learned, and none of the others
    assert torch.equal(first.test_set.x, part.x)
    assert torch.equal(first.test_set.y, part.y)
    assert first.test_set.tasks == whole.test_set.tasks[:tasks]


@cache
def results(scenario: str, tasks: int | None = None) -> ek.Results:
    """Return the results of the first tasks, or of all."""
    how = ("evaluation.sample=none", "adaptor.name=cba", "adaptor.every=2", f"limits.tasks={tasks or 'none'}")
    return ek.Results.of(ek.run(config_for(scenario, *how), data=DATA))


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_run_of_the_first_tasks_is_the_beginning_of_the_whole_run(scenario: str, tasks: int) -> None:
    first, whole = results(scenario, tasks), results(scenario)
    end = sum(task["steps"] for task in whole.started.tasks[:tasks])
    assert 0 < end < len(whole.steps)
    assert first.steps == whole.steps[:end]
    assert first.aligned == [each for each in whole.aligned if each.step <= end]
    beginning = [point for point in whole.anytime if point.step <= end]
    assert [point.step for point in first.anytime] == [point.step for point in beginning]
    assert [point.accuracy for point in first.anytime] == [point.accuracy for point in beginning]
    if scenario not in DOMAINS:
        assert [point.predicted for point in first.anytime] == [point.predicted[:tasks] for point in beginning]
    assert len(first.tested) == tasks + 1
    tested = sorted({label for task in first.started.tasks for label in task["classes"]})
    for one, other in zip(first.tested, whole.tested[: tasks + 1], strict=True):
        for scores in ("accuracy", "seen", "masked"):
            assert getattr(one, scores) == getattr(other, scores)[:tasks]
        assert one.memory == other.memory
        if scenario not in DOMAINS:
            assert one.predicted == other.predicted[:tasks]
            assert [one.confusion[label] for label in tested] == [other.confusion[label] for label in tested]
            assert sum(map(sum, one.confusion)) == 4 * len(tested)
    assert first.ended is not None
    assert first.ended.step == end
    assert first.ended.metrics["acc"] == pytest.approx(np.mean(whole.tested[tasks].accuracy[:tasks]))


def test_all_outputs_are_kept() -> None:
    """Settings tuned on the first tasks are for a head of the same size."""
    whole, first = (new_learner(setup_of(config_for("disjoint", *how))) for how in ((), ("limits.tasks=1",)))
    assert first.classes == whole.classes == list("abcdef")
    x = torch.tensor(DATA.test.x)
    assert torch.equal(first.logits(x), whole.logits(x))


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_joint_mixes_the_first_tasks_only(scenario: str, tasks: int) -> None:
    joint = {"name": "joint", "epochs": SCENARIOS[scenario].get("epochs", 1)}
    limit = f"limits.tasks={tasks}"
    mixed = setup_of(config_for(scenario, limit, method=joint))
    plain = setup_of(config_for(scenario, limit))
    assert learned(mixed) == learned(plain)
    assert learned(mixed) != learned(setup_of(config_for(scenario, method=joint)))
    assert len(mixed.tasks) == tasks
    assert samples_to_test(mixed) == samples_to_test(plain)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_more_tasks_than_there_are_is_reported(scenario: str) -> None:
    with pytest.raises(SettingsError, match=rf"limits.tasks=4: the scenario '{scenario}' has only 3 tasks\."):
        ek.run(config_for(scenario, "limits.tasks=4"), data=DATA)


# ---- held out ----


def numbered(sizes: list[int], seed: int = 0) -> ek.DataSet:
    """Return a set in which each training sample is its own index."""
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = np.arange(len(y), dtype=np.float32)[:, None]
    names = [f"class {label}" for label in range(len(sizes))]
    return ek.DataSet.of(x, y, -1 - np.arange(len(sizes))[:, None].astype(float), np.arange(len(sizes)), classes=names)


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=6), part=st.floats(0.01, 0.99), seed=st.integers(0, 9))
@settings(deadline=None)
def test_a_share_of_each_class_is_held_out(sizes: list[int], part: float, seed: int) -> None:
    data = numbered(sizes, seed)
    lacking = [label for label, size in enumerate(sizes) if not 1 <= round(part * size) < size]
    if lacking:
        with pytest.raises(DataError, match=rf"'class {lacking[0]}' of arrays is \d+ of its {sizes[lacking[0]]} train"):
            data.limited(held_out=part)
        return
    limited = data.limited(held_out=part)
    left, held = (split.x[:, 0].astype(int) for split in (limited.train, limited.test))
    assert sorted([*left, *held]) == list(range(sum(sizes)))
    assert (left.tolist(), held.tolist()) == (sorted(left), sorted(held))  # in their original order
    for split, places in ((limited.train, left), (limited.test, held)):
        assert (split.y == data.train.y[places]).all()
    for label, size in enumerate(sizes):
        assert abs((limited.test.y == label).sum() - part * size) <= 0.5 + 1e-9
    again = ek.DataSet.of(limited.train.x, limited.train.y, limited.test.x, limited.test.y, classes=list(data.classes))
    assert (limited.name, limited.classes, limited.digest) == (data.name, data.classes, again.digest)
    assert limited.digest != data.digest


def test_held_out_samples_are_drawn_and_a_larger_share_includes_a_smaller() -> None:
    data = numbered([1000, 1000])
    tenth, fifth = (data.limited(held_out=part).test.x[:, 0] for part in (0.1, 0.2))
    assert set(tenth) < set(fifth)
    quarters = np.histogram(fifth, bins=4, range=(0, 2000))[0]
    assert (abs(quarters - 100) < 40).all()  # not only the first or the last
    for wrong in (1.0, -0.1, float("nan"), "half"):
        with pytest.raises(SettingsError, match="held_out="):
            data.limited(held_out=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["er", "joint"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_held_out_samples_never_arrive(scenario: str, method: str) -> None:
    """Training and test samples together are the original ones, as each task transforms them; none is in both."""
    how = ("batches.size=5", f"method.name={method}")
    everything = learned(setup_of(config_for(scenario, *how)))
    test_sets = []
    for seed in range(3):
        setup = setup_of(config_for(scenario, *how, "limits.held_out=0.25", f"seed={seed}"))
        trained, tested = learned(setup), samples_to_test(setup)
        assert not trained.keys() & tested.keys()
        if scenario != "permuted":  # there a sample looks different for each seed
            assert trained.keys() | tested.keys() == everything.keys()
        held = sum(round(size / 4) for size in SIZES)
        copies = 3 if scenario in DOMAINS else 1
        assert (len(trained), len(tested)) == (copies * (sum(SIZES) - held), copies * held)
        assert (setup.data["train"], setup.data["test"]) == (sum(SIZES) - held, held)
        test_sets.append((setup.data["digest"], tested.keys() if scenario != "permuted" else None))
    assert test_sets[0] == test_sets[1] == test_sets[2]  # whatever the seed


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_test_data_has_no_influence_if_samples_are_held_out(scenario: str) -> None:
    garbled = make_data(test=7, seed=3)
    few = "limits.train=8"
    held, plain = config_for(scenario, few, "limits.held_out=0.25", "adaptor.name=cba"), config_for(scenario, few)
    one, other = ([to_line(record) for record in ek.run(held, data=data)] for data in (DATA, garbled))
    assert one == other
    one, other = ([to_line(record) for record in ek.run(plain, data=data)] for data in (DATA, garbled))
    assert one != other


def test_records_say_what_was_used() -> None:
    started = ek.Results.of(ek.run(config_for("disjoint", "limits.held_out=0.2", "limits.tasks=1"), data=DATA)).started
    used = DATA.limited(held_out=0.2)
    numbers = {"train": len(used.train), "test": len(used.test)}
    assert started.data == {"name": "six", "digest": used.digest, **numbers, "classes": list("abcdef")}
    assert started.config["limits"] == {"train": None, "test": None, "tasks": 1, "held_out": 0.2}
    assert started.tasks[0]["samples"] == sum((used.train.y == label).sum() for label in started.tasks[0]["classes"])


def test_samples_are_held_out_of_those_that_limits_leave() -> None:
    limited = setup_of(config_for("disjoint", "limits.train=10", "limits.held_out=0.2", "limits.test=1"))
    kept = rows([torch.tensor(DATA.limited(train=10).train.x)])
    assert learned(limited) + samples_to_test(limited) == kept
    assert (limited.data["train"], limited.data["test"]) == (48, 12)
    with pytest.raises(DataError, match=r"held_out=0\.2 of the class 'a' of six is 0 of its 2 training samples"):
        setup_of(config_for("disjoint", "limits.train=2", "limits.held_out=0.2"))


# ---- the settings ----


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("held_out=0", "held_out = 0: input should be greater than 0"),
        ("held_out=1", "held_out = 1: input should be less than 1"),
        ("held_out=nan", "held_out = nan: input should be"),
        ("held_out=half", "held_out = 'half': input should be a valid number"),
        ("tasks=0", "tasks = 0: input should be greater than 0"),
        ("tasks=1.5", "tasks = 1.5: input should be a valid integer"),
    ],
)
def test_wrong_limits_are_reported(setting: str, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"limits.{message}")):
        config(f"limits.{setting}")


def test_runs_without_these_settings_are_grouped_with_older_ones() -> None:
    assert config().model_dump(mode="json")["limits"] == {"train": None, "test": None}
    both = config("limits.tasks=2", "limits.held_out=0.1")
    assert ek.load_config(both.model_dump(mode="json")) == both
    assert ek.load_config(both, ["limits.tasks=none", "limits.held_out=none"]) == config()
    runs = [
        ek.Results.of(ek.run(config_for("disjoint", *how), data=DATA))
        for how in ((), ("seed=1",), ("limits.tasks=2",), ("limits.held_out=0.25",))
    ]
    assert [len(group.runs) for group in groups(runs)] == [2, 1, 1]


@pytest.mark.parametrize(("setting", "value"), [("tasks", 1), ("held_out", 0.5), ("train", 1), ("test", 1)])
def test_a_stream_of_your_own_has_no_limits(setting: str, value: float) -> None:
    with pytest.raises(SettingsError, match=rf"limits\.{setting} needs a data set"):
        ek.run(config(f"limits.{setting}={value}"), stream=images())
