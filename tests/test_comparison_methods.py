"""iCaRL, LUCIR, BiC, SS-IL, ER-ACE and the bounds: losses against slow references, and what each promises beside."""

import copy
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

import evenkeel as ek
from evenkeel.data.dataset import Split
from evenkeel.data.scenarios import Plan, mixed, offline, rotated
from evenkeel.data.stream import PlannedStream
from evenkeel.errors import SettingsError
from evenkeel.learning.contract import differences, snapshot
from evenkeel.learning.heads import GrowingHead, cosine_parts
from evenkeel.learning.methods import bic, icarl
from evenkeel.learning.methods._exemplars import features_of, herding
from evenkeel.learning.methods._teacher import Distilling
from evenkeel.learning.types import View
from tests.reference_cba import Group, Reference, leaves
from tests.streams import ADAPTORS, images, learn_all
from tests.streams import learner as image_learner
from tests.test_methods import (
    FEATURES,
    OUTPUTS,
    linear_net,
    random,
    reference_ce,
    reference_kd,
    seeded,
    teacher_logits,
    view,
)
from tests.test_outer_gradient import OPTIMIZERS, Update, assert_close, batch, second_task, watch

TEACHERS: dict[str, Callable[[], Distilling]] = {
    "icarl": ek.ICaRL,
    "lucir": ek.LUCIR,
    "bic": ek.BiC,
    "ss_il": ek.SSIL,
}
Labelled = tuple[Tensor, list[int]]


def smooth_net(outputs: int = OUTPUTS) -> ek.Net:
    """Batch norm, and no unit that is ever silent: every sample has a direction."""
    torch.manual_seed(1)
    return ek.Net(nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.Tanh()), nn.Linear(5, outputs)).double()


def having_learned(method: ek.Method, *batches: Sequence[int]) -> ek.Net:
    """The net of `method` once it has learned batches of these outputs, each in a task of its own."""
    net = linear_net()
    if method.cosine_head:
        net.make_cosine()
    method.prepare(net, seeded())
    for place, outputs in enumerate(batches):
        if place:
            method.boundary(net, ek.Memory(3))
        if len(outputs):
            method.remember(view(outputs, seed=place))
    return net


def points(y: Sequence[int], seed: int, spread: float = 1.0) -> Labelled:
    """Float64 samples around a centre for each class; no two are alike."""
    centres = 2 * random(OUTPUTS, FEATURES, seed=99)
    return centres[list(y)] + spread * random(len(y), FEATURES, seed=seed), list(y)


def small_learner(
    method: ek.Method,
    *,
    net: ek.Net | None = None,
    memory: int | str | ek.Memory = 40,
    lr: float = 0.1,
    adaptor: ek.CBA | None = None,
) -> ek.Learner:
    """No momentum and no augmentation, so that each number can be told by hand; batch norm inside, in float64."""
    return ek.Learner(
        smooth_net() if net is None else net,
        method,
        memory=memory,
        replay=6,
        adaptor=adaptor,
        optimizer=partial(SGD, lr=lr),
        normalize=([0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 1.0, 0.5]),
    )


def in_eval(net: ek.Net) -> ek.Net:
    return copy.deepcopy(net).eval()


def unit(row: Sequence[float]) -> list[float]:
    length = math.sqrt(sum(value * value for value in row))
    return [value / length for value in row]


def mean_of(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def slow_features(net: ek.Net, x: Tensor) -> list[list[float]]:
    """One sample at a time, in evaluation mode."""
    still = in_eval(net)
    with torch.no_grad():
        rows: list[list[float]] = [still.features(sample[None])[0].tolist() for sample in x]
    return rows


def stored(learner: ek.Learner) -> dict[int, list[list[float]]]:
    """Slow features of what memory holds, by class."""
    found: dict[int, list[list[float]]] = {}
    samples = learner._inputs.to_network(learner.memory.column("x").clone())
    for row, label in zip(slow_features(learner.net, samples), learner.memory.column("y").tolist(), strict=True):
        found.setdefault(label, []).append(row)
    return found


# ---- losses: slow references, sample by sample ----

TaskOf = Mapping[int, int]  # of each seen output, the task it first came in


def sides(task_of: TaskOf, task: int) -> tuple[list[int], list[int]]:
    """Old and new outputs; none is old while a task brings no class."""
    new = [output for output, first in task_of.items() if first == task]
    old = [output for output, first in task_of.items() if first < task]
    return (old if new else []), new


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


def slow_lucir(
    views: Sequence[ek.View],
    task_of: TaskOf,
    task: int,
    *,
    scale: float,
    less_forget: float = 5.0,
    margin: float = 0.5,
    nearest: int = 2,
) -> float:
    old, new = sides(task_of, task)
    loss = reference_ce(torch.cat([one.adapted for one in views]), torch.cat([one.y for one in views]))
    if not old:
        return loss
    moved, ranked = [], []
    for one in views:
        for sample, label in enumerate(one.y.tolist()):
            now, then = one.features[sample].tolist(), one.stored["teacher"][sample].tolist()
            moved.append(1 - dot(unit(now), unit(then)))
            cosines = [logit / scale for logit in one.logits[sample].tolist()]
            if label in old:
                for rival in sorted((cosines[output] for output in new), reverse=True)[:nearest]:
                    ranked.append(max(0.0, margin - cosines[label] + rival))
    loss += less_forget * math.sqrt(len(old) / len(new)) * sum(moved) / len(moved)
    return loss + (sum(ranked) / len(ranked) if ranked else 0.0)


def slow_bic(
    views: Sequence[ek.View],
    task_of: TaskOf,
    task: int,
    *,
    scale: Sequence[float],
    shift: Sequence[float],
    temperature: float = 2.0,
) -> float:
    """The teacher's word is given corrected already."""
    old, new = sides(task_of, task)

    def corrected(rows: Sequence[Tensor]) -> Tensor:
        every = [[s * z + b for z, s, b in zip(row, scale, shift, strict=True)] for row in torch.cat([*rows]).tolist()]
        return torch.tensor(every, dtype=torch.float64)

    y, seen = torch.cat([one.y for one in views]), list(task_of)
    loss = reference_ce(corrected([one.adapted for one in views]), y, lambda _: seen)
    if not old:
        return loss
    share = len(old) / (len(old) + len(new))
    told = torch.cat([one.stored["teacher"] for one in views])
    kept = reference_kd(corrected([one.logits for one in views]), told, old, temperature) / temperature**2
    return (1 - share) * loss + share * kept


# The classes of each task before the present one, those that the present one had so far; then an incoming batch and the
# memory draw. In the second case a sample of an old class comes in, in the fourth no class is new.
CASES: dict[str, tuple[list[list[int]], list[int], list[int]]] = {
    "first-task": ([[0, 1]], [1, 2, 0, 5], [0, 1, 2]),
    "second-task": ([[0, 1, 5], [3]], [3, 4, 1, 4], [0, 5, 3, 1, 1]),
    "third-task": ([[0], [1, 5], [3]], [3, 3, 4, 2], [0, 5, 3, 1]),
    "nothing-new": ([[0, 1, 5], []], [0, 5, 1], [0, 1]),
    "memory-empty": ([[0, 1], []], [3, 4], []),
}


def situation(case: str, width: int) -> tuple[list[list[int]], list[ek.View], TaskOf, int]:
    """What was learned, the views with a teacher's word of `width` columns, the task of each seen output."""
    learned, new, old = CASES[case]
    views = [
        view(y, seed, {"teacher": random(len(y), width, seed=seed + 40)}) for seed, y in ((1, new), (2, old)) if len(y)
    ]
    task_of: dict[int, int] = {}
    for task, outputs in enumerate([*learned[:-1], [*learned[-1], *new]]):
        for output in outputs:
            task_of.setdefault(output, task)
    return learned, views, task_of, len(learned) - 1


def assert_gradient(
    loss: Callable[[Sequence[ek.View]], Tensor], reference: Callable[[Sequence[ek.View]], float], views: list[ek.View]
) -> None:
    """Autograd of `loss` against differences of the slow reference, in random directions of all that a net gives."""
    names = ("logits", "adapted", "features")
    views = [replace(one, **{name: getattr(one, name).detach().requires_grad_() for name in names}) for one in views]
    given = [getattr(one, name) for one in views for name in names]
    gradient = torch.autograd.grad(loss(views), given, materialize_grads=True, allow_unused=True)
    for seed in range(3):
        along = [random(*value.shape, seed=500 + 10 * seed + place) for place, value in enumerate(given)]

        def at(step: float, along: Sequence[Tensor] = along) -> float:
            moved = iter([value.detach() + step * a for value, a in zip(given, along, strict=True)])
            return reference([replace(one, **{name: next(moved) for name in names}) for one in views])

        slope = (at(1e-5) - at(-1e-5)) / 2e-5
        assert slope != 0
        assert sum(float((g * a).sum()) for g, a in zip(gradient, along, strict=True)) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_icarl_is_binary_cross_entropy_with_the_teachers_word_on_old_classes(case: str) -> None:
    learned, views, task_of, task = situation(case, OUTPUTS)
    method = ek.ICaRL()
    having_learned(method, *learned)
    expected = slow_icarl(views, task_of, task)
    assert method.loss(views[0], views[1:]).item() == pytest.approx(expected, rel=1e-12)
    if case == "second-task":
        assert_gradient(lambda v: method.loss(v[0], v[1:]), lambda v: slow_icarl(v, task_of, task), views)


@pytest.mark.parametrize("nearest", [1, 2, 6])
@pytest.mark.parametrize("case", CASES)
def test_lucir_is_cross_entropy_and_less_forgetting_and_a_margin(case: str, nearest: int) -> None:
    learned, views, task_of, task = situation(case, FEATURES)
    method = ek.LUCIR(less_forget=3.0, margin=0.4, nearest=nearest)
    net = having_learned(method, *learned)
    assert net.cosine_scale is not None
    with torch.no_grad():
        net.cosine_scale.fill_(2.5)

    def expected(views: Sequence[ek.View]) -> float:
        return slow_lucir(views, task_of, task, scale=2.5, less_forget=3.0, margin=0.4, nearest=nearest)

    assert method.loss(views[0], views[1:]).item() == pytest.approx(expected(views), rel=1e-12)
    if case == "second-task":
        assert_gradient(lambda v: method.loss(v[0], v[1:]), expected, views)


@pytest.mark.parametrize("case", CASES)
def test_bic_is_cross_entropy_and_distillation_by_the_share_of_old_classes(case: str) -> None:
    learned, views, task_of, task = situation(case, OUTPUTS)
    method = ek.BiC(temperature=3.0)
    having_learned(method, *learned)
    method.scale, method.shift = random(OUTPUTS, seed=31).exp(), random(OUTPUTS, seed=32)
    scale, shift = method.scale.tolist(), method.shift.tolist()

    def expected(views: Sequence[ek.View]) -> float:
        return slow_bic(views, task_of, task, scale=scale, shift=shift, temperature=3.0)

    assert method.loss(views[0], views[1:]).item() == pytest.approx(expected(views), rel=1e-12)
    if case == "second-task":
        assert_gradient(lambda v: method.loss(v[0], v[1:]), expected, views)


def test_defaults_are_those_of_the_papers() -> None:
    assert ek.SSIL().temperature == ek.BiC().temperature == 2.0
    lucir = ek.LUCIR()
    assert (lucir.less_forget, lucir.margin, lucir.nearest, lucir.epochs, lucir.lr) == (5.0, 0.5, 2, 20, 0.01)


def test_bics_outer_objective_and_its_teacher_are_corrected() -> None:
    method = ek.BiC()
    having_learned(method, [0, 1], [2])
    method.scale, method.shift = random(OUTPUTS, seed=31).exp(), random(OUTPUTS, seed=32)
    old = [view([0, 1, 2], seed=5), view([1, 2], seed=6)]
    expected = sum(reference_ce(one.logits * method.scale + method.shift, one.y) for one in old) / 2
    assert method.query_loss(old).item() == pytest.approx(expected, rel=1e-12)
    told = method.recall(ek.Draw(old[0].x, old[0].y))["teacher"]
    by_hand = teacher_logits(method.teacher, old[0].x) * method.scale + method.shift
    assert torch.allclose(told, by_hand, rtol=1e-12)


def test_lucirs_teacher_speaks_of_features() -> None:
    method = ek.LUCIR()
    having_learned(method, [0, 1], [2])
    x = random(5, FEATURES, seed=7)
    assert torch.equal(
        method.recall(ek.Draw(x, torch.zeros(5, dtype=torch.int64)))["teacher"], method.teacher.features(x)
    )


@pytest.mark.parametrize("method", [ek.Finetune(), ek.Joint(), ek.Joint(epochs=3)], ids=repr)
def test_bounds_are_cross_entropy_on_the_incoming_batch(method: ek.Method) -> None:
    new = view([2, 3, 3, 4, 2], seed=1)
    assert method.loss(new, []).item() == pytest.approx(reference_ce(new.adapted, new.y), rel=1e-12)


# ---- a teacher ----


@pytest.mark.parametrize("method", TEACHERS)
def test_a_teacher_is_in_evaluation_mode_and_changes_only_at_boundaries(method: str) -> None:
    one = small_learner(TEACHERS[method]())
    assert isinstance(one.method, Distilling)
    for seed in range(3):
        one.learn(*points([0, 1, 0, 1, 0], seed))
    for y in ([2, 3, 2, 3, 2], [4, 5, 4, 4, 5]):
        one.boundary()
        teacher = one.method.teacher
        assert all(
            torch.equal(a, b) for a, b in zip(teacher.state_dict().values(), one.net.state_dict().values(), strict=True)
        )
        before = copy.deepcopy(teacher.state_dict())
        for seed in range(4):
            one.learn(*points(y, seed))
        assert [name for name, value in teacher.state_dict().items() if not torch.equal(value, before[name])] == []
        assert not all(torch.equal(a, b) for a, b in zip(before.values(), one.net.state_dict().values(), strict=True))
        x, _ = points([0, 1, 2, 3], seed=8)
        together = one.method.taught(x)
        alone = torch.cat([one.method.taught(sample[None]) for sample in x])
        assert torch.allclose(together, alone, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("method", TEACHERS)
def test_the_teacher_is_asked_once_about_each_group_as_the_net_sees_it(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = small_learner(TEACHERS[method](), adaptor=None if method == "icarl" else ek.CBA(every=1))
    one.learn(*points([0, 1, 0, 1, 0], seed=0))
    one.boundary()
    asked: list[Tensor] = []
    assert isinstance(one.method, Distilling)
    kind = type(one.method)
    loss, taught = kind.loss, kind.taught

    def spied(self: Distilling, x: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        asked.append(x)
        return taught(self, x)

    def checked(self: Distilling, new: ek.View, old: Sequence[ek.View]) -> Tensor:
        for one in (new, *old):
            assert torch.allclose(one.stored["teacher"], taught(self, one.x), rtol=1e-12)
        return loss(self, new, old)

    monkeypatch.setattr(kind, "taught", spied)
    monkeypatch.setattr(kind, "loss", checked)
    one.learn(*points([2, 3, 2, 3, 2], seed=1))
    assert [len(x) for x in asked] == [5, 5]  # memory holds five


@pytest.mark.parametrize("method", TEACHERS)
def test_a_boundary_before_anything_was_learned_ends_no_task(method: str) -> None:
    one = small_learner(TEACHERS[method]())
    assert isinstance(one.method, Distilling)
    one.boundary()
    assert int(one.method.task) == 0
    one.learn(*points([0, 1], seed=0))
    one.boundary()
    assert int(one.method.task) == 1
    assert one.method.task_of.tolist() == [0, 0, -1, -1, -1, -1, -1]


# ---- what memory holds, by the policy of the method ----


def test_a_number_of_samples_gives_the_memory_that_the_method_wants() -> None:
    policies = {name: small_learner(make()).memory.policy for name, make in ek.METHODS.items()}
    balanced = {"icarl", "lucir", "bic", "ss_il"}
    assert policies == {name: "balanced" if name in balanced else "reservoir" for name in ek.METHODS}
    for make in TEACHERS.values():
        assert small_learner(ek.RAR(make(), repeats=2)).memory.policy == "balanced"
    assert small_learner(ek.ICaRL(), memory=ek.Memory(40)).memory.policy == "reservoir"  # the user's wish goes first
    held = {name: small_learner(make()).memory.held_out for name, make in ek.METHODS.items()}
    assert held == {name: 0.1 if name == "bic" else 0.0 for name in ek.METHODS}
    assert small_learner(ek.RAR(ek.BiC(held_out=0.3), repeats=2)).memory.held_out == 0.3


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
    assert int((after["bars"] > 0).sum()) == 2  # some of both classes were turned away, so there is something to keep
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


def test_prefer_exchanges_priorities_among_the_rows_it_is_given() -> None:
    memory = ek.Memory(6, policy="balanced")
    memory.insert({"x": torch.arange(6.0), "y": torch.tensor([0, 1, 0, 1, 0, 0])}, seeded())
    before = memory.column("priority").clone()
    memory.prefer(torch.tensor([4, 0, 5]))  # row 2, of the same class, and class 1 are not asked
    after = memory.column("priority")
    assert after[[1, 2, 3]].tolist() == before[[1, 2, 3]].tolist()
    assert after[[4, 0, 5]].tolist() == sorted(before[[0, 4, 5]].tolist(), reverse=True)


# ---- iCaRL's classifier ----


def icarl_learner() -> ek.Learner:
    """160 samples in memory, of classes 0, 1 and 2, in unequal shares."""
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
        one.net.head.get_parameter("bias").fill_(100.0)  # the head has no say
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


def test_class_means_are_computed_anew_only_after_a_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[int] = []

    def counted(net: ek.Net, memory: ek.Memory) -> Tensor:
        calls.append(len(memory))
        return features_of(net, memory)

    monkeypatch.setattr(icarl, "features_of", counted)
    one, (x, y) = icarl_learner(), points([0, 1, 2] * 3, seed=5)

    def asked(learner: ek.Learner) -> tuple[int, NDArray[np.float64]]:
        before = len(calls)
        answers = [learner.predict_proba(x) for _ in range(3)]
        assert np.array_equal(answers[0], answers[2])
        return len(calls) - before, answers[0]

    def fresh(learner: ek.Learner) -> NDArray[np.float64]:
        """With nothing kept from before."""
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
    assert one.forget("odd") == 80  # memory alone changes
    times, now = asked(one)
    assert (times, np.array_equal(now, fresh(one))) == (1, True)
    one.memory.insert({"x": x, "y": one.labels.outputs(y)}, seeded())
    times, now = asked(one)
    assert (times, np.array_equal(now, fresh(one))) == (1, True)
    with torch.no_grad():  # the net alone changes
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


# ---- LUCIR ----


def test_the_margin_knows_only_the_label_and_seen_new_classes() -> None:
    """Gradients of the plain logits come from the margin alone, because the cross-entropy is of the adapted ones."""
    method = ek.LUCIR(nearest=9)
    having_learned(method, [0, 1], [2])
    new, old = (
        view([3, 2], 1, {"teacher": random(2, FEATURES, seed=9)}),
        view([0, 1, 2], 2, {"teacher": random(3, FEATURES, seed=8)}),
    )
    fresh, replayed = torch.autograd.grad(method.loss(new, [old]), [new.logits, old.logits])
    assert fresh.eq(0).all()
    assert replayed[2].eq(0).all()  # of a new class
    assert replayed[:, [4, 5, 6]].eq(0).all()  # never seen
    assert replayed[0, 1] == replayed[1, 0] == 0  # another old class
    assert replayed[0, 0] < 0
    assert replayed[1, 1] < 0
    assert replayed[:2, [2, 3]].ge(0).all()
    assert replayed[:2, [2, 3]].gt(0).any()


def test_the_margin_does_not_move_the_scale() -> None:
    method = ek.LUCIR(less_forget=0.0)
    net = having_learned(method, [0, 1], [2, 3])
    scale = net.cosine_scale
    assert scale is not None
    with torch.no_grad():
        scale.fill_(3.0)
    constant = {"teacher": random(4, FEATURES, seed=9)}

    def seen(y: list[int], seed: int, *, constant_adapted: bool) -> ek.View:
        x = random(len(y), FEATURES, seed=seed)
        logits = net.head(x)
        adapted = random(len(y), OUTPUTS, seed=seed + 1) if constant_adapted else logits
        return ek.View(x, torch.tensor(y), constant, x, logits, adapted)

    margin_only = method.loss(
        seen([2, 3, 2, 3], 1, constant_adapted=True), [seen([0, 1, 0, 1], 2, constant_adapted=True)]
    )
    of_scale, of_rows = torch.autograd.grad(margin_only, [scale, net.head.get_parameter("weight")])
    assert abs(float(of_scale)) < 1e-15
    assert float(of_rows.abs().max()) > 1e-3
    whole = method.loss(seen([2, 3, 2, 3], 1, constant_adapted=False), [seen([0, 1, 0, 1], 2, constant_adapted=False)])
    assert abs(float(torch.autograd.grad(whole, scale)[0])) > 1e-3


def scale_of(net: ek.Net) -> float:
    assert net.cosine_scale is not None
    return net.cosine_scale.item()


def rows_of(net: ek.Net) -> Tensor:
    """(outputs, features) of a cosine head, however many parts it has."""
    return torch.cat([part.weight for part in cosine_parts(net.head)]).detach().clone()[: net.outputs]


@pytest.mark.parametrize("outputs", [2, OUTPUTS], ids=["growing", "fixed"])
def test_rows_of_old_classes_stay_unless_the_batch_has_them(outputs: int) -> None:
    one = small_learner(ek.LUCIR(), net=smooth_net(outputs))
    start = rows_of(one.net)
    for seed in range(3):
        one.learn(*points([0, 1, 0, 1, 1], seed))
    assert (rows_of(one.net)[:2] != start[:2]).any(dim=1).all()
    one.boundary()

    def moved(y: list[int], seed: int) -> list[bool]:
        before, scale = rows_of(one.net), scale_of(one.net)
        one.learn(*points(y, seed))
        assert scale_of(one.net) != scale
        after = rows_of(one.net)
        changed: list[bool] = (after[: len(before)] != before).any(dim=1).tolist()
        return changed

    moved([2, 3, 2, 3, 2], 10)
    for seed in (11, 12):  # replay has 0 and 1 meanwhile
        assert moved([2, 3, 2, 3, 2], seed)[:4] == [False, False, True, True]
    assert moved([2, 0, 2, 3, 0], 13)[:4] == [True, False, True, True]
    assert moved([1, 3, 2, 3, 3], 14)[:4] == [False, True, True, True]  # 0 is fixed again
    one.boundary()
    moved([4, 5, 4, 5], 15)
    assert moved([4, 5, 4, 5], 16)[:6] == [False, False, False, False, True, True]
    one.boundary()
    assert moved([0, 5, 2, 3], 17)[:6] == [True] * 6  # a task that brings no class: none is old


@pytest.mark.parametrize("options", [{"momentum": 0.9}, {"weight_decay": 0.1}], ids=str)
def test_no_optimizer_moves_the_rows_of_old_classes(options: dict[str, Any]) -> None:
    optimizer = partial(SGD, lr=0.1, **options)
    one = ek.Learner(smooth_net(), ek.LUCIR(), memory=40, replay=6, optimizer=optimizer)
    for seed in range(3):
        one.learn(*points([0, 1, 0, 1, 1], seed))
    one.boundary()
    before = rows_of(one.net)[:2]
    for seed in range(3):
        one.learn(*points([2, 3, 2, 3, 2], 10 + seed))
    assert torch.equal(rows_of(one.net)[:2], before)


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("outputs", [2, OUTPUTS], ids=["growing", "fixed"])
def test_a_row_is_imprinted_once_from_the_first_batch_with_its_class(outputs: int, repeats: int) -> None:
    """With a learning rate of zero nothing else moves a row, while running statistics, and so features, do move."""
    method = ek.LUCIR(epochs=0) if repeats == 1 else ek.RAR(ek.LUCIR(epochs=0), repeats=repeats)
    one = small_learner(method, net=smooth_net(outputs), lr=0.0)

    def learn(y: list[int], seed: int, first: list[int], known: list[int]) -> None:
        """`first`: the classes to be imprinted, as long as the rows of those `known` are on average."""
        x, _ = points(y, seed)
        before = rows_of(one.net)
        length = sum(math.sqrt(dot(row, row)) for row in before[known].tolist()) / len(known)
        features = slow_features(one.net, one._inputs.to_network(x.clone()))
        expected = {
            label: unit(mean_of([unit(row) for row, output in zip(features, y, strict=True) if output == label]))
            for label in first
        }
        one.learn(x, y)
        after = rows_of(one.net)
        for label, direction in expected.items():
            assert after[label].tolist() == pytest.approx([length * value for value in direction], rel=1e-12)
        others = [row for row in range(len(before)) if row not in first]
        assert torch.equal(after[others], before[others])
        if first:  # so that another mean of lengths would be another number
            with torch.no_grad():
                cosine_parts(one.net.head)[0].weight[first[0] % 2] *= 1.5

    learn([0, 1, 0, 1, 1], 0, first=[0, 1], known=list(range(outputs)))  # of all rows, as none is known
    learn([0, 1, 0, 1, 1], 1, first=[], known=[0])
    one.boundary()
    learn([2, 3, 2, 3, 3], 2, first=[2, 3], known=[0, 1])
    learn([2, 3, 4, 4, 0], 3, first=[4], known=[0, 1, 2, 3])
    learn([2, 3, 4, 4, 0], 4, first=[], known=[0])
    one.boundary()
    learn([5, 5, 4, 0], 5, first=[5], known=[0, 1, 2, 3, 4])


def test_a_row_is_imprinted_before_the_forward() -> None:
    one = small_learner(ek.LUCIR(), net=smooth_net())
    one.learn(*points([0, 1, 0, 1, 1], 0))
    one.boundary()
    before, seen = rows_of(one.net), list[Tensor]()
    one.net.head.register_forward_pre_hook(lambda *_: seen.append(rows_of(one.net)))
    one.learn(*points([2, 3, 2, 3, 2], 1))
    (rows,) = seen
    assert (rows != before).any(dim=1).tolist() == [False, False, True, True, False, False, False]


def test_fine_tuning_at_a_boundary_moves_the_head_alone_as_written() -> None:
    one = small_learner(ek.LUCIR(epochs=5, lr=0.3), net=smooth_net(2), memory=40)
    for seed in range(5):
        one.learn(*points([0, 1, 0, 1, 1, 0, 0], seed))
    before = copy.deepcopy(one.net.state_dict())
    one.boundary()  # the first: no classes to rebalance
    assert all(torch.equal(value, before[name]) for name, value in one.net.state_dict().items())
    for seed in range(5, 12):
        one.learn(*points([2, 3, 2, 3, 3, 2], seed))
    assert len(one.memory) == 40  # more than one batch of the fine-tuning

    backbone = copy.deepcopy(one.net.backbone.state_dict())
    samples = one._inputs.to_network(one.memory.column("x").clone())
    features = torch.tensor([unit(row) for row in slow_features(one.net, samples)], dtype=torch.float64)
    y = one.memory.column("y").clone()
    rows, scale = (
        rows_of(one.net).requires_grad_(),
        torch.tensor(scale_of(one.net), dtype=torch.float64, requires_grad=True),
    )
    before_rows = rows_of(one.net)
    generator = torch.Generator()
    generator.set_state(one._generators["method"].get_state())
    for lr in (0.3, 0.3, 0.3, 0.03, 0.03):
        order = torch.randperm(40, generator=generator)
        for part in (order[:32], order[32:]):
            logits = scale * (features[part] @ (rows / rows.norm(dim=1, keepdim=True)).T)
            gradients = torch.autograd.grad(F.cross_entropy(logits, y[part]), [rows, scale])
            with torch.no_grad():
                rows -= lr * gradients[0]
                scale -= lr * gradients[1]
    one.boundary()
    assert [
        name for name, value in one.net.backbone.state_dict().items() if not torch.equal(value, backbone[name])
    ] == []
    assert_close([rows_of(one.net)], [rows], 1e-11)
    assert scale_of(one.net) == pytest.approx(scale.item(), rel=1e-11)
    assert (rows_of(one.net) != before_rows).any(dim=1).tolist() == [True] * 4
    assert all(weight.grad is None for weight in one.net.head.parameters())


def test_lucir_says_what_to_do_with_an_optimizer_over_a_linear_head() -> None:
    net = smooth_net()
    with pytest.raises(ek.SettingsError, match=r"needs a cosine head. Call net.make_cosine\(10.0\) before"):
        ek.Learner(net, ek.LUCIR(), optimizer=SGD(net.parameters(), lr=0.1))
    assert isinstance(net.head, nn.Linear)  # nothing was done
    net.make_cosine()
    one = ek.Learner(net, ek.LUCIR(), optimizer=SGD(net.parameters(), lr=0.1))
    before = rows_of(net)
    one.learn(*points([0, 1, 0], 0))
    assert not torch.equal(rows_of(net), before)


def test_an_update_that_failed_leaves_no_imprint() -> None:
    one = small_learner(ek.LUCIR())
    one.learn(*points([0, 1, 0, 1], 0))
    one.boundary()
    before = snapshot(one)
    x, y = points([2, 3, 2, 3], 1)
    with pytest.raises(ek.DivergenceError, match="The network is as it was"):
        one.learn(x * 1e200, y)
    changed = [path for path in differences(before, snapshot(one)) if "streams" not in path]
    assert changed == []


# ---- cosine heads ----


def test_a_cosine_head_is_scale_times_cosine() -> None:
    head = ek.CosineHead(4, 3, scale=2.5).double()
    features = random(6, 4, seed=1)
    with torch.no_grad():
        logits = head(features)
    for row, answers in zip(features.tolist(), logits.tolist(), strict=True):
        expected = [2.5 * dot(unit(row), unit(weight)) for weight in head.weight.tolist()]
        assert answers == pytest.approx(expected, rel=1e-12)
    assert float(logits.abs().max()) <= 2.5
    assert torch.allclose(head(7 * features), logits, rtol=1e-12)  # lengths do not matter
    assert bool(torch.isfinite(head(torch.zeros(2, 4, dtype=torch.float64))).all())
    head.fixed[1] = True
    assert torch.equal(head(features), logits)
    (gradient,) = torch.autograd.grad(head(features)[:, 1:].square().sum(), head.weight)
    assert gradient.ne(0).any(dim=1).tolist() == [False, False, True]


def test_a_linear_head_made_cosine_keeps_its_rows() -> None:
    net = linear_net()
    weight = net.head.get_parameter("weight")
    net.make_cosine(scale=3.0)
    head = net.head
    assert isinstance(head, ek.CosineHead)
    assert head.weight is weight
    assert (net.outputs, head.in_features, head.scale.item(), head.scale.dtype) == (
        OUTPUTS,
        FEATURES,
        3.0,
        torch.float64,
    )
    net.make_cosine()
    assert net.head is head
    grown = linear_net(3)
    grown.grow(5, seed=0)
    with pytest.raises(ek.SettingsError, match=r"only an nn\.Linear can be made a cosine head"):
        grown.make_cosine()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_growth_of_a_cosine_head_keeps_old_logits_to_the_bit_and_the_scale_in_one_place(dtype: torch.dtype) -> None:
    net = ek.mlp(features=FEATURES, classes=3, hidden=(16,)).to(dtype)
    net.make_cosine()
    scale = net.cosine_scale
    assert scale is not None
    with torch.no_grad():
        scale.fill_(4.0)
    x = random(33, FEATURES, seed=0).to(dtype)
    before = net(x)
    for outputs in (4, 6, 7, 13):
        pairs = net.grow(outputs, seed=outputs)
        after = net(x)
        assert after.shape == (33, outputs)
        assert torch.equal(after[:, : before.shape[1]], before)
        assert all(new.shape[1:] == old.shape[1:] and new.dtype == dtype for new, old in pairs)
        assert not any(new is scale for new, _ in pairs)
        assert net.cosine_scale is scale
        before = after
    assert isinstance(net.head, GrowingHead)
    assert len(net.head.parts) == 4
    assert all(part.scale is scale for part in cosine_parts(net.head))
    assert sum(weight is scale for weight in net.parameters()) == 1
    with torch.no_grad():
        scale.fill_(8.0)
    assert torch.equal(net(x), 2 * before)


def test_a_grown_cosine_net_is_saved_and_loaded(tmp_path: Path) -> None:
    net = ek.mlp(features=FEATURES, classes=2, hidden=(8,)).double()
    one = ek.Learner(net, ek.LUCIR(), memory=20, replay=5, optimizer=partial(SGD, lr=0.1, momentum=0.5))
    for seed, y in enumerate([[0, 1, 0], [1, 0, 2], [2, 3, 4]]):
        one.learn(*points(y, seed))
    assert one.net.outputs == 5
    one.boundary()
    one.learn(*points([5, 6, 5], 4))
    one.save(tmp_path / "learner")
    again = ek.Learner.load(tmp_path / "learner", net=ek.mlp(features=FEATURES, classes=2, hidden=(8,)).double())
    x, _ = points([0, 1, 2], 9)
    assert torch.equal(one.logits(x), again.logits(x))
    scale = again.net.cosine_scale
    assert all(part.scale is scale for part in cosine_parts(again.net.head))
    assert sum(weight is scale for group in again.optimizer.param_groups for weight in group["params"]) == 1
    assert one.learn(*points([5, 6, 0], 5)) == again.learn(*points([5, 6, 0], 5))
    assert differences(snapshot(one), snapshot(again)) == []


# ---- BiC: held out ----


def numbered(y: Sequence[int], start: int) -> Labelled:
    """Samples whose first value is a number of their own."""
    x, labels = points(y, seed=start)
    x[:, 0] = torch.arange(start, start + len(labels), dtype=torch.float64)
    return x / 100, labels


def plain_learner(method: ek.Method, *, net: ek.Net | None = None, **settings: object) -> ek.Learner:
    """Without normalisation: the net is given what was learned."""
    given: dict[str, object] = {"memory": 40, "replay": 6, "optimizer": partial(SGD, lr=0.1), **settings}
    return ek.Learner(smooth_net(2) if net is None else net, method, **given)  # type: ignore[arg-type]


def ids(x: Tensor) -> list[int]:
    return [round(100 * value) for value in x[:, 0].tolist()]


@pytest.mark.parametrize("adaptor", ["none", "cba"])
def test_what_is_held_out_is_never_trained_on(adaptor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trained, held, kept = set[int](), set[int](), set[int]()
    loss, query_loss = ek.BiC.loss, ek.BiC.query_loss

    def spied(self: ek.BiC, new: ek.View, old: Sequence[ek.View]) -> Tensor:
        trained.update(*(ids(one.x) for one in (new, *old)))
        return loss(self, new, old)

    def spied_query(self: ek.BiC, old: Sequence[ek.View]) -> Tensor:
        trained.update(*(ids(one.x) for one in old))
        return query_loss(self, old)

    monkeypatch.setattr(ek.BiC, "loss", spied)
    monkeypatch.setattr(ek.BiC, "query_loss", spied_query)
    cba = ek.CBA(hidden=(8,), every=1) if adaptor == "cba" else None
    one = plain_learner(ek.BiC(held_out=0.25), adaptor=cba)
    assert one.memory.held is not None
    total, records = 0, []
    for place in range(60):
        first = 2 * (place // 20)
        records.append(one.learn(*numbered([first, first + 1, first, first + 1, first], total)))
        total += 5
        if len(one.memory.held):
            held.update(ids(one.memory.held.column("x")))
        kept.update(ids(one.memory.column("x")))
        if place % 20 == 19:
            one.boundary()
    assert held
    assert not held & trained
    assert not held & kept
    assert len(trained) + one.memory.held.seen == total  # each is in one of the two
    assert one.memory.seen == len(trained)
    assert records[-1].seen == total
    assert records[-1].stored == len(one.memory) + len(one.memory.held)
    if adaptor == "cba":
        assert any(record.outer_loss is not None for record in records)


def balanced_counts(y: Tensor, classes: int, slots: int) -> bool:
    counts: list[int] = y.bincount(minlength=classes).tolist()
    return sum(counts) == slots and max(counts) - min(counts) <= 1


def test_the_part_held_out_is_balanced_and_within_its_share() -> None:
    one = plain_learner(ek.BiC(held_out=0.2), memory=50)
    held = one.memory.held
    assert held is not None
    for place in range(60):
        first = 2 * (place // 20)
        y = [first] * 8 + [first + 1] * 2  # a rare class
        one.learn(*numbered(y, 10 * place))
        assert len(held) <= 10
        assert len(one.memory) <= 40
        if place % 20 == 19:
            one.boundary()
            assert balanced_counts(held.column("y"), first + 2, 10)
            assert held.policy == "balanced"


@pytest.mark.parametrize("capacity", ["2KB", "4000B", "1.5 KiB"])
def test_the_part_held_out_takes_its_share_of_the_bytes(capacity: str) -> None:
    size = {"2KB": 2000, "4000B": 4000, "1.5 KiB": 1536}[capacity]
    one = plain_learner(ek.BiC(held_out=0.2), memory=capacity)
    held = one.memory.held
    assert held is not None
    for place in range(60):
        first = 2 * (place // 30)
        one.learn(*numbered([first, first + 1] * 4, 8 * place))
    row = FEATURES * 8 + 3 * 8
    assert held.nbytes <= 0.2 * size
    assert one.memory.nbytes <= size
    assert len(held) == int(0.2 * size) // row
    assert len(one.memory) == (size - int(0.2 * size)) // row
    assert balanced_counts(held.column("y"), 4, len(held))


def test_a_memory_in_bytes_never_takes_more() -> None:
    one = plain_learner(ek.BiC(held_out=0.1), memory="250B")
    with suppress(ek.InputError):  # to refuse it would do as well
        for place in range(20):
            one.learn(*numbered([0, 1] * 4, 8 * place))
    assert one.memory.nbytes <= 250


def test_the_share_held_out_is_the_one_asked_for() -> None:
    memory = ek.Memory(100, held_out=0.3)
    y = torch.arange(20000) % 4
    known = y != 0
    memory.insert({"x": torch.zeros(3, 2), "y": torch.tensor([1, 2, 3])}, seeded())
    x = torch.arange(20000)[:, None].float()
    apart = memory.choose_held_out(x, y, seeded(1))
    assert not bool(apart[~known].any())
    assert stats.binomtest(int(apart[known].sum()), 15000, 0.3).pvalue > 1e-4
    assert torch.equal(memory.choose_held_out(x, y, seeded(2)), apart)  # the same samples, whenever they come again
    memory.insert({"x": torch.zeros(1, 2), "y": torch.tensor([0])}, seeded())
    assert torch.equal(memory.choose_held_out(x, y, seeded(3)), apart)  # also those spared when their class was new
    new = memory.choose_held_out(x + 20000, y, seeded(3))
    assert stats.binomtest(int(new.sum()), 20000, 0.3).pvalue > 1e-4
    assert not bool(ek.Memory(100).choose_held_out(x, y, seeded(1)).any())

    one = plain_learner(ek.BiC(), memory=50)
    one.learn(*numbered([0, 1], 0))
    for place in range(60):
        one.learn(*numbered([0, 1] * 12, 2 + 24 * place))
    assert one.memory.held is not None
    assert stats.binomtest(one.memory.held.seen, 60 * 24, 0.1).pvalue > 1e-4
    assert stats.binomtest(one.memory.held.seen, 60 * 24, 0.15).pvalue < 1e-4  # it could have failed


@pytest.mark.parametrize(
    "fixed",
    [False, True],
)
def test_no_sample_is_held_out_of_the_first_batch_with_its_class(fixed: bool) -> None:
    classes = list(range(6)) if fixed else None
    one = plain_learner(ek.BiC(held_out=0.9), net=smooth_net(6), classes=classes)
    held = one.memory.held
    assert held is not None
    for place, y in enumerate([[0, 0, 0, 1], [2, 2], [3, 0, 1, 4, 4], [5]]):
        x, _ = numbered(y, 10 * place)
        before = one.memory.seen
        record = one.learn(x, y)
        firsts = {0: 4, 1: 2, 2: 3, 3: 1}[place]  # samples of classes that come for the first time
        assert record.updates == 1
        assert one.memory.seen - before >= firsts
        if len(held):
            assert not set(ids(held.column("x"))) & {0, 1, 2, 3, 10, 11, 20, 23, 24, 30}


def test_a_batch_held_out_as_a_whole_makes_no_update() -> None:
    one = plain_learner(ek.BiC(held_out=0.9), adaptor=ek.CBA(every=1))
    one.learn(*numbered([0, 1], 0))
    held = one.memory.held
    assert held is not None
    whole = 0
    for place in range(2, 12):
        before, kept = snapshot(one), len(held)
        record = one.learn(*numbered([place % 2], place))
        assert (record.step, record.samples) == (place, 1)
        if record.updates:
            assert record.loss is not None
            continue
        whole += 1
        assert (record.loss, record.outer_loss, record.replayed) == (None, None, 0)
        assert len(held) == kept + 1 or len(held) == held.slots
        changed = differences(before, snapshot(one))
        assert [path for path in changed if "/held/" not in path and "streams/memory" not in path] == ["/0/step"]
    assert 0 < whole < 10


def test_forgetting_a_key_finds_what_is_held_out() -> None:
    one = plain_learner(ek.BiC(held_out=0.4))
    held = one.memory.held
    assert held is not None
    one.learn(*numbered([0, 1], 0))
    one.learn(*numbered([0, 1] * 5, 2), key="a")
    one.learn(*numbered([0, 1] * 5, 12), key="b")
    mine = [part.column("x") for part in one.memory.parts]
    counts = [sum(2 <= number < 12 for number in ids(x)) for x in mine]
    assert all(counts)
    assert one.forget("a") == sum(counts) == 10
    left = [number for part in one.memory.parts for number in ids(part.column("x"))]
    assert sorted(left) == [0, 1, *range(12, 22)]
    assert one.forget("a") == 0


def test_a_memory_that_holds_out_another_share_is_refused() -> None:
    with pytest.raises(
        ek.SettingsError, match=r"holds out 0.1 of its memory, but .* 0.0; give Memory\(..., held_out=0.1\)"
    ):
        plain_learner(ek.BiC(), memory=ek.Memory(50, policy="balanced"))
    with pytest.raises(ek.SettingsError, match=r"holds out 0.0 of its memory, but .* 0.2"):
        plain_learner(ek.ER(), memory=ek.Memory(50, held_out=0.2))
    assert plain_learner(ek.BiC(), memory=ek.Memory(50, held_out=0.1)).memory.policy == "reservoir"
    with pytest.raises(ek.SettingsError, match="leaves no sample to train on"):
        plain_learner(ek.BiC(held_out=0.9), memory=1)
    with pytest.raises(ek.SettingsError, match="held_out=0: BiC has nothing to fit"):
        ek.BiC(held_out=0)
    with pytest.raises(ek.SettingsError, match=r"held_out=1\.5 must be a number from 0 to below 1"):
        ek.BiC(held_out=1.5)


# ---- BiC: the correction ----


def slow_fit(logits: Tensor, y: Tensor, which: Sequence[bool], seen: Sequence[bool]) -> tuple[float, float]:
    """Damped Newton steps on mean cross-entropy plus the ridge, with derivatives by hand."""
    mine = [output for output, chosen in enumerate(which) if chosen]
    known = [output for output, met in enumerate(seen) if met]

    def loss(a: float, b: float) -> float:
        total = bic.RIDGE * ((a - 1) ** 2 + b**2)
        for row, label in zip(logits.tolist(), y.tolist(), strict=True):
            z = [a * v + b if output in mine else v for output, v in enumerate(row)]
            total += (math.log(sum(math.exp(z[k]) for k in known)) - z[label]) / len(y)
        return total

    a, b = 1.0, 0.0
    for _ in range(30):
        ga, gb = 2 * bic.RIDGE * (a - 1), 2 * bic.RIDGE * b
        haa, hab, hbb = 2 * bic.RIDGE, 0.0, 2 * bic.RIDGE
        for row, label in zip(logits.tolist(), y.tolist(), strict=True):
            weight = {k: math.exp(a * row[k] + b if k in mine else row[k]) for k in known}
            p = {k: weight[k] / sum(weight.values()) for k in known}
            share, mean = sum(p[k] for k in mine), sum(p[k] * row[k] for k in mine)
            ga += (mean - (row[label] if label in mine else 0.0)) / len(y)
            gb += (share - (1.0 if label in mine else 0.0)) / len(y)
            haa += (sum(p[k] * row[k] ** 2 for k in mine) - mean**2) / len(y)
            hab += (mean - mean * share) / len(y)
            hbb += (share - share**2) / len(y)
        determinant = haa * hbb - hab**2
        da, db, step = (hbb * ga - hab * gb) / determinant, (haa * gb - hab * ga) / determinant, 1.0
        while step > 1e-9 and loss(a - step * da, b - step * db) > loss(a, b):
            step /= 2
        a, b = a - step * da, b - step * db
    return a, b


@pytest.mark.parametrize("seed", range(4))
def test_the_fit_has_the_lowest_cross_entropy(seed: int) -> None:
    logits, y = 2 * random(30, 5, seed=seed), torch.arange(30) % 4
    logits[:, 2:] += 1.5 * seed
    which = torch.tensor([False, False, True, True, False])
    masked = logits.masked_fill(torch.tensor([False] * 4 + [True]), torch.finfo(torch.float64).min)
    scale, shift = bic.fitted(masked, y, which)
    expected = slow_fit(logits, y, which.tolist(), [True] * 4 + [False])
    assert (float(scale), float(shift)) == pytest.approx(expected, abs=2e-4)
    assert abs(expected[0] - 1) > 0.05


def biased_net(outputs: int, bias: float) -> ek.Net:
    """Tells classes by the largest input; outputs from the third on are favoured."""
    head = nn.Linear(6, outputs)
    with torch.no_grad():
        head.weight.copy_(4 * torch.eye(6)[:outputs])
        head.bias.copy_(torch.tensor([0.0, 0.0, bias, bias, bias / 2, bias / 2])[:outputs])
    return ek.Net(nn.Flatten(), head).double()


def one_hot(y: Sequence[int], seed: int) -> Labelled:
    return F.one_hot(torch.tensor(y), 6).double() + 0.2 * random(len(y), 6, seed=seed), list(y)


def learn_task(one: ek.Learner, first: int) -> None:
    """Classes `first` and `first` + 1; where the head grew for them, its new rows are put in by hand."""
    for place in range(12):
        one.learn(*one_hot([first, first + 1] * 3, seed=50 * first + place))
    if isinstance(one.net.head, GrowingHead):
        part, whole = one.net.head.parts[first // 2], biased_net(6, bias=6.0).head
        with torch.no_grad():
            for name in ("weight", "bias"):
                part.get_parameter(name)[:2] = whole.get_parameter(name)[first : first + 2]


@pytest.mark.parametrize("fixed", [True, False], ids=["all-outputs", "growing"])
def test_the_correction_takes_the_bias_back_and_stays(fixed: bool) -> None:
    """The net never moves (lr = 0), so that all that changes is the correction."""
    one = plain_learner(
        ek.BiC(held_out=0.3), net=biased_net(6 if fixed else 2, bias=6.0), memory=100, optimizer=partial(SGD, lr=0.0)
    )
    method = one.method
    assert isinstance(method, ek.BiC)
    assert one.memory.held is not None

    def accuracy(classes: int) -> float:
        x, y = one_hot(list(range(classes)) * 20, seed=7)
        return float(np.mean(one.predict(x) == np.array(y)))

    learn_task(one, 0)
    assert len(one.memory.held) > 0
    one.boundary()
    assert method.scale.eq(1).all()
    assert method.shift.eq(0).all()
    learn_task(one, 2)
    assert accuracy(4) <= 0.6
    assert method.scale.eq(1).all()
    net_logits = in_eval(one.net)
    held = one.memory.held.samples()
    seen = [True] * 4 + [False] * (one.net.outputs - 4)
    which = [False, False, True, True] + [False] * (one.net.outputs - 4)
    expected = slow_fit(net_logits(held.x).detach(), held.y, which, seen)
    one.boundary()
    assert float(method.scale[2]) == pytest.approx(expected[0], abs=2e-4)
    assert float(method.shift[2]) == pytest.approx(expected[1], abs=2e-4)
    assert method.scale[2:4].unique().numel() == method.shift[2:4].unique().numel() == 1
    assert method.scale[:2].eq(1).all()
    assert method.scale[4:].eq(1).all()
    assert method.shift[[0, 1, *range(4, one.net.outputs)]].eq(0).all()
    assert float(method.shift[2]) < -1
    assert accuracy(4) > 0.9
    x, _ = one_hot([0, 1, 2, 3], seed=8)
    by_hand = net_logits(x).detach() * method.scale + method.shift
    assert torch.allclose(one.logits(x), by_hand, rtol=1e-12)

    kept = method.scale[:4].clone(), method.shift[:4].clone()
    learn_task(one, 4)
    assert torch.equal(method.scale[:4], kept[0])
    assert method.scale[4:].eq(1).all()
    by_hand = in_eval(one.net)(x).detach() * method.scale + method.shift
    assert torch.allclose(one.logits(x), by_hand, rtol=1e-12)  # between boundaries too
    one.boundary()
    assert torch.equal(method.scale[:4], kept[0])
    assert torch.equal(method.shift[:4], kept[1])
    assert float(method.shift[4]) != 0
    assert float(method.shift[4]) == float(method.shift[5])
    assert accuracy(6) > 0.9


def test_the_fit_sees_what_is_held_out_as_a_prediction_would() -> None:
    """By running statistics, which do not move, and normalised."""
    one = small_learner(ek.BiC(held_out=0.3), memory=60)
    method, held = one.method, one.memory.held
    assert isinstance(method, ek.BiC)
    assert held is not None
    for first in (0, 2):
        one.boundary()
        for seed in range(8):
            one.learn(*points([first, first + 1] * 3, 10 * first + seed))
    x = one._inputs.to_network(held.column("x").clone())
    which, seen = [False, False, True, True] + [False] * 3, [True] * 4 + [False] * 3
    expected = slow_fit(in_eval(one.net)(x).detach(), held.column("y"), which, seen)
    before = copy.deepcopy(one.net.state_dict())
    one.boundary()
    assert (float(method.scale[2]), float(method.shift[2])) == pytest.approx(expected, abs=2e-4)
    assert all(torch.equal(value, before[name]) for name, value in one.net.state_dict().items())
    assert one.net.training


def test_a_task_without_a_new_class_fits_nothing() -> None:
    one = plain_learner(ek.BiC(held_out=0.3), net=biased_net(6, bias=6.0), optimizer=partial(SGD, lr=0.0))
    assert isinstance(one.method, ek.BiC)
    for first in (0, 2, 0):
        learn_task(one, first)
        before = torch.stack([one.method.scale, one.method.shift])
        one.boundary()
        after = torch.stack([one.method.scale, one.method.shift])
    assert torch.equal(after, before)
    assert float(after[1, 2]) < -1


# ---- ER-ACE that waits for a boundary ----


def test_er_ace_without_task_free_begins_with_the_second_task(tmp_path: Path) -> None:
    one = small_learner(ek.ERACE(task_free=False))
    assert isinstance(one.method, ek.ERACE)
    assert one.method.needs_boundaries
    assert not ek.ERACE().needs_boundaries
    one.boundary()  # nothing ended
    assert one.method.draws == 0
    for seed, y in enumerate([[0, 1, 0, 1], [1, 2, 1, 2], [0, 2, 0, 2]]):
        new = view(y, seed)
        assert not bool(one.method.masked(new).any())
        assert one.method.loss(new, []).item() == pytest.approx(reference_ce(new.adapted, new.y), rel=1e-12)
        record = one.learn(*points(y, seed))
        assert record.replayed == 0
    assert len(one.memory) == 12  # stored all the same
    one.boundary()
    assert one.method.draws == 1
    new = view([3, 4, 1], seed=9)
    assert one.method.masked(new).tolist() == [True, False, True, False, False, False, False]

    free = small_learner(ek.ERACE())
    assert isinstance(free.method, ek.ERACE)
    assert free.method.draws == 1
    free.net.load_state_dict(one.net.state_dict())
    free.method.seen.copy_(one.method.seen)
    free.memory.load_state_dict(one.memory.state_dict())
    free._generators.load_state_dict(one._generators.state_dict())
    free.labels.add([0, 1, 2])
    one.save(tmp_path / "learner")
    again = ek.Learner.load(tmp_path / "learner", net=smooth_net())
    assert again.method.draws == 1
    for seed, y in enumerate([[3, 4, 3], [4, 3, 1], [5, 5, 4]]):
        records = [each.learn(*points(y, 20 + seed)) for each in (one, free, again)]
        assert [replace(record, step=0) for record in records[1:]] == [replace(records[0], step=0)] * 2
        assert records[0].replayed == 6
    for name, value in one.net.state_dict().items():
        assert torch.equal(value, free.net.state_dict()[name])
        assert torch.equal(value, again.net.state_dict()[name])


@pytest.mark.parametrize("wrapped", [False, True])
def test_er_aces_draws_survive_a_checkpoint(wrapped: bool, tmp_path: Path) -> None:
    def make() -> ek.Method:
        method = ek.ERACE(task_free=False)
        return ek.RAR(method, repeats=2) if wrapped else method

    one = small_learner(make())
    for draws in (0, 1):
        one.learn(*points([0, 1, 0, 1], draws))
        if draws:
            one.boundary()
        one.save(tmp_path / "learner")
        again = ek.Learner.load(tmp_path / "learner", net=smooth_net())
        assert one.method.draws == again.method.draws == draws
        assert again.learn(*points([2, 3, 2], 5)).replayed == 6 * draws * again.method.repeats


# ---- bounds, and what cannot be combined ----


@pytest.mark.parametrize("make", [ek.Finetune, ek.Joint], ids=["finetune", "joint"])
def test_a_bound_is_plain_sgd_and_keeps_nothing(make: Callable[[], ek.Method]) -> None:
    one, twin = plain_learner(make(), net=smooth_net()), smooth_net()
    optimizer = SGD(twin.parameters(), lr=0.1)
    for place in range(6):
        first = 2 * (place // 2)
        x, y = points([first, first + 1, first, first + 1], place)
        loss = F.cross_entropy(twin(x), torch.tensor(y))
        record = one.learn(x, y)
        assert record.loss == pytest.approx(loss.item(), rel=1e-12)
        assert (record.stored, record.seen, record.replayed, len(one.memory), one.memory.nbytes) == (0, 0, 0, 0, 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        one.boundary()
    assert_close([weight.detach() for weight in one.net.parameters()], list(twin.parameters()), 1e-12)


@pytest.mark.parametrize(
    "make",
    [
        ek.ICaRL,
        ek.Finetune,
        ek.Joint,
        partial(ek.RAR, ek.Finetune(), repeats=2),
        partial(ek.RAR, ek.ICaRL(), repeats=2),
    ],
    ids=["icarl", "finetune", "joint", "rar-finetune", "rar-icarl"],
)
def test_where_an_adaptor_makes_no_sense_it_is_refused_with_the_reason(make: Callable[[], ek.Method]) -> None:
    method = make()
    assert method.no_adaptor
    with pytest.raises(ek.SettingsError, match=f"cannot be combined with an adaptor: {method.no_adaptor}"):
        small_learner(method, adaptor=ek.CBA())


def test_titles_and_bounds() -> None:
    assert (ek.Finetune().bound, ek.Joint().bound, ek.ER().bound) == ("lower", "upper", "")
    assert (ek.Joint().mixed_passes, ek.Joint(epochs=4).mixed_passes, ek.Finetune().mixed_passes) == (1, 4, 0)
    assert ek.Joint(epochs=4).title == "Joint, 4 passes (upper bound)"
    with pytest.raises(ek.SettingsError, match="epochs=0 must be a whole number of at least 1"):
        ek.Joint(epochs=0)


# ---- CBA with these methods: the outer gradient of omega by an explicit virtual step ----


@dataclass(frozen=True)
class Virtual:
    """What the training loss of a virtual step is made of, with graphs to the head and to omega."""

    method: ek.Method
    groups: Sequence[Group]
    logits: Sequence[Tensor]
    adapted: Sequence[Tensor]
    scale: Tensor  # of a cosine head; else the bias

    @property
    def joined(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Plain and adapted logits, labels, the teacher's word, of all groups."""
        y, told = [group.y for group in self.groups], [group.stored["teacher"] for group in self.groups]
        return torch.cat([*self.logits]), torch.cat([*self.adapted]), torch.cat(y), torch.cat(told)


def ce(rows: Tensor, y: Tensor, allowed: Callable[[int], Sequence[int]]) -> Tensor:
    """Mean, each sample over the outputs that are allowed for its label."""
    terms = [row[list(allowed(label))].logsumexp(0) - row[label] for row, label in zip(rows, y.tolist(), strict=True)]
    return torch.stack(terms).mean()


def kl(rows: Tensor, told: Tensor, outputs: Sequence[int], temperature: float) -> Tensor:
    p, q = (values[:, list(outputs)].div(temperature).softmax(1) for values in (told, rows))
    return (p * (p.log() - q.log())).sum() / len(rows)


def lucir_loss(virtual: Virtual) -> Tensor:
    """Without what keeps the features in place: it says nothing of the head."""
    logits, adapted, y, _ = virtual.joined
    pairs = [
        (0.5 - row[label] + rival).relu()
        for row, label in zip(logits / virtual.scale, y.tolist(), strict=True)
        if label in (0, 1)
        for rival in row[[2, 3]]
    ]
    return ce(adapted, y, lambda _: range(5)) + torch.stack(pairs).mean()


def bic_loss(virtual: Virtual) -> Tensor:
    logits, adapted, y, told = virtual.joined
    assert isinstance(virtual.method, ek.BiC)
    shown, plain = (rows * virtual.method.scale + virtual.method.shift for rows in (adapted, logits))
    return 0.5 * ce(shown, y, lambda _: range(4)) + 0.5 * kl(plain, told, (0, 1), 2.0)


def ss_il_loss(virtual: Virtual) -> Tensor:
    logits, adapted, y, told = virtual.joined
    return ce(adapted, y, lambda label: (0, 1) if label < 2 else (2, 3)) + 4.0 * kl(logits, told, (0, 1), 2.0)


def er_ace_loss(virtual: Virtual) -> Tensor:
    new, old = virtual.groups
    return ce(virtual.adapted[0], new.y, lambda _: (2, 3, 4)) + ce(virtual.adapted[1], old.y, lambda _: range(5))


TorchLoss = Callable[[Virtual], Tensor]
COMBINED: dict[str, tuple[Callable[[], ek.Method], TorchLoss]] = {
    "lucir": (ek.LUCIR, lucir_loss),
    "bic": (ek.BiC, bic_loss),
    "ss_il": (ek.SSIL, ss_il_loss),
    "er_ace": (ek.ERACE, er_ace_loss),
    "er_ace-boundaries": (partial(ek.ERACE, task_free=False), er_ace_loss),
}


def slow_outer_gradient(
    method: ek.Method, training_loss: TorchLoss, update: Update, cba: ek.CBA
) -> tuple[Tensor, list[Tensor]]:
    """The whole procedure anew, on copies of the network: virtual step of the head, then the loss on the query."""
    omega, reference = leaves(update.omega), Reference("er", cba.input == "probabilities", cba.through)
    fixed = torch.tensor([isinstance(method, ek.LUCIR), isinstance(method, ek.LUCIR), False, False, False])

    def logits_of(h: Tensor, weights: Sequence[Tensor]) -> Tensor:
        if not isinstance(method, ek.LUCIR):
            return F.linear(h, weights[0], weights[1])
        rows = torch.where(fixed[:, None], weights[0].detach(), weights[0])
        cosines = F.linear(h / h.norm(dim=1, keepdim=True), rows / rows.norm(dim=1, keepdim=True))
        return weights[1] * cosines

    weights = leaves(list(update.net.head.parameters()))
    twin = copy.deepcopy(update.net).train()
    sizes = [len(group.y) for group in update.groups]
    if method.joint_forward:
        features = list(twin.backbone(torch.cat([group.x for group in update.groups])).detach().split(sizes))
    else:
        features = [twin.backbone(group.x).detach() for group in update.groups]
    logits = [logits_of(h, weights) for h in features]
    adapted = [reference.adapted(f, omega) for f in logits]
    loss = training_loss(Virtual(method, update.groups, logits, adapted, weights[1]))
    gradients = torch.autograd.grad(loss, weights, create_graph=True)
    steps = zip(update.sgd, weights, gradients, strict=True)
    moved = [rule.move(weight.detach(), gradient) for rule, weight, gradient in steps]
    (query,) = update.query
    plain = logits_of(copy.deepcopy(update.net).train().backbone(query.x).detach(), moved)
    if isinstance(method, ek.BiC):
        plain = plain * method.scale + method.shift
    outer = ce(plain, query.y, lambda _: range(5))
    return outer.detach(), list(torch.autograd.grad(outer, omega))


@pytest.mark.parametrize("through", [False, True], ids=["constant", "through"])
@pytest.mark.parametrize("name", COMBINED)
def test_outer_gradient_in_the_second_task(name: str, through: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    make, training_loss = COMBINED[name]
    cba = ek.CBA(every=1, through=through)
    one = second_task(make(), cba, lambda net: SGD(net.parameters(), lr=0.1)) if name != "lucir" else lucir_second(cba)
    one.boundary()
    method = one.method
    if isinstance(method, ek.BiC):
        method.scale, method.shift = random(5, seed=1).exp(), random(5, seed=2)
    one.learn(*batch((2, 3), 3))
    updates = watch(one, monkeypatch)
    one.learn(*batch((2, 3), 4))
    (update,) = updates
    assert sorted({*update.groups[1].y.tolist()}) != [2, 3]  # old classes are among those replayed
    loss, gradient = slow_outer_gradient(method, training_loss, update, cba)
    assert update.outer_loss == pytest.approx(float(loss), rel=1e-12)
    assert_close(update.gradient, gradient, 1e-10)


def lucir_second(cba: ek.CBA) -> ek.Learner:
    """As second_task, with momentum and weight decay, over a cosine head."""

    def optimizer(net: ek.Net) -> SGD:
        net.make_cosine()
        return OPTIMIZERS["momentum-decay"](net)

    return second_task(ek.LUCIR(), cba, optimizer)


# ---- the order of the upper bound ----


def entries(plan: Plan) -> list[tuple[int, int]]:
    """(sample, task it is of), in order of arrival."""
    return [
        (sample, home)
        for task in plan.tasks
        for sample, home in zip(torch.cat(task.passes).tolist(), torch.cat(task.homes).tolist(), strict=True)
    ]


@pytest.mark.parametrize("repeat", [True, False])
@pytest.mark.parametrize("passes", [1, 3])
def test_mixed_has_every_sample_of_every_task_so_many_times(passes: int, repeat: bool) -> None:
    plan = rotated(torch.arange(50) % 5, tasks=4, repeat=repeat, seed=2)
    own = [(sample, home) for home, task in enumerate(plan.tasks) for sample in task.passes[0].tolist()]
    made = mixed(plan, passes=passes, seed=3)
    found = entries(made)
    assert Counter(found) == dict.fromkeys(own, passes)
    one_pass = [found[start : start + len(own)] for start in range(0, len(found), len(own))]
    assert len(one_pass) == passes
    assert all(sorted(each) == sorted(own) for each in one_pass)  # pass after pass, not all at once
    assert len({tuple(each) for each in [own, *one_pass]}) == passes + 1
    sizes = [sum(map(len, task.passes)) for task in made.tasks]
    assert max(sizes) - min(sizes) <= 1
    assert not made.boundaries
    assert [(task.name, task.classes, task.domain) for task in made.tasks] == [
        (task.name, task.classes, task.domain) for task in plan.tasks
    ]
    assert entries(mixed(plan, passes=passes, seed=3)) == found
    assert entries(mixed(plan, passes=passes, seed=4)) != found
    if passes > 1:
        assert entries(mixed(plan, passes=1, seed=3)) == one_pass[0]


def test_mixed_takes_a_plan_of_several_epochs_once() -> None:
    plan = offline(torch.arange(40) % 4, tasks=[[0, 1], [2, 3]], epochs=3)
    assert sorted(sample for sample, _ in entries(mixed(plan, passes=2))) == sorted([*range(40)] * 2)


def test_a_sample_keeps_its_domain_where_tasks_are_mixed() -> None:
    generator = np.random.default_rng(0)
    split = Split(generator.integers(0, 256, (60, 1, 4, 4), dtype=np.uint8), np.arange(60, dtype=np.int64) % 3)
    plan = mixed(rotated(split.y, tasks=3, degrees=90.0), passes=2, seed=1)
    stream = PlannedStream(split, plan, ["a", "b", "c"], batch=7, drop_last=False)
    found = entries(plan)
    arrived = [(x, label) for one in stream.batches() for x, label in zip(one.x, one.labels, strict=True)]
    assert len(arrived) == len(found) == 360
    for (x, label), (sample, home) in zip(arrived, found, strict=True):
        turned = np.rot90(split.x[sample, 0], home)
        assert np.array_equal(x[0].numpy(), turned)
        assert label == "abc"[int(split.y[sample])]


def test_mixed_is_identically_distributed_over_the_parts() -> None:
    """Over seeds each sample is in each part, and at each place of it, equally often, whatever task it is of."""
    plan = offline(torch.arange(12) // 4, tasks=[[0], [1], [2]], epochs=1)
    lines = [[sample for sample, _ in entries(mixed(plan, passes=1, seed=seed))] for seed in range(300)]
    for sample in (0, 5, 11):
        places = [line.index(sample) for line in lines]
        assert stats.chisquare(np.bincount(np.array(places) // 4, minlength=3)).pvalue > 1e-4
        assert stats.chisquare(np.bincount(places, minlength=12)).pvalue > 1e-4
    neighbours = [line.index(0) // 4 == line.index(1) // 4 for line in lines]  # of one task, and no closer for that
    assert stats.binomtest(sum(neighbours), 300, 3 / 11).pvalue > 1e-4


# ---- stop and go on ----

RESUMED: dict[str, Callable[[], ek.Method]] = {
    **TEACHERS,
    "bic-half": partial(ek.BiC, held_out=0.5),
    "er_ace": partial(ek.ERACE, task_free=False),
    "finetune": ek.Finetune,
    "rar-lucir": lambda: ek.RAR(ek.LUCIR(epochs=2), repeats=2),
}
PAIRS = [(name, "none") for name in RESUMED] + [(name, "cba") for name in ("lucir", "bic", "ss_il", "er_ace")]
CHANGE = 4  # the first batch of the second task


@pytest.mark.parametrize(("method", "adaptor"), PAIRS)
def test_resume_at_a_boundary_and_after_it(method: str, adaptor: str, tmp_path: Path) -> None:
    """The boundary is where the tasks change and the head grows, and another one is at the end."""
    stream = images(batches=2 * CHANGE)

    def new() -> ek.Learner:
        return image_learner(RESUMED[method](), ADAPTORS[adaptor](), outputs=2, memory=20)

    def go_on(one: ek.Learner, start: int, stop: int = len(stream), *, told: bool = False) -> list[ek.StepRecord]:
        records = []
        for place in range(start, stop):
            if place == CHANGE and not told:
                assert one.net.outputs == 2
                one.boundary()
            records += learn_all(one, stream[place : place + 1])
        if stop == len(stream):
            assert one.net.outputs == 4
            one.boundary()
        return records

    straight = new()
    records = go_on(straight, 0)
    for cut, told in ((CHANGE, False), (CHANGE, True), (CHANGE + 2, True)):
        first = new()
        go_on(first, 0, cut)
        if told and cut == CHANGE:
            first.boundary()
        first.save(tmp_path / "learner")
        second = ek.Learner.load(tmp_path / "learner")
        assert differences(snapshot(first), snapshot(second)) == []
        assert go_on(second, cut, told=told) == records[cut:]
        assert differences(snapshot(straight), snapshot(second)) == []
        assert np.array_equal(second.predict_proba(stream[0][0]), straight.predict_proba(stream[0][0]))


def test_boundaries_need_no_gradient_mode_and_leave_the_global_generator_alone() -> None:
    """Fits and fine-tuning turn gradients on themselves, and draw from the method's own generator."""
    for make in TEACHERS.values():
        ones = [small_learner(make()) for _ in range(2)]
        for one, quiet in zip(ones, (False, True), strict=True):
            for first in (0, 2):
                for seed in range(8):
                    one.learn(*points([first, first + 1] * 3, seed))
                before = torch.get_rng_state()
                if quiet:
                    with torch.no_grad():
                        one.boundary()
                else:
                    one.boundary()
                assert torch.equal(before, torch.get_rng_state())
        assert differences(*map(snapshot, ones)) == []


def test_held_out_samples_are_not_trained_on_in_a_later_pass_either() -> None:
    one = plain_learner(ek.BiC(held_out=0.3), memory=30, net=smooth_net(6), classes=list(range(6)))
    seen: set[bytes] = set()
    loss = one.method.loss

    def watched(new: View, old: Sequence[View]) -> Tensor:
        seen.update(row.numpy().tobytes() for view in (new, *old) for row in view.x)
        return loss(new, old)

    one.method.loss = watched  # type: ignore[method-assign]
    batches = [numbered([0, 1, 2] * 3, 9 * place) for place in range(20)]
    for x, y in batches * 3:
        one.learn(x, y)
    assert one.memory.held is not None
    held = [row.numpy().tobytes() for row in one.memory.held.samples().x]
    assert held
    assert not seen & set(held)


def test_features_of_nothing_are_not_imprinted() -> None:
    """Dead units: a row of zeros could never turn again."""
    net = ek.Net(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.Linear(3, 4)).double()
    with torch.no_grad():
        net.backbone[0].bias.fill_(-1e3)  # type: ignore[index]
    one = ek.Learner(net, ek.LUCIR(), memory=8, replay=4)
    rows = net.head.get_parameter("weight").detach().clone()
    one.learn(*points([0, 1], 0))
    assert torch.allclose(net.head.get_parameter("weight"), rows)
    assert isinstance(one.method, ek.LUCIR)
    assert not bool(one.method.imprinted.any())


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ek.LUCIR(scale=0), "scale=0 must be a number above 0"),
        (lambda: ek.LUCIR(scale=float("inf")), "scale=inf"),
        (lambda: ek.LUCIR(less_forget=-1.0), "less_forget=-1.0 must be a number of at least 0"),
        (lambda: ek.LUCIR(margin=float("nan")), "margin=nan"),
        (lambda: ek.LUCIR(nearest=0), "nearest=0 must be a whole number"),
        (lambda: ek.LUCIR(epochs=-1), "epochs=-1"),
        (lambda: ek.BiC(temperature=0), "temperature=0"),
        (lambda: ek.BiC(held_out=1.0), "held_out=1.0 must be a number from 0 to below 1"),
        (lambda: ek.BiC(held_out=0), "nothing to fit its correction on"),
        (lambda: ek.SSIL(temperature=-1), "temperature=-1"),
        (lambda: ek.ERACE(task_free="no"), "task_free='no' is not one of"),  # type: ignore[arg-type]
        (lambda: ek.Joint(epochs=0), "epochs=0"),
    ],
)
def test_settings_that_make_no_sense(make: Callable[[], ek.Method], sentence: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(sentence)):
        make()
