"""The order in which the upper bound sees all tasks mixed."""

from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats

from evenkeel.data.dataset import Split
from evenkeel.data.scenarios import Plan, mixed, offline, rotated
from evenkeel.data.stream import PlannedStream


def entries(plan: Plan) -> list[tuple[int, int]]:
    """Return (sample, its own task) in order of arrival."""
    return [
        (sample, home)
        for task in plan.tasks
        for sample, home in zip(torch.cat(task.passes).tolist(), torch.cat(task.homes).tolist(), strict=True)
    ]


@pytest.mark.parametrize("repeat", [True, False])
@pytest.mark.parametrize("passes", [1, 3])
def test_mixed_has_every_sample_of_every_task_once_per_pass(passes: int, repeat: bool) -> None:
    plan = rotated(torch.arange(50) % 5, tasks=4, repeat=repeat, seed=2)
    own = [(sample, home) for home, task in enumerate(plan.tasks) for sample in task.passes[0].tolist()]
    mix = mixed(plan, passes=passes, seed=3)
    arrivals = entries(mix)
    assert Counter(arrivals) == dict.fromkeys(own, passes)
    one_pass = [arrivals[start : start + len(own)] for start in range(0, len(arrivals), len(own))]
    assert len(one_pass) == passes
    assert all(sorted(each) == sorted(own) for each in one_pass)  # pass after pass, not all at once
    assert len({tuple(each) for each in [own, *one_pass]}) == passes + 1
    sizes = [sum(map(len, task.passes)) for task in mix.tasks]
    assert max(sizes) - min(sizes) <= 1
    assert not mix.boundaries
    assert [(task.name, task.classes, task.domain) for task in mix.tasks] == [
        (task.name, task.classes, task.domain) for task in plan.tasks
    ]
    assert entries(mixed(plan, passes=passes, seed=3)) == arrivals
    assert entries(mixed(plan, passes=passes, seed=4)) != arrivals
    if passes > 1:
        assert entries(mixed(plan, passes=1, seed=3)) == one_pass[0]


def test_mixed_takes_a_plan_of_several_epochs_once() -> None:
    plan = offline(torch.arange(40) % 4, tasks=[[0, 1], [2, 3]], epochs=3)
    assert sorted(sample for sample, _ in entries(mixed(plan, passes=2))) == sorted([*range(40)] * 2)


def test_a_sample_keeps_its_domain_when_tasks_are_mixed() -> None:
    generator = np.random.default_rng(0)
    split = Split(generator.integers(0, 256, (60, 1, 4, 4), dtype=np.uint8), np.arange(60, dtype=np.int64) % 3)
    plan = mixed(rotated(split.y, tasks=3, degrees=90.0), passes=2, seed=1)
    stream = PlannedStream(split, plan, ["a", "b", "c"], batch=7, drop_last=False)
    arrivals = entries(plan)
    arrived = [(x, label) for one in stream.batches() for x, label in zip(one.x, one.labels, strict=True)]
    assert len(arrived) == len(arrivals) == 360
    for (x, label), (sample, home) in zip(arrived, arrivals, strict=True):
        turned = np.rot90(split.x[sample, 0], home)
        assert np.array_equal(x[0].numpy(), turned)
        assert label == "abc"[int(split.y[sample])]


def test_mixed_is_identically_distributed_over_the_parts() -> None:
    """Over seeds each sample is in each part, and at each place in it, equally often, whatever its task."""
    plan = offline(torch.arange(12) // 4, tasks=[[0], [1], [2]], epochs=1)
    lines = [[sample for sample, _ in entries(mixed(plan, passes=1, seed=seed))] for seed in range(300)]
    for sample in (0, 5, 11):
        places = [line.index(sample) for line in lines]
        assert stats.chisquare(np.bincount(np.array(places) // 4, minlength=3)).pvalue > 1e-4
        assert stats.chisquare(np.bincount(places, minlength=12)).pvalue > 1e-4
    neighbours = [line.index(0) // 4 == line.index(1) // 4 for line in lines]  # of one task, but no closer for that
    assert stats.binomtest(sum(neighbours), 300, 3 / 11).pvalue > 1e-4
