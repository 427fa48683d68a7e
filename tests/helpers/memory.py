"""Memories filled with numbered samples, and statistics of the samples they keep."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from evenkeel.learning.memory import Memory

CAPACITY, STREAM = 4, 10
FAIR = 1e-4  # the seeds are fixed: a fair sampler that passes once always passes

Sampler = Callable[[torch.Generator], Sequence[int]]  # one run over a stream: the positions that were kept


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(first: int, last: int, y: int = 0) -> dict[str, Tensor]:
    """Return samples that hold their position in the stream."""
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
    """Return the p-value of "in each run all sets of that size were equally likely", from how often each was kept.

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


# ---- removing samples ----

BEFORE, AFTER = 12, 48
GONE = (1, 4, 7, 10)  # a third of the samples before the removal, so that a full memory of 4 loses 1.3 on average
SURVIVORS = [position for position in range(BEFORE + AFTER) if position not in GONE]
