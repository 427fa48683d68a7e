"""Memories with a budget in bytes, and columns of logits that grow."""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from evenkeel.errors import InputError, SettingsError
from evenkeel.learning.byte_sizes import parse_bytes
from evenkeel.learning.compatibility import require_room
from evenkeel.learning.hashing import hash_keys
from evenkeel.learning.memory import Memory
from tests.helpers.memory import FAIR, inclusion_p_value, kept_in, positions, rows, seeded

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
def test_anything_but_an_amount_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="amount of bytes such as '8MB'") as caught:
        Memory(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("capacity", [0, -1, True, False, 2.5, None, np.int64(0)], ids=repr)
def test_a_memory_for_no_sample_is_refused(capacity: int) -> None:
    with pytest.raises(SettingsError, match="must be a whole number of at least 1"):
        Memory(capacity)


def test_a_memory_in_bytes_is_as_large_as_the_bytes_allow() -> None:
    memory, generator = Memory("1MB"), seeded()
    for seed in range(5):
        memory.insert({"x": images(100, seed), "y": torch.zeros(100, dtype=torch.int64)}, generator)
        assert memory.nbytes <= 1_000_000
    assert memory.nbytes > 0.99 * 1_000_000
    assert len(memory) == memory.slots == 1_000_000 // (memory.nbytes // memory.slots)


def test_too_few_bytes_for_one_sample_are_refused_with_the_size_of_one() -> None:
    with pytest.raises(InputError, match=r"'2KB' cannot hold one sample, which takes 3,\d\d\d bytes"):
        require_room([Memory("2KB")], images(2))
    with pytest.raises(InputError, match=r"'40KB', of which 2KB are held out, cannot hold one sample"):
        require_room([Memory("40KB"), Memory("2KB")], images(2))
    require_room([Memory("4KB"), Memory("4KB")], images(2))
    require_room([Memory(1)], images(2))


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("capacity", [2, 10, 137, "2KB", "1MB"])
def test_a_split_memory_has_the_capacity_it_had(capacity: int | str, share: float) -> None:
    rest = Memory(capacity)
    if capacity == 2 and share == 0.9:
        with pytest.raises(SettingsError, match=r"memory=2: holding out 0\.9 of it leaves no sample to train on"):
            rest.split(share)
        return
    part = rest.split(share)
    if isinstance(capacity, str):
        assert rest.budget is not None
        assert part.budget is not None
        assert rest.budget + part.budget == parse_bytes(capacity)
        assert part.budget == pytest.approx(share * parse_bytes(capacity), abs=1)
    else:
        assert rest.slots + part.slots == capacity
        assert part.slots == max(1, round(share * capacity))
    assert rest.capacity == capacity


# ---- wider logits ----


def with_logits(memory: Memory, count: int, width: int = 3) -> Tensor:
    """Insert `count` samples whose y is their position; return all their logits."""
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
    # Samples of the new width can be inserted.
    fresh = {"x": torch.ones(9, 5), "y": torch.arange(9), "logits": torch.ones(9, width)}
    memory.insert(fresh, seeded(4))
    assert memory.column("logits").shape == (8, width)


def test_widening_a_missing_column_does_nothing() -> None:
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
    """Samples that had to go when the logits grew must not simply be replaced by the next ones."""

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
def test_samples_below_those_dropped_when_logits_grew_are_not_stored(seed: int) -> None:
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


# ---- peak memory ----

FILL = """
    import torch
    from evenkeel.learning.memory import Memory

    def peak() -> int:  # in bytes, of this program only; ru_maxrss starts with its parent's
        for line in open("/proc/self/status"):
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024

    def fill(memory, batches):
        generator = torch.Generator().manual_seed(0)
        for start in range(batches):
            x = torch.full((256, 3, 32, 32), start % 256, dtype=torch.uint8)
            memory.insert({"x": x, "y": torch.full((256,), start % 10)}, generator)

    torch.set_num_threads(1)
    fill(Memory(300), 3)  # what torch loads at its first use does not belong to the memory
    before = peak()
    memory = Memory(40_000)
    fill(memory, 200)
    print(peak() - before, memory.nbytes, len(memory))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of resident memory from /proc")
def test_filling_a_large_memory_needs_no_second_copy() -> None:
    """tracemalloc does not see torch's allocations, so the resident memory of a separate program is measured."""
    program = [sys.executable, "-c", textwrap.dedent(FILL)]
    result = subprocess.run(program, capture_output=True, text=True, check=True, timeout=300)
    grown, nbytes, filled = map(int, result.stdout.split())
    assert filled == 40_000
    assert nbytes >= 40_000 * 3072
    assert grown >= 0.9 * nbytes  # otherwise the measurement missed it
    assert grown <= 1.05 * nbytes + 10e6
