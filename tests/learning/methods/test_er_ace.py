"""ER-ACE."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import evenkeel as ek
from evenkeel import (
    ERACE,
)
from tests.helpers.comparison_methods import points, small_learner, smooth_net
from tests.helpers.methods import (
    NEW,
    OLD,
    having_learned,
    reference_ce,
    view,
)


def test_er_ace() -> None:
    method = having_learned(ERACE(), [0, 1, 5, 2])
    # Of the batch: 2, 3, 4. Seen before: 0, 1, 2, 5. Never seen: 6. So 0, 1 and 5 are left out.
    expected = reference_ce(NEW.adapted, NEW.y, lambda _: (2, 3, 4, 6)) + reference_ce(OLD[0].adapted, OLD[0].y)
    assert method.loss(NEW, OLD[:1]).item() == pytest.approx(expected, rel=1e-12)


def test_er_ace_leaves_out_the_seen_and_absent_and_nothing_else() -> None:
    method = having_learned(ERACE(), [0, 1, 4])
    assert isinstance(method, ERACE)
    new = view([1, 3], seed=4)
    assert method.masked(new).tolist() == [True, False, False, False, True, False, False]
    (gradient,) = torch.autograd.grad(method.loss(new, []), new.adapted)
    assert gradient[:, [0, 4]].eq(0).all()  # seen, absent: exactly no gradient
    assert gradient[:, [2, 5, 6]].gt(0).all()  # never seen, whether below or above the highest seen: suppressed
    assert method.masked(new).tolist() == [
        True,
        False,
        False,
        False,
        True,
        False,
        False,
    ]  # computing the mask changes nothing
    method.remember(new)
    assert method.masked(view([6], seed=5)).tolist() == [True, True, False, True, True, False, False]


def test_er_ace_masks_nothing_before_the_first_batch() -> None:
    method = having_learned(ERACE())
    assert method.loss(NEW, []).item() == pytest.approx(reference_ce(NEW.adapted, NEW.y), rel=1e-12)


# ---- ER-ACE with boundaries ----


def test_er_ace_without_task_free_starts_with_the_second_task(tmp_path: Path) -> None:
    one = small_learner(ek.ERACE(task_free=False))
    assert isinstance(one.method, ek.ERACE)
    assert one.method.needs_boundaries
    assert not ek.ERACE().needs_boundaries
    one.boundary()  # no task has ended
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


@pytest.mark.parametrize("repeats", [1, 2])
def test_er_aces_draws_survive_a_checkpoint(repeats: int, tmp_path: Path) -> None:
    one = small_learner(ek.ERACE(task_free=False), repeats=repeats)
    for draws in (0, 1):
        one.learn(*points([0, 1, 0, 1], draws))
        if draws:
            one.boundary()
        one.save(tmp_path / "learner")
        again = ek.Learner.load(tmp_path / "learner", net=smooth_net())
        assert one.method.draws == again.method.draws == draws
        assert again.learn(*points([2, 3, 2], 5)).replayed == 6 * draws * repeats
