"""What goes through the pipe between a service and its engine."""

import pickle
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from evenkeel.learning.classifier import Classifier
from evenkeel.learning.learner import Learner
from evenkeel.service.store.counters import Counters, percent_right, stored


@dataclass(frozen=True)
class Published:
    """What answers: never changed, only replaced."""

    version: int
    classifier: Classifier
    stored: dict[Hashable, int]  # samples in memory by label
    bytes: int  # of memory

    @classmethod
    def of(cls, learner: Learner, version: int) -> "Published":
        return cls(version, learner.snapshot(), stored(learner), learner.memory.nbytes)


@dataclass(frozen=True)
class WorkerReport:
    """What is counted."""

    learned: int = 0
    refused: int = 0
    tested: int = 0
    right: int = 0
    lately: float | None = None  # share right, in percent, of the last 1,000 predicted before they were learned
    counts: dict[Hashable, int] | None = None  # learned examples by label
    recency_bias: float | None = None
    recovering: bool = False
    saved: int = 0  # the last checkpoint
    error: str | None = None  # why it does not go on
    refusal: str | None = None  # why the last batch that could not be learned could not

    def counted(self, counters: Counters) -> "WorkerReport":
        return replace(
            self,
            learned=counters.learned,
            refused=counters.refused,
            tested=counters.tested,
            right=counters.right,
            lately=percent_right(counters.tested_lately),
            counts=dict(counters.counts),
        )


@dataclass(frozen=True)
class Forgotten:
    waiting: bool  # it was not learned yet, and will not be
    memory: int  # samples of it that were in memory
    versions: int  # older versions that held it too
    prediction: bool  # it was kept to be labelled later


class PipeError(Exception):
    """Nobody is at the other end."""


def send(connection: Connection, message: tuple[str, Any]) -> None:
    """By value: a pipe's own way would leave tensors in shared memory, to be fetched from a sender that may be dead."""
    content = pickle.dumps(message, protocol=5)
    try:
        connection.send_bytes(content)
    except OSError as error:
        raise PipeError from error


def receive(connection: Connection) -> tuple[str, Any]:
    try:
        content = connection.recv_bytes()
    except (EOFError, OSError) as error:
        raise PipeError from error
    message: tuple[str, Any] = pickle.loads(content)  # between our own two processes
    return message


class WorkerPipe:
    """The engine's end of the pipe. While it waits for a reply, what else comes is kept for later."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._kept: deque[tuple[str, Any]] = deque()

    def send(self, kind: str, value: Any = None) -> None:
        send(self._connection, (kind, value))

    def receive(self, timeout: float | None) -> tuple[str, Any] | None:
        """What came next; None if nothing did."""
        if self._kept:
            return self._kept.popleft()
        try:
            came = self._connection.poll(timeout)
        except OSError as error:
            raise PipeError from error
        return receive(self._connection) if came else None

    def do(self, operation: Callable[..., Any]) -> Any:
        """Have something done with the journal."""
        return self._ask("journal", operation)

    def scrub(self) -> None:
        """Nothing that was deleted may stay in the journal's log."""
        self._ask("scrub", None)

    def _ask(self, kind: str, value: Any) -> Any:
        self.send(kind, value)
        while True:
            what, answer = receive(self._connection)
            if what == "reply":
                result, error = answer
                if error is not None:
                    raise error
                return result
            self._kept.append((what, answer))
