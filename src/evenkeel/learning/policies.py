"""Which samples stay in a full memory: those of the highest priority, of all samples or of each class.

Every sample gets a random priority when it arrives, and the memory keeps the highest. That is an exact reservoir:
each set of `capacity` samples of the stream is equally likely, however the stream is split into batches. The highest
priority ever rejected is a bar that later samples must pass, even after removals have made room.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from evenkeel.errors import one_of

POLICIES = ("reservoir", "balanced")
Rows = NDArray[np.int64]
Priorities = NDArray[np.float64]


class Competition:
    """The competition for the slots of one memory, and the bar of each group of samples that compete.

    With "reservoir" all samples compete with each other. With "balanced" each class has an equal share (what a rare
    class cannot fill goes to the others), and samples compete within their class. It computes with numpy, which takes a
    fraction of torch's time for so few numbers.
    """

    def __init__(self, policy: str) -> None:
        one_of("policy", policy, POLICIES)
        self.policy = policy
        self.bars = torch.full((1,), -1.0, dtype=torch.float64)  # (groups,) highest priority rejected

    def admitted(self, y: Rows, priority: Priorities) -> Rows:
        """Return the rows that pass their bar; there may be too many of them."""
        if self.policy == "reservoir":
            return np.flatnonzero(priority > self.bars.item())
        missing = int(y.max()) + 1 - len(self.bars)
        if missing > 0:
            self.bars = torch.cat([self.bars, torch.full((missing,), -1.0, dtype=torch.float64)])
        return np.flatnonzero(priority > self.bars.numpy()[y])

    def reject(self, y: Rows, priority: Priorities, count: int) -> Rows:
        """Return (count,) the rows that must go, and raise the bars accordingly."""
        bars = self.bars.numpy()
        if self.policy == "reservoir":
            rejected = np.argpartition(priority, count - 1)[:count]
            bars[0] = max(bars[0], priority[rejected].max())
            return rejected
        # Each class in turn contributes its best, second-best, ... row; the last ones in that order go.
        by_priority = np.argsort(-priority)
        by_class = by_priority[np.argsort(y[by_priority], kind="stable")]
        first = np.searchsorted(y[by_class], y[by_class])
        rank = np.empty_like(y)
        rank[by_class] = np.arange(len(y)) - first
        rejected = by_priority[np.argsort(rank[by_priority], kind="stable")][-count:]
        np.maximum.at(bars, y[rejected], priority[rejected])
        return rejected

    def make_room(self, y: Rows, priority: Priorities) -> None:
        """Raise the bars to the lowest of these priorities, before some of these samples leave a full memory.

        Later samples are then as likely to be kept as earlier ones, up to one part in the number of samples seen.
        """
        bars = self.bars.numpy()
        lowest = np.full_like(bars, np.inf)
        np.minimum.at(lowest, y if self.policy == "balanced" else np.zeros_like(y), priority)
        competing = (bars >= 0) & np.isfinite(lowest)
        bars[competing] = lowest[competing]
