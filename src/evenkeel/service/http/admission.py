"""Who is let in, and when: requests that teach while there is room, keys no more often than they may, work in turns."""

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from evenkeel.errors import EvenkeelError
from evenkeel.service.examples import FullError
from evenkeel.service.service import Service

T = TypeVar("T")
PAUSE = 0.1  # seconds between requests that are read although the last one was too large
REFUSALS, AT_ONCE, PATIENCE = 500, 50, 1.0  # refusals per second, without a pause before them, and the longest pause
WORKERS = min(2, os.cpu_count() or 1)


class RateError(EvenkeelError):
    """A key has sent too many requests; it may send the next one after `seconds`."""

    def __init__(self, rate: float, seconds: float) -> None:
        self.seconds = max(1, round(seconds))
        super().__init__(f"This key may send {rate:g} requests per second. Retry in {self.seconds} s.")


class Door:
    """Refuses requests that teach before their bodies are read, while the queue has no room for them.

    How many examples a request holds is known only once it is read. Until then it is expected to hold as many as the
    last one that turned out to be too large; a single one is tried now and then, as it may hold fewer.

    Clients that send on although they were refused are kept waiting: to answer all of them at once would take the time
    of learning and predicting.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._inside = 0  # requests that are being read
        self._expected = 1  # examples in a request
        self._try_at = 0.0
        self._refuse_at = 0.0  # when the next request is refused, if many are

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Let a request in, or raise FullError."""
        if not self._has_room():
            await self._pause()
            if not self._has_room():
                raise self._service.full(self._expected)
        self._inside += 1
        try:
            yield
        except FullError as error:
            self._expected = error.examples
            raise
        finally:
            self._inside -= 1

    async def _pause(self) -> None:
        """Wait until a request may be refused; not at all if few were lately."""
        now = time.monotonic()
        self._refuse_at = max(self._refuse_at, now - AT_ONCE / REFUSALS) + 1 / REFUSALS
        if self._refuse_at > now:
            self._refuse_at = min(self._refuse_at, now + PATIENCE)
            await asyncio.sleep(self._refuse_at - now)

    def _has_room(self) -> bool:
        room = self._service.room - self._inside * self._expected
        if room >= self._expected:
            return True
        now = time.monotonic()
        if room <= 0 or self._inside or now < self._try_at:
            return False
        self._try_at = now + PAUSE
        return True


class Rates:
    """How many requests each key may still send. A key saves up for one second."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._left: dict[str, tuple[float, float]] = {}  # requests by key, and when that was

    def take(self, key: str) -> None:
        """Count a request; raise RateError if it is one too many."""
        if self._rate is None:
            return
        now, most = time.monotonic(), max(1.0, self._rate)
        left, at = self._left.get(key, (most, now))
        left = min(most, left + (now - at) * self._rate)
        if left < 1:
            raise RateError(self._rate, (1 - left) / self._rate)
        self._left[key] = left - 1, now


class Turns:
    """A few threads for work that takes long. Keys take turns: one that sends much waits for itself."""

    def __init__(self, workers: int = WORKERS) -> None:
        self._threads = ThreadPoolExecutor(workers, "reader")
        self._free = workers
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # by key; the key whose turn it is comes first

    async def run(self, key: str, work: Callable[[], T]) -> T:
        """Return the result of some work, done when it is the key's turn."""
        await self._turn(key)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._pass_on()

    async def _turn(self, key: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give a free thread to the next key, or keep it free."""
        while self._waiting:
            key = next(iter(self._waiting))
            turns = self._waiting.pop(key)
            turn = turns.popleft()
            if turns:
                self._waiting[key] = turns  # at the end
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
