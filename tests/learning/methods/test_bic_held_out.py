"""BiC: which samples are held out, and that they are never trained on."""

from collections.abc import Sequence
from contextlib import suppress

import pytest
import torch
from scipy import stats
from torch import Tensor

import evenkeel as ek
from evenkeel.learning.probes import differences, snapshot
from evenkeel.learning.types import View
from tests.helpers.comparison_methods import Labelled, plain_learner, points, smooth_net
from tests.helpers.methods import (
    FEATURES,
    seeded,
)

# ---- BiC: held out ----


def numbered(y: Sequence[int], start: int) -> Labelled:
    """Return samples whose first value is their own number."""
    x, labels = points(y, seed=start)
    x[:, 0] = torch.arange(start, start + len(labels), dtype=torch.float64)
    return x / 100, labels


def ids(x: Tensor) -> list[int]:
    return [round(100 * value) for value in x[:, 0].tolist()]


@pytest.mark.parametrize("adaptor", ["none", "cba"])
def test_held_out_samples_are_never_trained_on(adaptor: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert one.method.held is not None
    total, records = 0, []
    for place in range(60):
        first = 2 * (place // 20)
        records.append(one.learn(*numbered([first, first + 1, first, first + 1, first], total)))
        total += 5
        if len(one.method.held):
            held.update(ids(one.method.held.column("x")))
        kept.update(ids(one.memory.column("x")))
        if place % 20 == 19:
            one.boundary()
    assert held
    assert not held & trained
    assert not held & kept
    assert len(trained) + one.method.held.seen == total  # each is in one of the two
    assert one.memory.seen == len(trained)
    assert records[-1].seen == total
    assert records[-1].stored == len(one.memory) + len(one.method.held)
    if adaptor == "cba":
        assert any(record.outer_loss is not None for record in records)


def balanced_counts(y: Tensor, classes: int, slots: int) -> bool:
    counts: list[int] = y.bincount(minlength=classes).tolist()
    return sum(counts) == slots and max(counts) - min(counts) <= 1


def test_the_held_out_part_is_balanced_and_within_its_share() -> None:
    one = plain_learner(ek.BiC(held_out=0.2), memory=50)
    held = one.method.held
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
def test_the_held_out_part_uses_its_share_of_the_bytes(capacity: str) -> None:
    size = {"2KB": 2000, "4000B": 4000, "1.5 KiB": 1536}[capacity]
    one = plain_learner(ek.BiC(held_out=0.2), memory=capacity)
    held = one.method.held
    assert held is not None
    for place in range(60):
        first = 2 * (place // 30)
        one.learn(*numbered([first, first + 1] * 4, 8 * place))
    row = FEATURES * 8 + 3 * 8
    assert held.nbytes <= 0.2 * size
    assert sum(memory.nbytes for memory in one.memories) <= size
    assert len(held) == int(0.2 * size) // row
    assert len(one.memory) == (size - int(0.2 * size)) // row
    assert balanced_counts(held.column("y"), 4, len(held))


def test_a_memory_in_bytes_never_exceeds_its_budget() -> None:
    one = plain_learner(ek.BiC(held_out=0.1), memory="250B")
    with suppress(ek.InputError):  # refusing it is fine too
        for place in range(20):
            one.learn(*numbered([0, 1] * 4, 8 * place))
    assert sum(memory.nbytes for memory in one.memories) <= 250


def test_the_share_held_out_is_the_requested_one() -> None:
    bic, memory = ek.BiC(held_out=0.3), ek.Memory(100)
    y = torch.arange(20000) % 4
    known = y != 0
    memory.insert({"x": torch.zeros(3, 2), "y": torch.tensor([1, 2, 3])}, seeded())
    x = torch.arange(20000)[:, None].float()
    apart = bic.hold_out(x, y, memory, seeded(1))
    assert not bool(apart[~known].any())
    assert stats.binomtest(int(apart[known].sum()), 15000, 0.3).pvalue > 1e-4
    assert torch.equal(bic.hold_out(x, y, memory, seeded(2)), apart)  # the same samples whenever they return
    memory.insert({"x": torch.zeros(1, 2), "y": torch.tensor([0])}, seeded())
    assert torch.equal(bic.hold_out(x, y, memory, seeded(3)), apart)  # also those spared when their class was new
    new = bic.hold_out(x + 20000, y, memory, seeded(3))
    assert stats.binomtest(int(new.sum()), 20000, 0.3).pvalue > 1e-4
    assert not bool(ek.ER().hold_out(x, y, memory, seeded(1)).any())

    one = plain_learner(ek.BiC(), memory=50)
    one.learn(*numbered([0, 1], 0))
    for place in range(60):
        one.learn(*numbered([0, 1] * 12, 2 + 24 * place))
    assert one.method.held is not None
    assert stats.binomtest(one.method.held.seen, 60 * 24, 0.1).pvalue > 1e-4
    assert stats.binomtest(one.method.held.seen, 60 * 24, 0.15).pvalue < 1e-4  # it could have failed


@pytest.mark.parametrize(
    "fixed",
    [False, True],
)
def test_no_sample_is_held_out_of_the_first_batch_with_its_class(fixed: bool) -> None:
    classes = list(range(6)) if fixed else None
    one = plain_learner(ek.BiC(held_out=0.9), net=smooth_net(6), classes=classes)
    held = one.method.held
    assert held is not None
    for place, y in enumerate([[0, 0, 0, 1], [2, 2], [3, 0, 1, 4, 4], [5]]):
        x, _ = numbered(y, 10 * place)
        before = one.memory.seen
        record = one.learn(x, y)
        firsts = {0: 4, 1: 2, 2: 3, 3: 1}[place]  # samples of classes that appear for the first time
        assert record.updates == 1
        assert one.memory.seen - before >= firsts
        if len(held):
            assert not set(ids(held.column("x"))) & {0, 1, 2, 3, 10, 11, 20, 23, 24, 30}


def test_a_batch_held_out_as_a_whole_makes_no_update() -> None:
    one = plain_learner(ek.BiC(held_out=0.9), adaptor=ek.CBA(every=1))
    one.learn(*numbered([0, 1], 0))
    held = one.method.held
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


def test_forgetting_a_key_removes_held_out_samples_too() -> None:
    one = plain_learner(ek.BiC(held_out=0.4))
    held = one.method.held
    assert held is not None
    one.learn(*numbered([0, 1], 0))
    one.learn(*numbered([0, 1] * 5, 2), key="a")
    one.learn(*numbered([0, 1] * 5, 12), key="b")
    mine = [part.column("x") for part in one.memories]
    counts = [sum(2 <= number < 12 for number in ids(x)) for x in mine]
    assert all(counts)
    assert one.forget("a") == sum(counts) == 10
    left = [number for part in one.memories for number in ids(part.column("x"))]
    assert sorted(left) == [0, 1, *range(12, 22)]
    assert one.forget("a") == 0


@pytest.mark.parametrize("policy", ["reservoir", "balanced"])
def test_bic_takes_its_share_of_any_memory(policy: str) -> None:
    one = plain_learner(ek.BiC(held_out=0.2), memory=ek.Memory(50, policy=policy))
    assert [(memory.slots, memory.policy) for memory in one.memories] == [(40, policy), (10, "balanced")]
    assert plain_learner(ek.ER(), memory=ek.Memory(50)).memories[0].slots == 50


def test_settings_that_leave_nothing_to_train_on_or_to_fit_are_refused() -> None:
    with pytest.raises(ek.SettingsError, match="leaves no sample to train on"):
        plain_learner(ek.BiC(held_out=0.9), memory=1)
    with pytest.raises(ek.SettingsError, match="held_out=0 leaves BiC no samples to fit"):
        ek.BiC(held_out=0)
    with pytest.raises(ek.SettingsError, match=r"held_out=1\.5 must be a number from 0 to below 1"):
        ek.BiC(held_out=1.5)


def test_too_few_bytes_for_either_part_are_refused() -> None:
    one = plain_learner(ek.BiC(held_out=0.1), memory="250B")
    with pytest.raises(ek.InputError, match="memory='250B', of which 25B are held out, cannot hold one sample, which"):
        one.learn(*numbered([0, 1], 0))


def test_a_snapshot_holds_no_samples() -> None:
    one = plain_learner(ek.BiC(held_out=0.5))
    one.learn(*numbered([0, 1], 0))
    one.learn(*numbered([0, 1] * 5, 2))
    kept = one.snapshot()
    assert one.method.held is not None
    assert len(one.method.held) > 0
    assert [len(memory) for memory in (kept.memory, kept.method.held or ())] == [0, 0]


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
    assert one.method.held is not None
    held = [row.numpy().tobytes() for row in one.method.held.samples().x]
    assert held
    assert not seen & set(held)
