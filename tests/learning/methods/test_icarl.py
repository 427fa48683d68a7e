"""iCaRL, and the order of exemplars."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import evenkeel as ek
from evenkeel.learning.methods import _nearest_mean
from evenkeel.learning.methods._exemplars import features_of, herding
from tests.helpers.comparison_methods import (
    CASES,
    TaskOf,
    assert_gradient,
    having_learned,
    in_eval,
    mean_of,
    points,
    sides,
    situation,
    slow_features,
    small_learner,
    smooth_net,
    unit,
)
from tests.helpers.methods import (
    FEATURES,
    OUTPUTS,
    random,
    seeded,
)


def stored(learner: ek.Learner) -> dict[int, list[list[float]]]:
    """Return slow features of the samples in memory, by class."""
    found: dict[int, list[list[float]]] = {}
    samples = learner._inputs.to_network(learner.memory.column("x").clone())
    for row, label in zip(slow_features(learner.net, samples), learner.memory.column("y").tolist(), strict=True):
        found.setdefault(label, []).append(row)
    return found


def slow_icarl(views: Sequence[ek.View], task_of: TaskOf, task: int) -> float:
    old, _ = sides(task_of, task)
    terms = []
    for place, one in enumerate(views):
        for sample, label in enumerate(one.y.tolist()):
            for output in task_of:
                target = 1.0 if output == label else 0.0
                if output in old and not (place == 0 and output == label):
                    target = 1 / (1 + math.exp(-one.stored["teacher"][sample, output].item()))
                p = 1 / (1 + math.exp(-one.logits[sample, output].item()))
                terms.append(-target * math.log(p) - (1 - target) * math.log(1 - p))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("case", CASES)
def test_icarl_is_binary_cross_entropy_with_the_teachers_targets_for_old_classes(case: str) -> None:
    learned, views, task_of, task = situation(case, OUTPUTS)
    method = ek.ICaRL()
    having_learned(method, *learned)
    expected = slow_icarl(views, task_of, task)
    assert method.loss(views[0], views[1:]).item() == pytest.approx(expected, rel=1e-12)
    if case == "second-task":
        assert_gradient(lambda v: method.loss(v[0], v[1:]), lambda v: slow_icarl(v, task_of, task), views)


# ---- exemplars ----


def slow_herding(rows: Sequence[Sequence[float]]) -> list[int]:
    mean, chosen = mean_of(rows), list[int]()
    while len(chosen) < len(rows):
        distance = {}
        for place in range(len(rows)):
            if place not in chosen:
                running = mean_of([rows[one] for one in (*chosen, place)])
                distance[place] = math.dist(mean, running)
        chosen.append(min(distance, key=lambda place: distance[place]))
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_herding_is_greedy_and_a_permutation(seed: int) -> None:
    features = random(4 * seed + 1, 3, seed=seed) + 1  # the first of them a class of one sample
    order = herding(features).tolist()
    assert sorted(order) == list(range(len(features)))
    assert order == slow_herding(features.tolist())


@pytest.mark.parametrize("method", [ek.ICaRL, ek.LUCIR])
def test_the_last_herded_leave_first_and_nothing_changes_for_later_samples(method: Callable[[], ek.Method]) -> None:
    one = small_learner(method(), memory=12)
    for seed in range(6):
        one.learn(*points([0, 1, 1, 0, 1, 0], seed))
    memory = one.memory
    assert len(memory) == 12
    y = memory.column("y")
    x = {label: memory.column("x")[y == label].clone() for label in (0, 1)}
    best = {label: slow_herding([unit(row) for row in rows]) for label, rows in stored(one).items()}
    priority = {label: memory.column("priority")[y == label].sort().values for label in (0, 1)}
    state = memory.state_dict()
    one.boundary()
    after = memory.state_dict()
    assert torch.equal(state["bars"], after["bars"])
    assert int((after["bars"] > 0).sum()) == 2  # some of both classes were rejected, so the bars matter
    assert all(torch.equal(state["columns"][name], after["columns"][name]) for name in ("x", "y", "key"))
    for label in (0, 1):
        assert torch.equal(memory.column("priority")[y == label].sort().values, priority[label])
        by_priority = memory.column("priority")[y == label].argsort(descending=True).tolist()
        assert by_priority == best[label]
    assert best[0] != sorted(best[0])
    one.learn(*points([2] * 9 + [3] * 9, seed=7))
    y = memory.column("y")
    assert y.bincount().tolist() == [3, 3, 3, 3]
    for label in (0, 1):
        kept = {tuple(row) for row in memory.column("x")[y == label].tolist()}
        assert kept == {tuple(row) for row in x[label][best[label][:3]].tolist()}


def test_prefer_exchanges_priorities_only_among_its_rows() -> None:
    memory = ek.Memory(6, policy="balanced")
    memory.insert({"x": torch.arange(6.0), "y": torch.tensor([0, 1, 0, 1, 0, 0])}, seeded())
    before = memory.column("priority").clone()
    memory.prefer(torch.tensor([4, 0, 5]))  # row 2, of the same class, and class 1 are not involved
    after = memory.column("priority")
    assert after[[1, 2, 3]].tolist() == before[[1, 2, 3]].tolist()
    assert after[[4, 0, 5]].tolist() == sorted(before[[0, 4, 5]].tolist(), reverse=True)


# ---- iCaRL's classifier ----


def icarl_learner() -> ek.Learner:
    """Return a learner with 160 samples in memory, of classes 0, 1 and 2, in unequal shares."""
    one = small_learner(ek.ICaRL(), memory=200)
    y = [0] * 110 + [1] * 40 + [2] * 10
    x, _ = points(y, seed=0)
    one.learn(x[::2], y[::2], key="even")
    one.learn(x[1::2], y[1::2], key="odd")
    return one


def test_class_means_are_plain_means_of_normalised_features() -> None:
    one = icarl_learner()
    assert isinstance(one.method, ek.ICaRL)
    assert len(one.memory) == 160  # more than a batch of predictions
    buffers = [buffer.clone() for buffer in one.net.buffers()]
    means, classes = one.method.class_means(one.net, one.memory)
    assert one.net.training
    assert all(torch.equal(a, b) for a, b in zip(buffers, one.net.buffers(), strict=True))
    expected = {label: mean_of([unit(row) for row in rows]) for label, rows in stored(one).items()}
    assert {label: len(rows) for label, rows in stored(one).items()} == {0: 110, 1: 40, 2: 10}
    assert classes.tolist() == [0, 1, 2]
    for mean, label in zip(means.tolist(), classes.tolist(), strict=True):
        assert mean == pytest.approx(expected[label], rel=1e-12)


def test_the_nearest_class_mean_wins_and_no_other_output_can() -> None:
    one = icarl_learner()
    with torch.no_grad():
        one.net.head.get_parameter("bias").fill_(100.0)  # the head is not used
    x, _ = points([0, 1, 2, 3, 4] * 6, seed=3, spread=2.0)
    means = {label: mean_of([unit(row) for row in rows]) for label, rows in stored(one).items()}
    features = [unit(row) for row in slow_features(one.net, one._inputs.to_network(x.clone()))]
    scores = one.logits(x)
    assert scores.shape == (30, OUTPUTS)
    for row, score in zip(features, scores.tolist(), strict=True):
        for label, mean in means.items():
            assert -score[label] == pytest.approx(math.dist(row, mean) ** 2, abs=1e-12)
    nearest = [min(means, key=lambda label, row=row: math.dist(row, means[label])) for row in features]  # type: ignore[misc]
    assert one.predict(x).tolist() == nearest
    assert len(set(nearest)) == 3
    assert scores[:, 3:].max() < scores[:, :3].min()
    assert bool(torch.isfinite(scores).all())


def test_while_memory_is_empty_the_head_predicts() -> None:
    one = small_learner(ek.ICaRL())
    x, _ = points([0, 1, 2], seed=3)
    assert torch.equal(one.logits(x), in_eval(one.net)(one._inputs.to_network(x.clone())).detach())
    one.learn(x, [0, 1, 2], key="k")
    before = one.logits(x)
    assert one.forget("k") == 3
    assert not torch.equal(one.logits(x), before)
    assert torch.equal(one.logits(x), in_eval(one.net)(one._inputs.to_network(x.clone())).detach())


def test_class_means_are_recomputed_only_after_a_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[int] = []

    def counted(net: ek.Net, memory: ek.Memory) -> Tensor:
        calls.append(len(memory))
        return features_of(net, memory)

    monkeypatch.setattr(_nearest_mean, "features_of", counted)
    one, (x, y) = icarl_learner(), points([0, 1, 2] * 3, seed=5)

    def asked(learner: ek.Learner) -> tuple[int, NDArray[np.float64]]:
        before = len(calls)
        answers = [learner.predict_proba(x) for _ in range(3)]
        assert np.array_equal(answers[0], answers[2])
        return len(calls) - before, answers[0]

    def fresh(learner: ek.Learner) -> NDArray[np.float64]:
        """Compute the means without the cache."""
        assert isinstance(learner.method, ek.ICaRL)
        kept, learner.method._means = learner.method._means, None
        answer = learner.predict_proba(x)
        learner.method._means = kept
        return answer

    times, first = asked(one)
    assert times == 1
    assert asked(one)[0] == 0
    one.learn(x, y)
    times, now = asked(one)
    assert (times, np.array_equal(now, fresh(one)), np.array_equal(now, first)) == (1, True, False)
    assert one.forget("odd") == 80  # only memory changes
    times, now = asked(one)
    assert (times, np.array_equal(now, fresh(one))) == (1, True)
    one.memory.insert({"x": x, "y": one.labels.outputs(y)}, seeded())
    times, now = asked(one)
    assert (times, np.array_equal(now, fresh(one))) == (1, True)
    with torch.no_grad():  # only the net changes
        next(one.net.parameters()).mul_(1.5)
    times, now = asked(one)
    assert (times, np.array_equal(now, fresh(one))) == (1, True)
    one.net(random(9, FEATURES, seed=1) + 3)  # only its running statistics
    times, now = asked(one)
    assert (times, np.array_equal(now, fresh(one))) == (1, True)
    one.save(tmp_path / "learner")
    again = ek.Learner.load(tmp_path / "learner", net=smooth_net())
    times, then = asked(again)
    assert (times, np.array_equal(then, now)) == (1, True)
    other = icarl_learner()
    asked(other)
    other.memory.load_state_dict(one.memory.state_dict())
    times, then = asked(other)
    assert (times, np.array_equal(then, fresh(other))) == (1, True)
