"""The memory: what stays is a fair sample of the stream, and what is stored stays as it was."""

import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from evenkeel.errors import InputError, SettingsError
from evenkeel.learning.hashing import hash_key, hash_keys
from evenkeel.learning.memory import Memory, parse_bytes, sample_without_replacement

CAPACITY, STREAM = 4, 10
FAIR = 1e-4  # the seeds are fixed: a fair sampler that passes once passes always
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

Sampler = Callable[[torch.Generator], Sequence[int]]  # one run over a stream: the positions that were kept


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(first: int, last: int, y: int = 0) -> dict[str, Tensor]:
    """Samples that carry their position in the stream."""
    return {"x": torch.arange(first, last), "y": torch.full((last - first,), y)}


def insert_all(memory: Memory, cuts: Sequence[int], generator: torch.Generator, start: int = 0) -> None:
    for size in cuts:
        memory.insert(rows(start, start + size), generator)
        start += size


def positions(memory: Memory) -> list[int]:
    kept: list[int] = memory.column("x").tolist()
    return kept


def kept_in(runs: int, sampler: Sampler, seed: int = 0) -> list[Sequence[int]]:
    generator = seeded(seed)
    return [sampler(generator) for _ in range(runs)]


def inclusion_p_value(kept: Sequence[Sequence[int]], population: Sequence[int]) -> float:
    """Of "in each run all sets of that size were equally likely", by how often each position was kept.

    Positions of one run are drawn without replacement, so their counts vary less than a multinomial's; with a variance
    of k/n (1 - k/n) n/(n-1) for each run the statistic is chi-square with n - 1 degrees of freedom.
    """
    n = len(population)
    counts = Counter(position for run in kept for position in run)
    assert set(counts) <= set(population)
    shares = np.array([len(run) / n for run in kept])
    variance = float((shares * (1 - shares)).sum()) * n / (n - 1)
    expected = float(shares.sum())
    statistic = sum((counts[position] - expected) ** 2 for position in population) / variance
    return float(stats.chi2.sf(statistic, n - 1))


def off_by_one(generator: torch.Generator) -> list[int]:
    """The classic fault: the slot is drawn from the n samples before, not from n + 1 with the new one."""
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
    """Inclusion alone would not see a sampler that keeps neighbours together."""

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
def test_one_insert_is_as_good_as_many(policy: str, cuts: list[int], capacity: int, seed: int) -> None:
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


# ---- stopping and going on ----


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
def test_a_loaded_memory_goes_on_to_the_bit(policy: str) -> None:
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


# ---- removing samples ----

BEFORE, AFTER = 12, 48
GONE = (1, 4, 7, 10)  # a third of the samples before the removal, so that a full memory of 4 loses 1.3 on average
SURVIVORS = [position for position in range(BEFORE + AFTER) if position not in GONE]


def with_removal(generator: torch.Generator) -> list[int]:
    memory = Memory(CAPACITY)
    first = rows(0, BEFORE) | {"key": hash_keys(["gone" if p in GONE else "stays" for p in range(BEFORE)], BEFORE)}
    memory.insert(first, generator)
    memory.remove("gone")
    insert_all(memory, [1, 3, 8, 12, 24], generator, start=BEFORE)
    return positions(memory)


def naive_with_removal(generator: torch.Generator) -> list[int]:
    """A textbook reservoir that fills the free slots with whatever comes next."""
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


def test_survivors_and_later_samples_are_kept_equally_often_after_a_removal() -> None:
    """The stream goes on long enough for the memory to be full again: then it holds the highest priorities of all."""
    kept = kept_in(600, with_removal)
    assert sum(len(run) == CAPACITY for run in kept) >= 0.99 * len(kept)
    assert inclusion_p_value(kept, SURVIVORS) > FAIR


def test_the_chi_square_catches_free_slots_filled_with_whatever_comes_next() -> None:
    assert inclusion_p_value(kept_in(600, naive_with_removal), SURVIVORS) < UNFAIR


@pytest.mark.parametrize(("capacity", "before"), [(1, 20), (4, 16), (20, 60)], ids="{}".format)
def test_room_is_filled_at_the_rate_at_which_earlier_samples_were_kept(capacity: int, before: int) -> None:
    """Directly after a removal there is room for the next sample; it must have no better chance than those before."""
    runs, entered = 1000, 0
    generator = seeded(6)
    for _ in range(runs):
        memory = Memory(capacity)
        memory.insert(rows(0, before) | {"key": hash_keys("gone", before)}, generator)
        assert memory.remove("gone") == capacity
        memory.insert(rows(before, before + 1), generator)
        entered += len(memory)
    assert stats.binomtest(entered, runs, capacity / before).pvalue > FAIR


@pytest.mark.parametrize("policy", ["reservoir", "balanced"])
def test_removing_nobody_changes_nothing(policy: str) -> None:
    y = torch.arange(24) % 3
    for seed in range(60):
        asked, left = Memory(5, policy=policy), Memory(5, policy=policy)
        for memory in (asked, left):
            generator = seeded(seed)
            memory.insert({"x": torch.arange(12), "y": y[:12]}, generator)
            if memory is asked:
                assert memory.remove("nobody") == 0
            memory.insert({"x": torch.arange(12, 24), "y": y[12:]}, generator)
        assert sorted(positions(asked)) == sorted(positions(left))


@given(data=st.data(), seed=st.integers(0, 999), capacity=st.sampled_from([1, 2, 5, 8, "400B"]))
@settings(max_examples=120, deadline=None)
def test_memory_always_holds_the_highest_priorities_of_what_was_not_removed(
    data: st.DataObject, seed: int, capacity: int | str
) -> None:
    """This is what makes the sample fair: no sample stays while one of a higher priority was turned away."""
    memory, generator, shadow = Memory(capacity), seeded(seed), seeded(seed)
    priority: dict[int, float] = {}
    key_of: dict[int, int] = {}
    stream, width = 0, 1
    for _ in range(data.draw(st.integers(1, 8), label="operations")):
        match data.draw(st.sampled_from(["insert", "insert", "remove", "widen", "load"]), label="operation"):
            case "insert":
                size = data.draw(st.integers(1, 12), label="size")
                keys = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size), label="keys")
                columns = {"key": hash_keys(keys, size), "logits": torch.zeros(size, width)}
                memory.insert(rows(stream, stream + size) | columns, generator)
                drawn = torch.rand(size, dtype=torch.float64, generator=shadow).tolist()
                priority |= dict(zip(range(stream, stream + size), drawn, strict=True))
                key_of |= dict(zip(range(stream, stream + size), keys, strict=True))
                stream += size
            case "remove":
                key = data.draw(st.integers(0, 3), label="key")
                held = [position for position in positions(memory) if key_of[position] == key] if stream else []
                assert memory.remove(key) == len(held)
                priority = {position: value for position, value in priority.items() if key_of[position] != key}
            case "widen":
                width += 5
                memory.widen("logits", width)
            case "load":
                state = memory.state_dict()
                memory = Memory(capacity)
                memory.load_state_dict(state)
        if stream:
            ranked = sorted(priority, key=lambda position: -priority[position])
            assert sorted(positions(memory)) == sorted(ranked[: len(memory)])
            assert len(memory) <= memory.slots
        assert memory.seen == stream


@pytest.mark.parametrize("keys", ["aaabbb", "bbbaaa", "ababab"])
def test_removed_samples_leave_no_bytes_behind(keys: str) -> None:
    memory = Memory(6)
    x = torch.tensor([[171 if key == "a" else 7] * 3 for key in keys], dtype=torch.uint8)
    memory.insert({"x": x, "y": torch.zeros(6, dtype=torch.int64), "key": hash_keys([*keys], 6)}, seeded())
    assert memory.remove("a") == 3
    assert memory.remove("a") == 0
    assert memory.column("x").tolist() == [[7] * 3] * 3
    storage = memory.column("x").untyped_storage()  # all that was ever allocated, not only what is shown
    assert 171 not in bytes(storage.tolist())


def test_removing_from_an_empty_memory_finds_nothing() -> None:
    assert Memory(3).remove("anyone") == 0


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
    """With every row kept: the best of each class first, then the second best, ...; the first `capacity` stay."""
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
    for place in range(count):  # their order is random too: what comes first is no special part of them
        counts = Counter(one[place] for one in drawn)
        assert stats.chisquare([counts[number] for number in range(population)]).pvalue > FAIR


@pytest.mark.parametrize(("population", "count"), [(0, 4), (1, 4), (3, 4), (4, 4)], ids=str)
def test_a_draw_of_more_than_there_is_gives_all(population: int, count: int) -> None:
    assert sorted(sample_without_replacement(population, count, seeded()).tolist()) == list(range(population))


def test_a_memory_draw_gives_what_was_stored_and_nothing_of_its_own_bookkeeping() -> None:
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


# ---- bytes ----


def images(count: int, seed: int = 0) -> Tensor:
    return torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8, generator=seeded(seed))


def test_images_stay_byte_for_byte() -> None:
    memory, generator, x = Memory(20), seeded(), images(90)
    for start in range(0, 90, 9):
        part = slice(start, start + 9)
        memory.insert({"x": x[part], "y": torch.arange(90)[part]}, generator)
    stored = memory.column("x")
    assert stored.dtype == torch.uint8
    assert torch.equal(stored, x[memory.column("y")])
    draw = memory.draw(10, generator)
    assert draw["x"].dtype == torch.uint8
    assert torch.equal(draw["x"], x[draw["y"]])


def test_bookkeeping_costs_less_than_five_percent() -> None:
    memory = Memory(500)
    memory.insert({"x": images(10), "y": torch.zeros(10, dtype=torch.int64)}, seeded())
    assert memory.nbytes <= 1.05 * 500 * (3 * 32 * 32 + 8)


AMOUNTS = {
    "8MB": 8_000_000,
    "8 mb": 8_000_000,
    "1.5GB": 1_500_000_000,
    "512KiB": 524_288,
    " 2MiB ": 2_097_152,
    "1GiB": 2**30,
    "100B": 100,
    "0.5KB": 500,
}


@pytest.mark.parametrize(("text", "amount"), AMOUNTS.items(), ids=AMOUNTS)
def test_amounts_of_bytes(text: str, amount: int) -> None:
    assert parse_bytes(text) == amount


@pytest.mark.parametrize("text", ["", "8", "MB", "-8MB", "8 M B", "8XB", "8,5MB", "eight MB", "1e3MB", "8MB!"])
def test_what_is_no_amount_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="amount of bytes such as '8MB'") as caught:
        Memory(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("capacity", [0, -1, True, False, 2.5, None, np.int64(0)], ids=repr)
def test_a_memory_for_no_sample_is_refused(capacity: int) -> None:
    with pytest.raises(SettingsError, match="must be a whole number of at least 1"):
        Memory(capacity)


def test_a_numpy_integer_is_a_capacity_too() -> None:
    memory = Memory(np.int64(3))  # type: ignore[arg-type]
    memory.insert(rows(0, 5), seeded())
    assert len(memory) == 3


def test_an_unknown_policy_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SettingsError, match="Did you mean 'balanced'"):
        Memory(3, policy="ballanced")


def test_a_memory_in_bytes_is_as_large_as_the_bytes_allow() -> None:
    memory, generator = Memory("1MB"), seeded()
    for seed in range(5):
        memory.insert({"x": images(100, seed), "y": torch.zeros(100, dtype=torch.int64)}, generator)
        assert memory.nbytes <= 1_000_000
    assert memory.nbytes > 0.99 * 1_000_000
    assert len(memory) == memory.slots == 1_000_000 // (memory.nbytes // memory.slots)


def test_bytes_too_few_for_one_sample_are_refused_with_what_one_takes() -> None:
    with pytest.raises(InputError, match=r"'2KB' cannot hold one sample, which takes 3,\d\d\d bytes"):
        Memory("2KB").require_room(images(2))
    Memory("4KB").require_room(images(2))
    Memory(1).require_room(images(2))


# ---- wider logits ----


def with_logits(memory: Memory, count: int, width: int = 3) -> Tensor:
    """Inserts `count` samples whose y is their position; returns all their logits."""
    logits = torch.randn(count, width, generator=seeded(9))
    memory.insert({"x": torch.zeros(count, 5), "y": torch.arange(count), "logits": logits}, seeded())
    return logits


@pytest.mark.parametrize("filled", [1, 5, 8, 30], ids="{}-samples".format)
@pytest.mark.parametrize("width", [4, 11], ids="{}-outputs".format)
def test_wider_logits_keep_every_bit_and_take_their_lowest_for_new_outputs(filled: int, width: int) -> None:
    memory = Memory(8)
    logits = with_logits(memory, filled)
    before = memory.state_dict()["columns"]
    memory.widen("logits", width)
    wider = memory.column("logits")
    own = logits[memory.column("y")]
    assert wider.shape == (min(8, filled), width)
    assert torch.equal(wider[:, :3], own)
    assert torch.equal(wider[:, 3:], own.min(dim=1, keepdim=True).values.expand(-1, width - 3))
    for name in before.keys() - {"logits"}:
        assert torch.equal(memory.column(name), before[name])
    # Samples of the new width can come in.
    fresh = {"x": torch.ones(9, 5), "y": torch.arange(9), "logits": torch.ones(9, width)}
    memory.insert(fresh, seeded(4))
    assert memory.column("logits").shape == (8, width)


def test_widening_what_is_not_stored_does_nothing() -> None:
    memory = Memory(8)
    memory.widen("logits", 5)
    memory.insert(rows(0, 3), seeded())
    memory.widen("logits", 5)
    assert set(memory.draw(3, seeded())) == {"x", "y"}


@pytest.mark.parametrize("policy", ["reservoir", "balanced"])
@pytest.mark.parametrize("filled", [30, 200], ids=["room-left", "full"])
def test_a_memory_in_bytes_shrinks_to_its_budget_when_logits_grow(policy: str, filled: int) -> None:
    memory = Memory("4KB", policy=policy)
    logits = with_logits(memory, filled)
    priority = torch.rand(filled, dtype=torch.float64, generator=seeded()).tolist()  # as the memory drew them
    slots = memory.slots
    memory.widen("logits", 30)
    assert memory.nbytes <= 4000
    assert len(memory) <= memory.slots == 4000 // (memory.nbytes // memory.slots) < slots
    kept = memory.column("y").tolist()
    assert sorted(kept) == sorted(sorted(range(filled), key=lambda i: -priority[i])[: memory.slots])  # one per class
    assert torch.equal(memory.column("logits")[:, :3], logits[kept])


def test_a_shrunken_memory_stays_fair() -> None:
    """Samples that had to go when the logits grew must not be replaced by whatever comes next."""

    def sampler(generator: torch.Generator) -> list[int]:
        memory = Memory("500B")  # 13 samples of 36 bytes with one logit, 6 of 76 bytes with eleven
        for start, width in ((0, 1), (15, 11)):
            if width > 1:
                memory.widen("logits", width)
            memory.insert(rows(start, start + 15) | {"logits": torch.zeros(15, width)}, generator)
        return positions(memory)

    kept = kept_in(500, sampler)
    assert {len(run) for run in kept} == {500 // 76}
    assert inclusion_p_value(kept, range(30)) > FAIR


@pytest.mark.parametrize("seed", range(10))
def test_samples_that_went_when_logits_grew_stay_gone_before_lower_ones_come_in(seed: int) -> None:
    memory, generator = Memory("400B"), seeded(seed)
    keys = hash_keys(["gone", "stays"] * 5, 10)
    memory.insert(rows(0, 10) | {"key": keys, "logits": torch.zeros(10, 1)}, generator)  # all of them fit
    memory.widen("logits", 6)
    assert len(memory) == 7
    memory.remove("gone")
    memory.insert(rows(10, 12) | {"logits": torch.zeros(2, 6)}, generator)  # there is room for both
    priority = torch.rand(12, dtype=torch.float64, generator=seeded(seed)).tolist()
    ranked = sorted([*range(1, 10, 2), 10, 11], key=lambda position: -priority[position])
    assert sorted(positions(memory)) == sorted(ranked[: len(memory)])


# ---- keys ----


@pytest.mark.parametrize(
    "same",
    [
        (7, np.int64(7), np.uint8(7), torch.tensor(7), np.array(7)),
        ("anna", np.str_("anna")),
        (b"anna", np.bytes_(b"anna")),
    ],
    ids=["integers", "strings", "bytes"],
)
def test_one_key_in_many_guises_has_one_hash(same: Sequence[object]) -> None:
    assert len({hash_key(key) for key in same}) == 1


def test_different_keys_have_different_hashes() -> None:
    keys = [7, "7", b"7", "", 0, -7, "anna", "Anna", *range(1000, 2000)]
    assert len({hash_key(key) for key in keys}) == len(keys)


@pytest.mark.parametrize("key", [None, 7.0, ("anna", 3), ["anna"], object(), torch.ones(2), np.ones(2)], ids=type)
def test_what_might_not_be_found_again_is_no_key(key: object) -> None:
    """A float may be rounded, and an object is another one in another process."""
    with pytest.raises(InputError, match="A key is a string, bytes or a whole number, but"):
        hash_key(key)


def test_a_hash_does_not_depend_on_the_process() -> None:
    """Python's own hash of a string does; a key must be found again after loading a checkpoint elsewhere."""
    assert hash_key("anna") == 6210743931197739096


@given(st.one_of(st.integers(), st.text("a\u00e9 '"), st.binary()))
@settings(deadline=None)
def test_a_hash_fits_its_column_and_never_means_no_key(key: object) -> None:
    value = hash_key(key)
    assert value != 0
    assert torch.tensor([value], dtype=torch.int64).item() == value


def test_one_key_for_all_or_one_for_each() -> None:
    assert hash_keys(None, 3).tolist() == [0, 0, 0]
    assert hash_keys("anna", 2).tolist() == [hash_key("anna")] * 2
    each = [hash_key("anna"), hash_key("bob")]
    for keys in (["anna", "bob"], ("anna", "bob"), np.array(["anna", "bob"]), iter(["anna", "bob"])):
        assert hash_keys(keys, 2).tolist() == each
    assert hash_keys(torch.tensor([1, 2]), 2).tolist() == [hash_key(1), hash_key(2)]
    assert hash_keys(torch.tensor(1), 2).tolist() == [hash_key(1)] * 2
    assert all(hash_keys(key, 2).dtype == torch.int64 for key in (None, "anna", ["anna", "bob"]))


def test_keys_must_be_as_many_as_samples() -> None:
    with pytest.raises(InputError, match="key has 2 entries, but x has 3 samples"):
        hash_keys(["anna", "bob"], 3)


def test_samples_without_a_key_cannot_be_removed_by_accident() -> None:
    memory = Memory(5)
    memory.insert(rows(0, 5), seeded())
    keys: list[object] = [0, "", b"", False]
    assert [memory.remove(key) for key in keys] == [0, 0, 0, 0]


# ---- peak memory ----

FILL = """
    import torch
    from evenkeel.learning.memory import Memory

    def peak() -> int:  # in bytes, of this program alone; ru_maxrss begins with its parent's
        for line in open("/proc/self/status"):
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024

    def fill(memory, batches):
        generator = torch.Generator().manual_seed(0)
        for start in range(batches):
            x = torch.full((256, 3, 32, 32), start % 256, dtype=torch.uint8)
            memory.insert({"x": x, "y": torch.full((256,), start % 10)}, generator)

    torch.set_num_threads(1)
    fill(Memory(300), 3)  # whatever torch loads at its first use is not the memory's
    before = peak()
    memory = Memory(40_000)
    fill(memory, 200)
    print(peak() - before, memory.nbytes, len(memory))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of resident memory from /proc")
def test_filling_a_large_memory_needs_no_second_copy() -> None:
    """tracemalloc does not see torch's allocations, so the resident memory of a program of its own is measured."""
    program = [sys.executable, "-c", textwrap.dedent(FILL)]
    result = subprocess.run(program, capture_output=True, text=True, check=True, timeout=120)
    grown, nbytes, filled = map(int, result.stdout.split())
    assert filled == 40_000
    assert nbytes >= 40_000 * 3072
    assert grown >= 0.9 * nbytes  # else the measurement saw nothing
    assert grown <= 1.05 * nbytes + 10e6
