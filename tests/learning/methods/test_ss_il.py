"""SS-IL."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from evenkeel import (
    ERACE,
    SSIL,
    Learner,
    Memory,
)
from evenkeel.learning.methods._teacher import distillation, leave_out
from evenkeel.learning.methods.ss_il import own_side
from evenkeel.learning.types import Draw, View
from tests.helpers.methods import (
    FEATURES,
    NEW,
    OLD,
    OUTPUTS,
    having_learned,
    linear_net,
    norm_net,
    random,
    reference_ce,
    reference_kd,
    seeded,
    stream,
    teacher_logits,
    view,
)


def test_er_ace_and_ss_il_support_a_wider_head() -> None:
    """Their state of the old classes stays, and new ones are unseen."""
    ace, separated = ERACE(), SSIL()
    for method in (ace, separated):
        method.prepare(linear_net(outputs=3), seeded())
        method.remember(view([0, 1], seed=0))
        method.grow(OUTPUTS)
    assert ace.seen.tolist() == [True, True, False, False, False, False, False]
    assert separated.task_of.tolist() == [0, 0, -1, -1, -1, -1, -1]
    assert ace.masked(NEW).tolist() == [True, True, False, False, False, False, False]


def side_of(task_of: Mapping[int, int], task: int) -> Callable[[int], list[int]]:
    def allowed(label: int) -> list[int]:
        is_new = task_of[label] == task
        return [output for output, first in task_of.items() if (first == task) == is_new]

    return allowed


def test_ss_il_in_its_first_task_is_cross_entropy_over_seen_classes() -> None:
    method = having_learned(SSIL(), [0, 1, 5])
    task_of = dict.fromkeys((0, 1, 2, 3, 4, 5), 0)
    new_and_old = torch.cat([NEW.adapted, OLD[0].adapted]), torch.cat([NEW.y, OLD[0].y])
    expected = reference_ce(*new_and_old, side_of(task_of, 0))  # output 6 was never seen
    assert method.loss(NEW, OLD[:1]).item() == pytest.approx(expected, rel=1e-12)
    assert method.recall(Draw(OLD[0].x, OLD[0].y)) == {}


def test_ss_il_separates_the_softmax_and_distils_task_by_task() -> None:
    method = having_learned(SSIL(temperature=3.0), [0, 1], [2, 5], [4])
    assert isinstance(method, SSIL)
    # 2 is an old class that returns in the stream (blurry), 4 of the draw is a replayed new class.
    new = view([3, 4, 2, 3], seed=6)
    new = replace(new, stored=method.recall(Draw(new.x, new.y)))
    x, y = random(5, FEATURES, seed=90), [0, 1, 5, 4, 2]
    with torch.no_grad():
        recalled = method.recall(Draw(x, torch.tensor(y)))
    assert torch.allclose(recalled["teacher"], teacher_logits(method.teacher, x), rtol=1e-12)
    old = view(y, 7, recalled)

    task_of = {0: 0, 1: 0, 2: 1, 5: 1, 3: 2, 4: 2}
    adapted, labels = torch.cat([new.adapted, old.adapted]), torch.cat([new.y, old.y])
    expected = reference_ce(adapted, labels, side_of(task_of, 2))  # one mean over new and replayed
    logits = torch.cat([new.logits, old.logits])
    told = torch.cat([teacher_logits(method.teacher, new.x), recalled["teacher"]])
    for outputs in ([0, 1], [2, 5]):
        expected += reference_kd(logits, told, outputs, temperature=3.0)
    assert method.loss(new, [old]).item() == pytest.approx(expected, rel=1e-12)


def test_separated_softmax_sends_no_gradient_across_the_boundary() -> None:
    task_of = torch.tensor([0, 0, 1, 1, 2, 2, -1])
    logits = random(4, OUTPUTS, seed=8).requires_grad_()
    y = torch.tensor([4, 5, 0, 3])
    loss = F.cross_entropy(leave_out(logits, ~own_side(y, task_of, task=2)), y)
    (gradient,) = torch.autograd.grad(loss, logits)
    old, new, unseen = [0, 1, 2, 3], [4, 5], [6]
    assert gradient[:2, old + unseen].eq(0).all()
    assert gradient[2:, new + unseen].eq(0).all()
    assert gradient[:2, new].ne(0).all()
    assert gradient[2:, old].ne(0).all()


def test_distillation_is_zero_when_student_and_teacher_agree() -> None:
    logits = random(5, 3, seed=9).requires_grad_()
    loss = distillation(logits, logits.detach().clone(), temperature=2.0)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.item() == pytest.approx(0, abs=1e-15)
    assert gradient.abs().max().item() < 1e-15
    assert distillation(logits, logits.detach() * 2, temperature=2.0).item() > 1e-3
    shifted = distillation(logits, logits.detach() + 5, temperature=2.0)  # the same probabilities
    assert shifted.item() == pytest.approx(0, abs=1e-15)


def test_ss_il_distils_nothing_right_after_a_boundary() -> None:
    """The teacher equals the net then, so only the separated cross-entropy is left."""
    net, method = linear_net(), SSIL()
    method.prepare(net, seeded())
    method.remember(view([0, 1], seed=0))
    method.boundary(net, Memory(3))

    def seen(y: list[int], seed: int) -> View:
        x = random(len(y), FEATURES, seed=seed)
        stored = method.recall(Draw(x, torch.tensor(y)))
        return View(x, torch.tensor(y), stored, x, net(x), net(x), net(x))

    new, old = seen([2, 3], seed=1), seen([0, 1, 1], seed=2)
    both = torch.cat([new.logits, old.logits]), torch.cat([new.y, old.y])
    expected = reference_ce(*both, side_of({0: 0, 1: 0, 2: 1, 3: 1}, 1))
    assert method.loss(new, [old]).item() == pytest.approx(expected, rel=1e-12)


def test_the_teacher_of_ss_il_is_the_net_at_the_boundary() -> None:
    net, method = norm_net(), SSIL()
    learner = Learner(net, method, memory=8, replay=4)
    for x, y in stream(4):
        learner.learn(x, y)
    learner.boundary()
    at_boundary = copy.deepcopy(net.state_dict())
    for x, y in stream(4, first=4):
        learner.learn(x, y)
    for name, value in method.teacher.state_dict().items():
        assert torch.equal(value, at_boundary[name])  # running statistics included
    for name in ("head.weight", "backbone.1.running_mean"):
        assert not torch.equal(net.state_dict()[name], at_boundary[name])
