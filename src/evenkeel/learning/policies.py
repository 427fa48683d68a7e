"""Which samples stay in a full memory: those of the highest priority, of all samples or of each class.

Every sample gets a random priority when it arrives, and the memory keeps the highest. That is an exact reservoir:
each set of `capacity` samples of the stream is equally likely, however the stream is split into batches. The highest
priority ever rejected is a bar that later samples must pass, even after removals have made room.
"""

import torch
from torch import Tensor

from evenkeel.errors import one_of

POLICIES = ("reservoir", "balanced")


class Competition:
    """The competition for the slots of one memory, and the bar of each group of samples that compete.

    With "reservoir" all samples compete with each other. With "balanced" each class has an equal share (what a rare
    class cannot fill goes to the others), and samples compete within their class.
    """

    def __init__(self, policy: str) -> None:
        one_of("policy", policy, POLICIES)
        self.policy = policy
        self.bars = torch.full((1,), -1.0, dtype=torch.float64)  # (groups,) highest priority rejected

    def admitted(self, y: Tensor, priority: Tensor) -> Tensor:
        """Return the rows that pass their bar; there may be too many of them."""
        group = self._group(y)
        missing = int(group.max()) + 1 - len(self.bars)
        if missing > 0:
            self.bars = torch.cat([self.bars, torch.full((missing,), -1.0, dtype=torch.float64)])
        return (priority > self.bars[group]).nonzero().flatten()

    def reject(self, y: Tensor, priority: Tensor, count: int) -> Tensor:
        """Return (count,) the rows that must go, and raise the bars accordingly."""
        group = self._group(y)
        if self.policy == "reservoir":
            rejected = priority.topk(count, largest=False).indices
        else:
            # Each class in turn contributes its best, second-best, ... row; the last ones in that order go.
            by_priority = priority.argsort(descending=True)
            by_class = by_priority[group[by_priority].argsort(stable=True)]
            first = torch.searchsorted(group[by_class], group[by_class])
            rank = torch.empty_like(group)
            rank[by_class] = torch.arange(len(group)) - first
            rejected = by_priority[rank[by_priority].argsort(stable=True)][-count:]
        self.bars.scatter_reduce_(0, group[rejected], priority[rejected], "amax")
        return rejected

    def make_room(self, y: Tensor, priority: Tensor) -> None:
        """Raise the bars to the lowest of these priorities, before some of these samples leave a full memory.

        Later samples are then as likely to be kept as earlier ones, up to one part in the number of samples seen.
        """
        lowest = torch.full_like(self.bars, torch.inf).scatter_reduce_(0, self._group(y), priority, "amin")
        competing = (self.bars >= 0) & lowest.isfinite()
        self.bars[competing] = lowest[competing]

    def _group(self, y: Tensor) -> Tensor:
        """Return the group in which a row competes: one for all rows, or one per class."""
        return y if self.policy == "balanced" else torch.zeros_like(y)
