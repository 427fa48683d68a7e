"""The memory: which samples stay, how they are drawn, and what its state contains."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evenkeel.errors import SettingsError
from evenkeel.learning.hashing import hash_keys
from evenkeel.learning.memory import Memory
from evenkeel.learning.rng import sample_without_replacement
from tests.helpers.memory import (
    AFTER,
    BEFORE,
    CAPACITY,
    FAIR,
    GONE,
    STREAM,
    SURVIVORS,
    inclusion_p_value,
    insert_all,
    kept_in,
    positions,
    rows,
    seeded,
)

UNFAIR = 1e-6

CUTS: dict[str, Sequence[int]] = {
    "one-by-one": [1] * STREAM,
    "threes": [3, 3, 3, 1],
    "capacity": [CAPACITY, CAPACITY, 2],
    "more-than-capacity": [7, 3],
    "all-at-once": [STREAM],
    "edge-before-capacity": [CAPACITY - 1, 1, 1, 5],
    "edge-after-capacity": [CAPACITY + 1, 5],
}


def off_by_one(generator: torch.Generator) -> list[int]:
    """The classic bug: the slot is drawn from the n samples before, not from n + 1 with the new one."""
    kept: list[int] = []
    for position in range(STREAM):
        if len(kept) < CAPACITY:
            kept.append(position)
        else:
            slot = int(torch.randint(position, (), generator=generator))
            if slot < CAPACITY:
                kept[slot] = position
    return kept


# ---- reservoir: a uniform sample, however the stream is cut ----


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_every_position_of_the_stream_is_kept_equally_often(cuts: Sequence[int]) -> None:
    def sampler(generator: torch.Generator) -> list[int]:
        memory = Memory(CAPACITY)
        insert_all(memory, cuts, generator)
        return positions(memory)

    kept = kept_in(500, sampler)
    assert all(len(set(run)) == CAPACITY for run in kept)
    assert inclusion_p_value(kept, range(STREAM)) > FAIR


def test_the_chi_square_catches_the_off_by_one_reservoir() -> None:
    assert inclusion_p_value(kept_in(500, off_by_one), range(STREAM)) < UNFAIR


@pytest.mark.parametrize("cuts", [[1] * 6, [3, 3], [4, 1, 1], [6]], ids=str)
def test_every_pair_is_kept_equally_often(cuts: Sequence[int]) -> None:
    """Inclusion alone would not detect a sampler that keeps neighbours together."""

    def sampler(generator: torch.Generator) -> list[int]:
        memory = Memory(2)
        insert_all(memory, cuts, generator)
        return positions(memory)

    pairs = Counter(tuple(sorted(run)) for run in kept_in(600, sampler))
    assert stats.chisquare([pairs[pair] for pair in combinations(range(6), 2)]).pvalue > FAIR


def test_the_chi_square_over_pairs_catches_neighbours_kept_together() -> None:
    def neighbours(generator: torch.Generator) -> list[int]:
        start = int(torch.randint(6, (), generator=generator))
        return [start, (start + 1) % 6]

    kept = kept_in(600, neighbours)
    assert inclusion_p_value(kept, range(6)) > FAIR  # each position is kept equally often, and yet
    pairs = Counter(tuple(sorted(run)) for run in kept)
    assert stats.chisquare([pairs[pair] for pair in combinations(range(6), 2)]).pvalue < UNFAIR


@pytest.mark.parametrize("policy", ["reservoir", "balanced"])
@given(cuts=st.lists(st.integers(1, 9), min_size=1, max_size=8), capacity=st.integers(1, 12), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_one_insert_equals_many(policy: str, cuts: list[int], capacity: int, seed: int) -> None:
    total = sum(cuts)
    y = torch.randint(3, (total,), generator=seeded(seed))
    whole, parts = Memory(capacity, policy=policy), Memory(capacity, policy=policy)
    whole.insert({"x": torch.arange(total), "y": y}, seeded(seed))
    generator, start = seeded(seed), 0
    for size in cuts:
        parts.insert({"x": torch.arange(start, start + size), "y": y[start : start + size]}, generator)
        start += size
    assert sorted(positions(whole)) == sorted(positions(parts))
    assert whole.seen == parts.seen == total
    assert len(whole) == min(capacity, total)


# ---- saving and resuming ----


@pytest.mark.parametrize("stop", [CAPACITY - 1, CAPACITY, CAPACITY + 1])
def test_the_sample_stays_fair_when_saved_and_loaded_in_the_middle(stop: int) -> None:
    def sampler(generator: torch.Generator) -> list[int]:
        first = Memory(CAPACITY)
        insert_all(first, [stop], generator)
        carried = torch.Generator()
        carried.set_state(generator.get_state())
        second = Memory(CAPACITY)
        second.load_state_dict(first.state_dict())
        assert second.seen == stop
        insert_all(second, [1] * (STREAM - stop), carried, start=stop)
        assert second.seen == STREAM
        generator.set_state(carried.get_state())
        return positions(second)

    assert inclusion_p_value(kept_in(400, sampler), range(STREAM)) > FAIR


@pytest.mark.parametrize("policy", ["reservoir", "balanced"])
def test_a_loaded_memory_resumes_bit_for_bit(policy: str) -> None:
    y = torch.randint(3, (40,), generator=seeded(1))
    straight, generator = Memory(9, policy=policy), seeded()
    stopped = Memory(9, policy=policy)
    for start in range(0, 40, 5):
        batch = {"x": torch.rand(5, 2, generator=seeded(start)), "y": y[start : start + 5]}
        before = generator.get_state()
        straight.insert(batch, generator)
        other = torch.Generator()
        other.set_state(before)
        again = Memory(9, policy=policy)
        again.load_state_dict(stopped.state_dict())
        again.insert(batch, other)
        stopped = again
    for name in ("x", "y", "key", "priority"):
        assert torch.equal(straight.column(name), stopped.column(name))
    assert straight.seen == stopped.seen == 40
    assert torch.equal(straight.draw(5, seeded(7))["x"], stopped.draw(5, seeded(7))["x"])


def test_a_state_is_a_copy() -> None:
    memory, generator = Memory(3), seeded()
    memory.insert(rows(0, 3), generator)
    state = memory.state_dict()
    memory.insert(rows(3, 50), generator)
    loaded = Memory(3)
    loaded.load_state_dict(state)
    assert sorted(positions(loaded)) == [0, 1, 2]
    loaded.insert(rows(3, 50), generator)
    assert state["columns"]["x"].tolist() == [0, 1, 2]


def test_an_empty_memory_can_be_saved_and_loaded() -> None:
    loaded = Memory(3)
    loaded.load_state_dict(Memory(3).state_dict())
    assert (len(loaded), loaded.seen) == (0, 0)
    loaded.insert(rows(0, 5), seeded())
    assert len(loaded) == 3


def naive_with_removal(generator: torch.Generator) -> list[int]:
    """A textbook reservoir that fills free slots with the next samples."""
    kept: list[int] = []
    for position in range(BEFORE + AFTER):
        if position == BEFORE:
            kept = [old for old in kept if old not in GONE]
        if len(kept) < CAPACITY:
            kept.append(position)
        else:
            slot = int(torch.randint(position + 1, (), generator=generator))
            if slot < CAPACITY:
                kept[slot] = position
    return kept


def test_the_chi_square_catches_free_slots_filled_with_the_next_samples() -> None:
    assert inclusion_p_value(kept_in(600, naive_with_removal), SURVIVORS) < UNFAIR


@pytest.mark.parametrize(("capacity", "before"), [(1, 20), (4, 16), (20, 60)], ids="{}".format)
def test_room_is_filled_at_the_rate_at_which_earlier_samples_were_kept(capacity: int, before: int) -> None:
    """Right after a removal there is room for the next sample; it must be no more likely to stay than earlier ones."""
    runs, entered = 1000, 0
    generator = seeded(6)
    for _ in range(runs):
        memory = Memory(capacity)
        memory.insert(rows(0, before) | {"key": hash_keys("gone", before)}, generator)
        assert memory.remove("gone") == capacity
        memory.insert(rows(before, before + 1), generator)
        entered += len(memory)
    assert stats.binomtest(entered, runs, capacity / before).pvalue > FAIR


@given(data=st.data(), policy=st.sampled_from(["reservoir", "balanced"]), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_the_columns_of_a_sample_stay_together(data: st.DataObject, policy: str, seed: int) -> None:
    memory, generator, stream, width = Memory(6, policy=policy), seeded(seed), 0, 2
    for _ in range(data.draw(st.integers(1, 8))):
        match data.draw(st.sampled_from(["insert", "insert", "remove", "widen", "load"])):
            case "insert":
                size = data.draw(st.integers(1, 8))
                x = torch.arange(stream, stream + size)
                logits = torch.stack([x * 10.0 + output for output in range(width)], dim=1)
                keys = hash_keys(x % 5, size)
                memory.insert({"x": x, "y": x % 3, "key": keys, "logits": logits}, generator)
                stream += size
            case "remove":
                memory.remove(data.draw(st.integers(0, 4)))
            case "widen":
                width += 1
                memory.widen("logits", width)
            case "load":
                state = memory.state_dict()
                memory = Memory(6, policy=policy)
                memory.load_state_dict(state)
        if stream:
            x = memory.column("x")
            assert len(set(x.tolist())) == len(memory) <= 6
            assert torch.equal(memory.column("y"), x % 3)
            assert torch.equal(memory.column("key"), hash_keys(x % 5, len(x)) if len(x) else memory.column("key"))
            assert torch.equal(memory.column("logits")[:, 0], x * 10.0)


# ---- the balanced policy ----

SKEWED = {
    "equal-shares": ([50, 40, 30], 12, [4, 4, 4]),
    "one-rare-class-kept-whole": ([50, 40, 2], 12, [5, 5, 2]),
    "two-rare-classes": ([100, 1, 3], 12, [8, 1, 3]),
    "all-fit": ([3, 2, 1], 12, [3, 2, 1]),
    "one-class": ([0, 30, 0], 12, [0, 12, 0]),
    "more-classes-than-room": ([5] * 6, 4, None),
    "a-remainder": ([50, 40, 30], 11, None),
    "rare-and-a-remainder": ([90, 60, 30, 2], 12, None),
}


@pytest.mark.parametrize(("sizes", "capacity", "expected"), SKEWED.values(), ids=SKEWED)
@pytest.mark.parametrize("order", ["classes-in-turn", "rare-first", "shuffled"])
def test_balanced_shares(sizes: list[int], capacity: int, expected: list[int] | None, order: str) -> None:
    y = torch.cat([torch.full((size,), label) for label, size in enumerate(sizes)])
    if order == "rare-first":
        y = y.flip(0)
    if order == "shuffled":
        y = y[torch.randperm(len(y), generator=seeded(3))]
    memory, generator = Memory(capacity, policy="balanced"), seeded()
    for part in y.split(7):
        memory.insert({"x": part, "y": part}, generator)
    counts = torch.bincount(memory.column("y"), minlength=len(sizes)).tolist()
    assert sum(counts) == min(capacity, sum(sizes))
    if expected is not None:
        assert counts == expected
    crowded = [count for count, size in zip(counts, sizes, strict=True) if count < size]
    if crowded:
        assert max(crowded) - min(crowded) <= 1
        assert all(count <= max(crowded) for count in counts)  # a rare class never has more than a crowded one


@pytest.mark.parametrize("size", [1, 4, 20], ids="batches-of-{}".format)
def test_balanced_is_uniform_within_a_class(size: int) -> None:
    y = torch.tensor([0, 1, 0, 0, 1, 2, 0, 0, 1, 0, 0, 1, 0, 2, 0, 0, 1, 0, 2, 0])

    def sampler(generator: torch.Generator) -> list[int]:
        memory, start = Memory(10, policy="balanced"), 0
        for part in y.split(size):
            memory.insert({"x": torch.arange(start, start + len(part)), "y": part}, generator)
            start += len(part)
        return positions(memory)

    kept = kept_in(300, sampler)
    for label in (0, 1):  # the third class is kept whole
        members = (y == label).nonzero().flatten().tolist()
        assert inclusion_p_value([[p for p in run if p in members] for run in kept], members) > FAIR
    assert all({5, 13, 18} <= set(run) for run in kept)


@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    cut=st.integers(1, 60),
    capacity=st.integers(1, 20),
    seed=st.integers(0, 999),
)
@settings(max_examples=150, deadline=None)
def test_balanced_equals_brute_force(labels: list[int], cut: int, capacity: int, seed: int) -> None:
    """Brute force: the best row of each class first, then the second best, ...; the first `capacity` stay."""
    memory, generator = Memory(capacity, policy="balanced"), seeded(seed)
    y = torch.tensor(labels)
    for start, part in zip(range(0, len(y), cut), y.split(cut), strict=True):
        memory.insert({"x": torch.arange(start, start + len(part)), "y": part}, generator)

    priority = torch.rand(len(y), dtype=torch.float64, generator=seeded(seed)).tolist()
    rank = [
        sum(other == label and priority[j] > priority[i] for j, other in enumerate(labels))
        for i, label in enumerate(labels)
    ]
    best = sorted(range(len(y)), key=lambda i: (rank[i], -priority[i]))[:capacity]
    assert sorted(positions(memory)) == sorted(best)


# ---- draws ----

# The last two are past the switch to rejection at 50 times the count.
POPULATIONS = {"of-8": (8, 3), "of-all": (5, 5), "of-100": (100, 2), "rejection-one": (60, 1), "rejection": (101, 2)}


@pytest.mark.parametrize(("population", "count"), POPULATIONS.values(), ids=POPULATIONS)
def test_draws_are_uniform_and_without_replacement(population: int, count: int) -> None:
    generator = seeded(5)
    drawn = [sample_without_replacement(population, count, generator).tolist() for _ in range(4000)]
    assert all(len(set(one)) == count for one in drawn)
    if count < population:
        assert inclusion_p_value(drawn, range(population)) > FAIR
    for place in range(count):  # their order is random too: the first ones are not special
        counts = Counter(one[place] for one in drawn)
        assert stats.chisquare([counts[number] for number in range(population)]).pvalue > FAIR


@pytest.mark.parametrize(("population", "count"), [(0, 4), (1, 4), (3, 4), (4, 4)], ids=str)
def test_a_draw_of_more_samples_than_stored_returns_all(population: int, count: int) -> None:
    assert sorted(sample_without_replacement(population, count, seeded()).tolist()) == list(range(population))


def test_a_memory_draw_returns_the_stored_columns_without_bookkeeping() -> None:
    memory = Memory(100)
    x = torch.rand(60, 2, generator=seeded(1))
    logits = torch.rand(60, 3, generator=seeded(2))
    memory.insert({"x": x, "y": torch.arange(60), "key": hash_keys("me", 60), "logits": logits}, seeded())
    for count in (1, 7, 60, 99):
        draw = memory.draw(count, seeded(count))
        assert set(draw) == {"x", "y", "logits"}
        picked = draw["y"]
        assert len(picked) == len(set(picked.tolist())) == min(count, 60)
        assert torch.equal(draw["x"], x[picked])
        assert torch.equal(draw["logits"], logits[picked])


def test_a_draw_is_a_copy() -> None:
    memory = Memory(3)
    memory.insert(rows(0, 3), seeded())
    memory.draw(3, seeded())["x"].zero_()
    assert sorted(positions(memory)) == [0, 1, 2]


def test_a_numpy_integer_is_a_capacity_too() -> None:
    memory = Memory(np.int64(3))  # type: ignore[arg-type]
    memory.insert(rows(0, 5), seeded())
    assert len(memory) == 3


def test_an_unknown_policy_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SettingsError, match="Did you mean 'balanced'"):
        Memory(3, policy="ballanced")


def test_most_growths_copy_no_stored_logits() -> None:
    memory = Memory(6)
    memory.insert({"y": torch.arange(4), "logits": torch.randn(4, 3)}, torch.Generator().manual_seed(0))
    places, before = set(), memory.column("logits").clone()
    for width in range(4, 400):
        memory.widen("logits", width)
        places.add(memory.column("logits").data_ptr())
        assert memory.column("logits").shape == (4, width)
    assert len(places) < 20
    assert torch.equal(memory.column("logits")[:, :3], before)
    assert (memory.column("logits")[:, 3:] == before.min(dim=1, keepdim=True).values).all()
    assert memory.nbytes == sum(column.numel() * column.element_size() for column in memory._columns.values())
    assert memory.state_dict()["columns"]["logits"].untyped_storage().nbytes() == 4 * 399 * 4
