"""What a service counts. It is saved in the checkpoint with the learner, so that a crash does not change it."""

import time
from collections import deque
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from evenkeel.learning.learner import Learner
from evenkeel.service.store.queries import RECENT

NEWEST = 500  # last examples whose classes count as the newest, for the recency bias
MEASURED = 256  # samples of memory that are predicted to measure it
POINTS = 1_000  # maximum length of the history


@dataclass
class Counters:
    """Counts of examples learned, refused and predicted, and their history."""

    learned: int = 0
    refused: int = 0  # accepted, but could not be learned, and set aside
    seq: int = 0  # of the last example in the journal that was handled
    tested: int = 0  # predicted before they were learned
    right: int = 0
    counts: dict[Hashable, int] = field(default_factory=dict)  # learned examples of each label
    tested_lately: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))
    newest: deque[Hashable] = field(default_factory=lambda: deque(maxlen=NEWEST))
    history: list[dict[str, Any]] = field(default_factory=list)  # for the dashboard: nothing depends on it

    def test(self, learner: Learner, x: object, labels: Sequence[Hashable]) -> None:
        """Predict examples that are about to be learned, and count the correct predictions."""
        if not learner.classes:
            return
        right = [bool(answer == label) for answer, label in zip(learner.predict(x).tolist(), labels, strict=True)]
        self.tested += len(right)
        self.right += sum(right)
        self.tested_lately.extend(right)

    def count(self, labels: Sequence[Hashable]) -> None:
        """Count examples that were learned."""
        self.learned += len(labels)
        self.newest.extend(labels)
        for label in labels:
            self.counts[label] = self.counts.get(label, 0) + 1

    def add_point(self, **values: Any) -> None:
        """Add a point to the history."""
        self.history.append({"time": time.time(), "learned": self.learned, **values})
        if len(self.history) > POINTS:  # the older half is thinned out again and again
            self.history = self.history[: POINTS // 2 : 2] + self.history[POINTS // 2 :]

    def state(self) -> dict[str, Any]:
        """Return the counters for JSON. Counts are pairs, as keys of an object would turn numeric labels into text."""
        return {
            "learned": self.learned,
            "refused": self.refused,
            "seq": self.seq,
            "tested": self.tested,
            "right": self.right,
            "counts": [[label, count] for label, count in self.counts.items()],
            "tested_lately": [int(right) for right in self.tested_lately],
            "newest": list(self.newest),
            "history": self.history,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Counters":
        """Return the counters that `state` returned."""
        return cls(
            learned=state["learned"],
            refused=state["refused"],
            seq=state.get("seq", 0),
            tested=state["tested"],
            right=state["right"],
            counts=dict(state["counts"]),
            tested_lately=deque(map(bool, state["tested_lately"]), maxlen=RECENT),
            newest=deque(state["newest"], maxlen=NEWEST),
            history=state["history"],
        )


class Rate:
    """Examples per second, over the last ten seconds."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque(maxlen=10_000)

    def add(self, count: int) -> None:
        self._counts.append((time.monotonic(), count))

    @property
    def rate(self) -> float:
        since = time.monotonic() - 10
        return sum(count for moment, count in list(self._counts) if moment > since) / 10


def percent_right(right: Collection[bool]) -> float | None:
    """Return the percentage that is True; None if there is nothing."""
    right = list(right)  # a copy: another thread may be adding to it
    return 100 * sum(right) / len(right) if right else None


def memory_recency_bias(learner: Learner, newest: Sequence[Hashable]) -> float | None:
    """Return 100 * the share of memory's samples of older classes that are predicted as one of the newest classes.

    The newest classes are those among the last 500 examples learned. None if memory has no older class. Memory is
    trained on, so this is a lower bound: a warning sign, not a test result.
    """
    if not len(learner.memory) or not newest:
        return None
    new = torch.tensor([label in set(newest) for label in learner.classes])
    y: Tensor = learner.memory.column("y").cpu()
    older = (~new[y]).nonzero().flatten()[:MEASURED]
    if not len(older):
        return None
    predicted = learner.logits(learner.memory.column("x")[older])[:, : len(new)].argmax(dim=1).cpu()
    return 100 * float(new[predicted].double().mean())
