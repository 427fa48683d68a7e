"""LUCIR."""

import copy
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

import evenkeel as ek
from evenkeel.learning.heads import cosine_parts
from evenkeel.learning.probes import differences, snapshot
from tests.helpers.comparison_methods import (
    CASES,
    TaskOf,
    assert_gradient,
    dot,
    having_learned,
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
    reference_ce,
    view,
)
from tests.helpers.outer_gradient import assert_close


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


def test_lucirs_teacher_returns_features() -> None:
    method = ek.LUCIR()
    having_learned(method, [0, 1], [2])
    x = random(5, FEATURES, seed=7)
    assert torch.equal(
        method.recall(ek.Draw(x, torch.zeros(5, dtype=torch.int64)))["teacher"], method.teacher.features(x)
    )


# ---- LUCIR ----


def test_the_margin_uses_only_the_label_and_seen_new_classes() -> None:
    """Gradients of the plain logits come only from the margin, because the cross-entropy uses the adapted ones."""
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
        return ek.View(x, torch.tensor(y), constant, x, logits, adapted, adapted)

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
    """Return the (outputs, features) rows of a cosine head, however many parts it has."""
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
    for seed in (11, 12):  # replay has 0 and 1 all the while
        assert moved([2, 3, 2, 3, 2], seed)[:4] == [False, False, True, True]
    assert moved([2, 0, 2, 3, 0], 13)[:4] == [True, False, True, True]
    assert moved([1, 3, 2, 3, 3], 14)[:4] == [False, True, True, True]  # 0 is fixed again
    one.boundary()
    moved([4, 5, 4, 5], 15)
    assert moved([4, 5, 4, 5], 16)[:6] == [False, False, False, False, True, True]
    one.boundary()
    assert moved([0, 5, 2, 3], 17)[:6] == [True] * 6  # a task without new classes: none is old


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
    """With a learning rate of zero nothing else changes a row, while running statistics, and so features, do change."""
    one = small_learner(ek.LUCIR(epochs=0), net=smooth_net(outputs), lr=0.0, repeats=repeats)

    def learn(y: list[int], seed: int, first: list[int], known: list[int]) -> None:
        """Learn a batch. `first`: the classes to be imprinted, with the mean length of the rows of those `known`."""
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
        if first:  # so that a mean of other lengths would differ
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


def test_fine_tuning_at_a_boundary_changes_only_the_head_as_documented() -> None:
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


def test_an_optimizer_over_a_linear_head_is_refused_with_a_hint() -> None:
    net = smooth_net()
    with pytest.raises(ek.SettingsError, match=r"needs a cosine head. Call net.make_cosine\(10.0\) before"):
        ek.Learner(net, ek.LUCIR(), optimizer=SGD(net.parameters(), lr=0.1))
    assert isinstance(net.head, nn.Linear)  # nothing has changed
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
    with pytest.raises(ek.DivergenceError, match="the network was rolled back"):
        one.learn(x * 1e200, y)
    changed = [path for path in differences(before, snapshot(one)) if "streams" not in path]
    assert changed == []


def test_features_of_zero_are_not_imprinted() -> None:
    """Dead units: a row of zeros could never change direction again."""
    net = ek.Net(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.Linear(3, 4)).double()
    with torch.no_grad():
        net.backbone[0].bias.fill_(-1e3)  # type: ignore[index]
    one = ek.Learner(net, ek.LUCIR(), memory=8, replay=4)
    rows = net.head.get_parameter("weight").detach().clone()
    one.learn(*points([0, 1], 0))
    assert torch.allclose(net.head.get_parameter("weight"), rows)
    assert isinstance(one.method, ek.LUCIR)
    assert not bool(one.method.imprinted.any())
