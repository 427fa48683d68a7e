"""Teachers: the net at the last boundary, queried once, preserved in checkpoints."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import evenkeel as ek
from evenkeel.learning.methods._teacher import Distilling
from evenkeel.learning.probes import differences, snapshot
from tests.helpers.comparison_methods import points, small_learner
from tests.helpers.streams import ADAPTORS, images, learn_all
from tests.helpers.streams import learner as image_learner

TEACHERS: dict[str, Callable[[], Distilling]] = {
    "icarl": ek.ICaRL,
    "lucir": ek.LUCIR,
    "bic": ek.BiC,
    "ss_il": ek.SSIL,
}


def test_defaults_are_those_of_the_papers() -> None:
    assert ek.SSIL().temperature == ek.BiC().temperature == 2.0
    lucir = ek.LUCIR()
    assert (lucir.less_forget, lucir.margin, lucir.nearest, lucir.epochs, lucir.lr) == (5.0, 0.5, 2, 20, 0.01)


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
def test_the_teacher_is_queried_once_for_each_group_as_the_net_sees_it(
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
def test_a_boundary_before_the_first_batch_ends_no_task(method: str) -> None:
    one = small_learner(TEACHERS[method]())
    assert isinstance(one.method, Distilling)
    one.boundary()
    assert int(one.method.task) == 0
    one.learn(*points([0, 1], seed=0))
    one.boundary()
    assert int(one.method.task) == 1
    assert one.method.task_of.tolist() == [0, 0, -1, -1, -1, -1, -1]


# ---- the memory policy of the method ----


def test_a_number_of_samples_gives_a_memory_with_the_policy_of_the_method() -> None:
    policies = {name: small_learner(make()).memory.policy for name, make in ek.METHODS.items()}
    balanced = {"icarl", "lucir", "bic", "ss_il", "gdumb"}
    assert policies == {name: "balanced" if name in balanced else "reservoir" for name in ek.METHODS}
    assert small_learner(ek.ICaRL(), memory=ek.Memory(40)).memory.policy == "reservoir"  # the user's choice
    memories = {name: len(small_learner(make()).memories) for name, make in ek.METHODS.items()}
    assert memories == {name: 2 if name == "bic" else 1 for name in ek.METHODS}


# ---- saving and resuming ----

RESUMED: dict[str, Callable[[], ek.Method]] = {
    **TEACHERS,
    "bic-half": partial(ek.BiC, held_out=0.5),
    "er_ace": partial(ek.ERACE, task_free=False),
    "finetune": ek.Finetune,
    "lucir-repeated": partial(ek.LUCIR, epochs=2),
}
PAIRS = [(name, "none") for name in RESUMED] + [(name, "cba") for name in ("lucir", "bic", "ss_il", "er_ace")]
CHANGE = 4  # the first batch of the second task


@pytest.mark.parametrize(("method", "adaptor"), PAIRS)
def test_resume_at_a_boundary_and_after_it(method: str, adaptor: str, tmp_path: Path) -> None:
    """The boundary is where the tasks change and the head grows, and another one is at the end."""
    stream = images(batches=2 * CHANGE)

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

    repeats = 1 + method.endswith("repeated")
    straight = image_learner(RESUMED[method](), ADAPTORS[adaptor](), outputs=2, memory=20, repeats=repeats)
    saved = dict[tuple[int, bool], dict[str, Any]]()

    def save(cut: int, told: bool) -> None:
        straight.save(tmp_path / f"{cut} {told}")
        saved[cut, told] = snapshot(straight)

    records = go_on(straight, 0, CHANGE)
    save(CHANGE, False)
    straight.boundary()
    save(CHANGE, True)
    records += go_on(straight, CHANGE, CHANGE + 2, told=True)
    save(CHANGE + 2, True)
    records += go_on(straight, CHANGE + 2, told=True)
    for (cut, told), state in saved.items():
        second = ek.Learner.load(tmp_path / f"{cut} {told}")
        assert differences(state, snapshot(second)) == []
        assert go_on(second, cut, told=told) == records[cut:]
        assert differences(snapshot(straight), snapshot(second)) == []
        assert np.array_equal(second.predict_proba(stream[0][0]), straight.predict_proba(stream[0][0]))


def test_boundaries_need_no_gradient_mode_and_leave_the_global_generator_alone() -> None:
    """Fits and fine-tuning enable gradients themselves, and draw from the method's own generator."""
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
