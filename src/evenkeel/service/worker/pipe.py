"""The pipe between a service and its worker, and what goes through it."""

import io
import pickle
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from evenkeel.learning.classifier import Classifier
from evenkeel.learning.encoder import ENCODERS, Encoder
from evenkeel.learning.learner import Learner
from evenkeel.service.store.counters import Counters, percent_right


@dataclass(frozen=True)
class Published:
    """The model that predicts: never changed, only replaced."""

    version: int
    classifier: Classifier
    stored: dict[Hashable, int]  # samples in memory by label
    bytes: int  # of memory

    @classmethod
    def of(cls, learner: Learner, version: int) -> "Published":
        """Return a snapshot of the learner."""
        return cls(version, learner.snapshot(), learner.stored, sum(memory.nbytes for memory in learner.memories))


@dataclass(frozen=True)
class WorkerReport:
    """What the worker counts, and how it is doing."""

    learned: int = 0
    refused: int = 0
    tested: int = 0
    right: int = 0
    lately: float | None = None  # percentage of recent ones predicted correctly before they were learned
    counts: dict[Hashable, int] | None = None  # learned examples by label
    recency_bias: float = 0.0
    recovering: bool = False
    saved: int = 0  # the last checkpoint
    error: str | None = None  # why learning is interrupted
    refusal: str | None = None  # why the last refused batch could not be learned

    def counted(self, counters: Counters, refused: int) -> "WorkerReport":
        """Return the report with the values of these counters, and how many were refused."""
        return replace(
            self,
            learned=counters.learned,
            refused=refused,
            tested=counters.tested,
            right=counters.right,
            lately=percent_right(counters.tested_lately),
            counts=dict(counters.counts),
        )


class PipeError(Exception):
    """The other end of the pipe is closed."""


def send(connection: Connection, message: tuple[str, Any]) -> None:
    """Send a message by value; raise PipeError if the other end is closed.

    The connection's own pickling would leave tensors in shared memory, to be fetched from a sender that may be dead.
    """
    content = io.BytesIO()
    _Pickler(content, protocol=5).dump(message)
    try:
        connection.send_bytes(content.getbuffer())
    except OSError as error:
        raise PipeError from error


def receive(connection: Connection) -> tuple[str, Any]:
    """Wait for a message and return it; raise PipeError if the other end is closed."""
    try:
        content = connection.recv_bytes()
    except (EOFError, OSError) as error:
        raise PipeError from error
    message: tuple[str, Any] = _Unpickler(io.BytesIO(content)).load()  # between our own two processes
    return message


class _Pickler(pickle.Pickler):
    """Sends an encoder by its digest: it never changes, and both processes have it."""

    def persistent_id(self, value: object) -> str | None:
        return value.digest if isinstance(value, Encoder) else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, digest: str) -> Encoder:
        return ENCODERS[digest]


class WorkerPipe:
    """The worker's end of the pipe. Other messages that arrive while it waits for a reply are kept for later."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._kept: deque[tuple[str, Any]] = deque()

    def send(self, kind: str, value: Any = None) -> None:
        send(self._connection, (kind, value))

    def receive(self, timeout: float | None) -> tuple[str, Any] | None:
        """Return the next message; None if none arrives within `timeout` seconds."""
        if self._kept:
            return self._kept.popleft()
        try:
            has_message = self._connection.poll(timeout)
        except OSError as error:
            raise PipeError from error
        return receive(self._connection) if has_message else None

    def do(self, operation: Callable[..., Any]) -> Any:
        """Run an operation of the journal in the service, and return its result."""
        return self._request("journal", operation)

    def scrub(self) -> None:
        """Remove everything that was deleted from the journal's log."""
        self._request("scrub", None)

    def recount(self) -> None:
        """Have the service count what waits again, from the last checkpoint on."""
        self._request("recount", None)

    def _request(self, kind: str, value: Any) -> Any:
        """Send a message, and return the reply to it; raise the error if that is the reply."""
        self.send(kind, value)
        while True:
            received, content = receive(self._connection)
            if received == "reply":
                result, error = content
                if error is not None:
                    raise error
                return result
            self._kept.append((received, content))
