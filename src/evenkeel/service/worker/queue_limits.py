"""Whether more examples may be accepted: by how many wait, for how long the oldest, and how many are set aside."""

from collections.abc import Callable

from evenkeel.service.config import ServiceConfig
from evenkeel.service.examples import FullError
from evenkeel.service.store.counters import Rate
from evenkeel.service.store.journal import JournalError
from evenkeel.service.worker.waiting import Waiting


class QueueLimits:
    """The limits of a queue, which is learned at some rate, and of what is set aside."""

    def __init__(self, config: ServiceConfig, queue: Waiting, learned: Rate, refused: Callable[[], int]) -> None:
        self._most, self._hours = config.most_waiting, config.limits.queue_hours
        self._queue, self._learned, self._refused = queue, learned, refused

    @property
    def room(self) -> int:
        """Return how many more examples may wait; none while the oldest has waited for too long."""
        return 0 if self._too_old else self._most - self._queue.count

    @property
    def problem(self) -> str | None:
        """Return why nothing is accepted, if as many examples are set aside as may wait."""
        refused = self._refused()
        if refused < self._most:
            return None
        return (
            f"{refused:,} examples are set aside, as many as may wait (limits.queue). Nothing is accepted until some "
            "of them are retried or dropped: GET /v1/set-aside lists them."
        )

    def reserve(self, count: int) -> None:
        """Reserve places for examples about to be accepted; raise JournalError or FullError if there are too few."""
        if self.problem is not None:
            raise JournalError(self.problem)
        if self._too_old or not self._queue.reserve(count, self._most):
            raise self.full(count)

    def full(self, count: int) -> FullError:
        """Return the error of a queue that has no room for this many examples."""
        waiting = self._queue.count
        retry = max(1, min(60, round(waiting / max(self._learned.rate, 1))))
        return FullError(waiting, retry, count, hours=self._too_old)

    @property
    def _too_old(self) -> float | None:
        """Return the hours for which the oldest example has waited, if they are too many."""
        hours = self._queue.seconds / 3600
        return hours if self._hours is not None and hours > self._hours else None
