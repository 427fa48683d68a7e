"""When batches are cut. All of it happens in the journal's thread, the only one that writes."""

import sqlite3
import time
from collections.abc import Callable

from evenkeel.service.store import queries


class Cutter:
    """Cuts full batches in the transaction that accepts their examples, and wakes the worker to learn them.

    A batch that does not fill up is cut once the worker is idle and its first example has waited for `wait` seconds.
    """

    def __init__(self, size: int, wait: float) -> None:
        self.wake: Callable[[], object] = lambda: None
        self._size, self._wait = size, wait
        self._since: float | None = None  # when an incomplete batch was first seen
        self._idle = False  # whether the worker has learned every batch it found
        self._unseen = False  # whether batches were cut since it was last woken

    def pause(self) -> float | None:
        """Return the seconds until an incomplete batch is due; None if there is none, or the worker is busy."""
        if self._since is None or not self._idle:
            return None
        return max(0.0, self._since + self._wait - time.monotonic())

    def cut(self, db: sqlite3.Connection) -> None:
        """Cut all full batches, and an incomplete one if it is due."""
        cut, left = queries.cut(db, self._size, partial=self.pause() == 0)
        self._unseen = self._unseen or cut > 0
        self._since = (time.monotonic() if cut else self._since or time.monotonic()) if left else None

    def committed(self) -> None:
        """Wake the worker if it is idle and there are batches that it has not seen."""
        if self._idle and self._unseen:
            self._idle = self._unseen = False
            self.wake()

    def note_idle(self) -> None:
        """Record that the worker has learned every batch it found. It may have missed one that was cut meanwhile."""
        self._idle = True
        self.committed()
