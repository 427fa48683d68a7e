"""The queue as a service counts it: how many examples wait to be learned, and for how long the oldest of them."""

import threading
import time
from collections import deque

PRECISION = 1.0  # seconds: examples accepted within one of them count as accepted at its beginning


class Waiting:
    """Examples that were accepted, or are about to be, and are not learned yet. Safe to use from any thread.

    How long they have waited is counted from the start of the service at the earliest, and does not follow the clock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reserved = 0  # about to be accepted
        self._entered = self._left = 0
        self._moments: deque[tuple[int, float]] = deque()  # how many had entered by when, for those that wait

    @property
    def count(self) -> int:
        """Return how many wait."""
        return self._reserved + self._entered - self._left

    @property
    def seconds(self) -> float:
        """Return for how long the oldest one has waited; 0 if none does."""
        with self._lock:
            return time.monotonic() - self._moments[0][1] if self._moments else 0.0

    def reserve(self, count: int, most: int) -> bool:
        """Reserve places in a queue of `most` for examples about to be accepted; return False if there are too few."""
        with self._lock:
            if self.count + count > most:
                return False
            self._reserved += count
            return True

    def settle(self, reserved: int, accepted: int) -> None:
        """Replace reserved places by the number of examples that were accepted."""
        with self._lock:
            self._reserved -= reserved
            self._enter(accepted)

    def leave(self, count: int) -> None:
        """Count examples that no longer wait; a negative number waits again."""
        with self._lock:
            self._left += max(0, count)
            self._enter(max(0, -count))
            while self._moments and self._moments[0][0] <= self._left:
                self._moments.popleft()

    def recount(self, count: int) -> None:
        """Correct how many wait besides those that are about to be accepted. The oldest one stays as old as it was."""
        with self._lock:
            since = self._moments[0][1] if self._moments else time.monotonic()
            self._entered, self._left = count, 0
            self._moments = deque([(count, since)] if count else [])

    def _enter(self, count: int) -> None:
        if not count:
            return
        now = time.monotonic()
        self._entered += count
        if self._moments and now - self._moments[-1][1] < PRECISION:
            now = self._moments.pop()[1]
        self._moments.append((self._entered, now))
