"""What a service counts. It is saved in the checkpoint with the learner, so that a crash does not change it."""

import time
from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenkeel.learning.learner import Learner
from evenkeel.results.metrics import recency_tilt
from evenkeel.service.store.queries import RECENT

MEASURED = 256  # samples of memory that are predicted to measure the recency bias, at most
POINTS = 1_000  # maximum length of the history


@dataclass
class Counters:
    """Counts of examples learned and predicted, and their history. What was refused, the journal knows."""

    learned: int = 0
    seq: int = 0  # of the last example in the journal that was handled
    tested: int = 0  # predicted before they were learned
    right: int = 0
    counts: dict[Hashable, int] = field(default_factory=dict)  # learned examples of each label
    tested_lately: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))
    last_seen: dict[Hashable, int] = field(default_factory=dict)  # which example of all learned was the last of a label
    history: list[dict[str, Any]] = field(default_factory=list)  # for the dashboard: nothing depends on it
    is_older: bool = False  # of an earlier version, which counted here what it refused

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
        for place, label in enumerate(labels, self.learned + 1):
            self.counts[label] = self.counts.get(label, 0) + 1
            self.last_seen[label] = place
        self.learned += len(labels)

    def add_point(self, **values: Any) -> None:
        """Add a point to the history."""
        self.history.append({"time": time.time(), "learned": self.learned, **values})
        if len(self.history) > POINTS:  # the older half is thinned out again and again
            self.history = self.history[: POINTS // 2 : 2] + self.history[POINTS // 2 :]

    def state(self) -> dict[str, Any]:
        """Return the counters for JSON. Counts are pairs, as keys of an object would turn numeric labels into text."""
        return {
            "learned": self.learned,
            "seq": self.seq,
            "tested": self.tested,
            "right": self.right,
            "counts": [[label, count] for label, count in self.counts.items()],
            "tested_lately": [int(right) for right in self.tested_lately],
            "last_seen": list(self.last_seen.items()),
            "history": self.history,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Counters":
        """Return the counters that `state` returned."""
        is_old = "last_seen" not in state  # of version 0.1, whose recency bias was another measure
        return cls(
            learned=state["learned"],
            seq=state.get("seq", 0),
            tested=state["tested"],
            right=state["right"],
            counts=dict(state["counts"]),
            tested_lately=deque(map(bool, state["tested_lately"]), maxlen=RECENT),
            last_seen=_seen_before(state) if is_old else dict(state["last_seen"]),
            history=[{**point, "recency_bias": None} for point in state["history"]] if is_old else state["history"],
            is_older="refused" in state,
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


def _seen_before(state: dict[str, Any]) -> dict[Hashable, int]:
    """Return when labels were last seen, of a state of version 0.1: it had only the labels of the newest examples."""
    newest = enumerate(state["newest"], state["learned"] + 1 - len(state["newest"]))
    return {label: 0 for label, _ in state["counts"]} | {label: place for place, label in newest}


def memory_recency_bias(learner: Learner, last_seen: Mapping[Hashable, int]) -> float:
    """Return the recency tilt of predictions for samples of memory, from -100 to 100; 0 if there are none.

    Memory is trained on, so tests would show more of it: this is a warning sign, not a test result.
    """
    names, memory = learner.labels.names, learner.memory
    if not len(memory):
        return 0.0
    rows = slice(None, None, -(-len(memory) // MEASURED))
    predicted = learner.logits_of_stored(memory.column("x")[rows].clone())[:, : len(names)].argmax(dim=1)
    true, answered = (
        [last_seen.get(names[output], 0) for output in outputs.tolist()]
        for outputs in (memory.column("y")[rows], predicted)
    )
    return recency_tilt(true, answered)
