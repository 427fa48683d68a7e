"""BiC: its loss and its correction."""

import copy
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

import evenkeel as ek
from evenkeel.learning.heads import GrowingHead
from evenkeel.learning.methods import bic
from tests.helpers.comparison_methods import (
    CASES,
    Labelled,
    TaskOf,
    assert_gradient,
    having_learned,
    in_eval,
    plain_learner,
    points,
    sides,
    situation,
    small_learner,
)
from tests.helpers.methods import (
    OUTPUTS,
    random,
    reference_ce,
    reference_kd,
    teacher_logits,
    view,
)


def slow_bic(
    views: Sequence[ek.View],
    task_of: TaskOf,
    task: int,
    *,
    scale: Sequence[float],
    shift: Sequence[float],
    temperature: float = 2.0,
) -> float:
    """Return the loss; the teacher's logits are already corrected."""
    old, new = sides(task_of, task)

    def corrected(rows: Sequence[Tensor]) -> Tensor:
        every = [[s * z + b for z, s, b in zip(row, scale, shift, strict=True)] for row in torch.cat([*rows]).tolist()]
        return torch.tensor(every, dtype=torch.float64)

    y, seen = torch.cat([one.y for one in views]), list(task_of)
    offset = torch.cat([one.adapted - one.comparable for one in views]).detach()  # of a prior: it is not scaled
    loss = reference_ce(corrected([one.comparable for one in views]) + offset, y, lambda _: seen)
    if not old:
        return loss
    share = len(old) / (len(old) + len(new))
    told = torch.cat([one.stored["teacher"] for one in views])
    kept = reference_kd(corrected([one.logits for one in views]), told, old, temperature) / temperature**2
    return (1 - share) * loss + share * kept


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
    """Return a net that predicts the largest input, biased toward the outputs from the third on."""
    head = nn.Linear(6, outputs)
    with torch.no_grad():
        head.weight.copy_(4 * torch.eye(6)[:outputs])
        head.bias.copy_(torch.tensor([0.0, 0.0, bias, bias, bias / 2, bias / 2])[:outputs])
    return ek.Net(nn.Flatten(), head).double()


def one_hot(y: Sequence[int], seed: int) -> Labelled:
    return F.one_hot(torch.tensor(y), 6).double() + 0.2 * random(len(y), 6, seed=seed), list(y)


def learn_task(one: ek.Learner, first: int) -> None:
    """Learn classes `first` and `first` + 1; if the head grew for them, its new rows are set by hand."""
    for place in range(12):
        one.learn(*one_hot([first, first + 1] * 3, seed=50 * first + place))
    if isinstance(one.net.head, GrowingHead):
        part, whole = one.net.head.parts[first // 2], biased_net(6, bias=6.0).head
        with torch.no_grad():
            for name in ("weight", "bias"):
                part.get_parameter(name)[:2] = whole.get_parameter(name)[first : first + 2]


@pytest.mark.parametrize("fixed", [True, False], ids=["all-outputs", "growing"])
def test_the_correction_removes_the_bias_and_stays(fixed: bool) -> None:
    """The net never changes (lr = 0), so only the correction does."""
    one = plain_learner(
        ek.BiC(held_out=0.3), net=biased_net(6 if fixed else 2, bias=6.0), memory=100, optimizer=partial(SGD, lr=0.0)
    )
    method = one.method
    assert isinstance(method, ek.BiC)
    assert one.method.held is not None

    def accuracy(classes: int) -> float:
        x, y = one_hot(list(range(classes)) * 20, seed=7)
        return float(np.mean(one.predict(x) == np.array(y)))

    learn_task(one, 0)
    assert len(one.method.held) > 0
    one.boundary()
    assert method.scale.eq(1).all()
    assert method.shift.eq(0).all()
    learn_task(one, 2)
    assert accuracy(4) <= 0.6
    assert method.scale.eq(1).all()
    net_logits = in_eval(one.net)
    held = one.method.held.samples()
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


def test_the_fit_processes_held_out_samples_like_a_prediction() -> None:
    """It uses running statistics, which do not change, and normalised inputs."""
    one = small_learner(ek.BiC(held_out=0.3), memory=60)
    method, held = one.method, one.method.held
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
