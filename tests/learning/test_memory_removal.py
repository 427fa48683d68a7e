"""Samples removed from memory leave no trace, and the rest stays a fair sample."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenkeel.learning.hashing import hash_keys
from evenkeel.learning.memory import Memory
from tests.helpers.memory import (
    BEFORE,
    CAPACITY,
    FAIR,
    GONE,
    SURVIVORS,
    inclusion_p_value,
    insert_all,
    kept_in,
    positions,
    rows,
    seeded,
)


def with_removal(generator: torch.Generator) -> list[int]:
    memory = Memory(CAPACITY)
    first = rows(0, BEFORE) | {"key": hash_keys(["gone" if p in GONE else "stays" for p in range(BEFORE)], BEFORE)}
    memory.insert(first, generator)
    memory.remove("gone")
    insert_all(memory, [1, 3, 8, 12, 24], generator, start=BEFORE)
    return positions(memory)


def test_survivors_and_later_samples_are_kept_equally_often_after_a_removal() -> None:
    """The stream continues until the memory is full again: then it holds the highest priorities of all."""
    kept = kept_in(600, with_removal)
    assert sum(len(run) == CAPACITY for run in kept) >= 0.99 * len(kept)
    assert inclusion_p_value(kept, SURVIVORS) > FAIR


@pytest.mark.parametrize("policy", ["reservoir", "balanced"])
def test_removing_an_unknown_key_changes_nothing(policy: str) -> None:
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
    """This makes the sample fair: no sample stays if one of a higher priority was rejected."""
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
    storage = memory.column("x").untyped_storage()  # everything allocated, not only the filled rows
    assert 171 not in bytes(storage.tolist())


def test_removing_from_an_empty_memory_removes_nothing() -> None:
    assert Memory(3).remove("anyone") == 0


def test_samples_without_a_key_cannot_be_removed_by_accident() -> None:
    memory = Memory(5)
    memory.insert(rows(0, 5), seeded())
    keys: list[object] = [0, "", b"", False]
    assert [memory.remove(key) for key in keys] == [0, 0, 0, 0]
