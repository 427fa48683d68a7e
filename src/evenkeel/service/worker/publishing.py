"""What the worker sends to the service besides replies: snapshots, counts and the history."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from evenkeel.service.store.counters import Rate, memory_recency_bias, percent_right
from evenkeel.service.store.queries import RECENT
from evenkeel.service.worker.learning import Learning
from evenkeel.service.worker.pipe import Published, WorkerPipe, WorkerReport

PUBLISH = 0.2  # seconds between snapshots, at least
PUBLISHING = 0.1  # maximum share of the time spent on snapshots: a large network is published less often
MEASURING = 0.02  # maximum share of the time spent on the recency bias, which takes longer with more classes
MEASURE = 5.0  # seconds between points of the history, while learning


class Publisher:
    """Sends reports, snapshots and points of the history when they are due."""

    def __init__(
        self, pipe: WorkerPipe, learning: Learning, answered: Sequence[bool], waiting: Callable[[], int]
    ) -> None:
        self.answered = deque(answered, maxlen=RECENT)
        self._pipe, self._learning, self._waiting = pipe, learning, waiting
        self._report = WorkerReport(recovering=True, saved=learning.saved)
        self._unpublished = self._unmeasured = 0  # batches
        self._published_at = self._point_at = time.monotonic()
        self._measure_again = 0.0
        self._publish_every = PUBLISH
        self._handled = 0  # examples that no longer wait, not reported yet
        self._lately = Rate()

    def note(self, **changes: Any) -> None:
        """Change the report. A change of `error` or `recovering` is sent at once, all else with the next snapshot."""
        if all(getattr(self._report, name) == value for name, value in changes.items()):
            return
        report = replace(self._report, **changes)
        if (report.error, report.recovering) != (self._report.error, self._report.recovering):
            self._pipe.send("news", report)
        self._report = report

    def count(self, examples: int) -> None:
        """Count examples of a batch that was handled."""
        self._unpublished += 1
        self._unmeasured += 1
        self._lately.add(examples)
        self.leave(examples)

    def leave(self, examples: int) -> None:
        """Count examples that no longer wait; a negative number waits again."""
        self._handled += examples

    def recount(self) -> None:
        """Count what waits again: the learner has returned to its last checkpoint."""
        self._handled = 0
        self._pipe.recount()

    def do_what_is_due(self, *, resting: bool) -> None:
        """Publish and measure if it is time. `resting`: nothing is being learned, so a first point may come early."""
        now = time.monotonic()
        early = resting and not self._learning.counters.history
        if self._unmeasured and (early or now - self._point_at >= MEASURE):
            self._add_point()
        if self._unpublished and now - self._published_at >= self._publish_every:
            self.publish()

    def due(self) -> list[float]:
        """Return the moments when something is due."""
        publish = [self._published_at + self._publish_every] if self._unpublished else []
        return publish + ([self._point_at + MEASURE] if self._unmeasured else [])

    def publish_rest(self) -> None:
        """Publish if anything was learned since the last snapshot."""
        if self._unpublished:
            self.publish()

    def publish(self) -> None:
        """Send the report and a snapshot to the service."""
        self._measure()
        begun, learning = time.monotonic(), self._learning
        counted = self._report.counted(learning.counters, learning.refused)
        self._report = replace(counted, refusal=learning.refusal, saved=learning.saved)
        self._pipe.send("news", self._report)
        self._pipe.send("published", Published.of(learning.learner, learning.number))
        self._pipe.send("handled", self._handled)  # after the snapshot, so that what no longer waits is in it
        self._handled = 0
        self._published_at, self._unpublished = time.monotonic(), 0
        self._publish_every = max(PUBLISH, (self._published_at - begun) / PUBLISHING)

    def _measure(self) -> None:
        """Measure the recency bias, unless that would take too much of the time."""
        begun = time.monotonic()
        if begun >= self._measure_again:
            bias = memory_recency_bias(self._learning.learner, self._learning.counters.last_seen)
            self._report = replace(self._report, recency_bias=bias)
            now = time.monotonic()
            self._measure_again = now + (now - begun) / MEASURING

    def _add_point(self) -> None:
        """Add a point to the history, of what is published."""
        self.publish()
        counters = self._learning.counters
        counters.add_point(
            accuracy=percent_right(counters.tested_lately),
            answered=percent_right(self.answered),
            recency_bias=self._report.recency_bias,
            queue=self._waiting(),
            rate=self._lately.rate,
        )
        self._pipe.send("history", counters.history)
        self._point_at, self._unmeasured = time.monotonic(), 0
