"""The one learner behind a service: a thread that learns what the journal holds, in order, batch by batch.

Everything that changes the learner happens in this thread. Everybody else sees what it has published: a snapshot that
is never changed, only replaced.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from evenkeel import checkpoint
from evenkeel.classifier import Classifier
from evenkeel.errors import EvenkeelError
from evenkeel.hashing import hash_key
from evenkeel.learner import Learner
from evenkeel.service import records
from evenkeel.service.config import ServiceConfig
from evenkeel.service.home import Home
from evenkeel.service.journal import Journal, JournalError
from evenkeel.service.payload import unpack
from evenkeel.service.records import Batch, UnknownError, Version
from evenkeel.service.tally import Tally, recency_bias, share, stored

T = TypeVar("T")
AHEAD = 16  # batches cut in one commit of the journal, when so much is waiting
PUBLISH = 0.1  # seconds between snapshots, at least, while there is more to learn
MEASURE = 5.0  # seconds between points of the history, while something is learned
PAUSE = 1.0  # seconds before the journal is tried again after it failed


@dataclass(frozen=True)
class Published:
    """What the world sees of the learner."""

    version: int
    classifier: Classifier
    stored: dict[Hashable, int]  # samples in memory by label
    bytes: int  # of memory


@dataclass(frozen=True)
class Forgotten:
    waiting: bool  # it was not learned yet, and will not be
    memory: int  # samples of it that were in memory
    versions: int  # older versions that held it too
    prediction: bool  # it was kept to be labelled later


class Engine:
    """Learns in the background from `start` on. `number` is that of the last batch learned: the model's version."""

    def __init__(self, home: Home, config: ServiceConfig, journal: Journal, learner: Learner, tally: Tally) -> None:
        self.home = home
        self.config = config
        self.learner = learner
        self.tally = tally
        self.number: int = journal.do(lambda db: records.value(db, "current"))
        self.recovering = False
        self.error: str | None = None  # why it does not go on, for people
        self.refusal: str | None = None  # why the last batch that could not be learned could not
        self.recency_bias: float | None = None
        self.answered = deque(journal.do(partial(records.recent_answers, count=1000)), maxlen=1000)
        self.saved, self.saved_at = self.number, time.monotonic()  # the last checkpoint
        self._journal = journal
        self._waiting: int = journal.do(records.waiting)[0]
        self._counting = threading.Lock()
        self._ahead = deque(journal.do(records.unlearned))
        self._commands: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._stopping = False
        self._unpublished = self._unsaved = self._unmeasured = 0  # batches
        self._published_at = self._measured_at = time.monotonic()
        self._partial_since: float | None = None  # when fewer than a batch were first seen to wait
        self._rates: deque[tuple[float, int]] = deque(maxlen=200)
        self.published = self._snapshot()
        self._thread = threading.Thread(target=self._run, name="learner", daemon=True)

    # Asked from other threads

    @property
    def alive(self) -> bool:
        """Whether it is learning, or waiting to."""
        return self._thread.is_alive()

    def start(self) -> None:
        self.recovering = bool(self._ahead)
        self._thread.start()

    def stop(self) -> None:
        """After the batch at hand, with a checkpoint."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def wake(self) -> None:
        """There is something to learn."""
        self._wake.set()

    def do(self, command: Callable[[], T]) -> "Future[T]":
        """Have something done between two batches."""
        future: Future[T] = Future()
        self._commands.put((command, future))
        self._wake.set()
        return future

    @property
    def waiting(self) -> int:
        """Examples accepted, or about to be, but not learned."""
        return self._waiting

    def reserve(self, count: int, most: int) -> bool:
        """Room in the queue, of `most` places, for examples that are about to be accepted."""
        with self._counting:
            if self._waiting + count > most:
                return False
            self._waiting += count
            return True

    def release(self, count: int) -> None:
        with self._counting:
            self._waiting -= count

    @property
    def rate(self) -> float:
        """Examples learned a second, over the last ten seconds."""
        now = time.monotonic()
        return sum(count for moment, count in list(self._rates) if moment > now - 10) / 10

    # In the learner's thread

    def _run(self) -> None:
        torch.set_num_threads(self.config.threads or torch.get_num_threads())
        while True:
            self._wake.clear()
            try:
                self._obey()
                if self._stopping:
                    if self._unsaved:
                        self.save()
                    return
                batch = self._next()
                if batch is None:
                    self._rest()
                else:
                    self._learn(batch)
                self.error = None
            except JournalError as error:
                self.error = str(error)
                self._wake.wait(PAUSE)
                if self._stopping:
                    return
            except Exception as error:  # our bug, or no memory left: what is published still answers
                self.error = f"Learning has stopped: {type(error).__name__}: {error}"
                self._refuse_commands()
                raise

    def _obey(self) -> None:
        while not self._commands.empty():
            command, future = self._commands.get()
            try:
                future.set_result(command())
            except Exception as error:
                future.set_exception(error)

    def _refuse_commands(self) -> None:
        while not self._stopping:
            self._wake.wait(PAUSE)
            while not self._commands.empty():
                self._commands.get()[1].set_exception(EvenkeelError(self.error or ""))

    def _next(self) -> Batch | None:
        if not self._ahead:
            self.recovering = False
            waited = (
                self._partial_since is not None and time.monotonic() - self._partial_since >= self.config.batches.wait
            )
            assign = partial(records.assign, size=self.config.batches.size, most=AHEAD, partial=waited)
            self._ahead.extend(self._journal.do(assign))
            self._partial_since = None if self._ahead else self._partial_since or time.monotonic()
        return self._ahead.popleft() if self._ahead else None

    def _rest(self) -> None:
        """Nothing to learn now: catch up with what can wait, then wait."""
        if self._unpublished:
            self._publish()
        to_measure = self._measured_at + MEASURE - time.monotonic() if self._unmeasured else None
        if to_measure is not None and (to_measure <= 0 or not self.tally.history):
            self._measure()
            to_measure = None
        if self._unsaved and time.monotonic() - self.saved_at >= self.config.checkpoints.seconds:
            self.save()
        if self.waiting:  # fewer than a batch
            self._wake.wait(self.config.batches.wait)
        else:
            self._partial_since = None
            to_save = self.saved_at + self.config.checkpoints.seconds - time.monotonic() if self._unsaved else None
            due = [each for each in (to_measure, to_save) if each is not None]
            self._wake.wait(max(0.0, min(due)) if due else None)

    def _learn(self, batch: Batch) -> None:
        labels = [example.label for example in batch.examples]
        x = unpack([example.x for example in batch.examples], self.config.input)
        self.tally.test(self.learner, x, labels)
        try:
            self.learner.learn(x, labels, key=[example.id for example in batch.examples])
        except EvenkeelError as error:  # a number that is not finite; the same again after a crash
            self.tally.refused += len(labels)
            self.refusal = f"Batch {batch.number} was not learned: {error}"
        else:
            self.tally.count(labels)
        self.number = batch.number
        self.release(len(labels))
        now = time.monotonic()
        self._rates.append((now, len(labels)))
        self._unpublished += 1
        self._unsaved += 1
        self._unmeasured += 1
        if now - self._measured_at >= MEASURE:
            self._measure()
        if now - self._published_at >= PUBLISH:
            self._publish()
        limits = self.config.checkpoints
        if self._unsaved >= limits.batches or now - self.saved_at >= limits.seconds:
            self.save()

    def _snapshot(self) -> Published:
        return Published(self.number, self.learner.snapshot(), stored(self.learner), self.learner.memory.nbytes)

    def _publish(self) -> None:
        self.published = self._snapshot()
        self._published_at, self._unpublished = time.monotonic(), 0

    def _measure(self) -> None:
        self.recency_bias = recency_bias(self.learner, self.tally.newest)
        self.tally.add_point(
            accuracy=share(self.tally.tested_lately),
            answered=share(self.answered),
            recency_bias=self.recency_bias,
            queue=self.waiting,
            rate=self.rate,
        )
        self._measured_at, self._unmeasured = time.monotonic(), 0

    # Commands: in the learner's thread, by way of `do`

    def save(self, *, asked: bool = False, note: str = "") -> Version:
        """A checkpoint; the journal needs nothing any more of what is inside."""
        return self._write(self.learner, self.number, asked=asked, note=note)

    def _write(self, learner: Learner, number: int, *, asked: bool, note: str) -> Version:
        facts, tensors = learner.state()
        try:
            checkpoint.write(self.home.version(number), {**facts, "service": self.tally.state()}, tensors)
        except (OSError, RuntimeError) as error:  # torch tells of a full disk by a RuntimeError
            reason = str(error).splitlines()[0]
            raise JournalError(
                f"No checkpoint could be written ({reason}). The journal holds what is not in one."
            ) from None
        version = Version(number, time.time(), self.tally.learned, asked, note)
        keep = self.config.checkpoints.keep
        for old in self._journal.do(partial(records.note_version, version=version, keep=keep)):
            self.home.version(old).unlink(missing_ok=True)
        self._journal.tidy()
        self.saved, self.saved_at, self._unsaved = number, time.monotonic(), 0
        return version

    def rollback(self, number: int) -> Version:
        """Go on from an earlier version. What was learned since then is gone; what waits is learned."""
        known = [version.number for version in self._journal.do(records.versions)]
        if number not in known:
            raise UnknownError(f"There is no version {number}; there are {', '.join(map(str, known))}.")
        learner = Learner.load(self.home.version(number))
        new = self._journal.do(partial(records.begin_rollback, learned=self.number))
        self._ahead.clear()  # they wait again
        version = self._write(learner, new, asked=True, note=f"back to version {number}")
        self.learner, self.number = learner, new
        self._measure()
        self._publish()
        return version

    def forget(self, id: str) -> Forgotten:
        """Remove an example from the journal, from memory, and from the memory of every version that is kept."""
        held = self._journal.do(partial(records.find, id=id))
        learned = held.batch is not None and held.batch <= self.number
        waits = held.example and not learned
        memory = self.learner.forget(id)
        if learned or memory:
            self.save()  # so that the journal needs the example no longer
        others = [number for number in self.home.versions() if number != self.number]
        older = sum(_scrub(self.home.version(number), id) for number in others)
        if not (held.example or held.prediction or memory or older):
            raise UnknownError(f"Nothing is held under the id {id!r}: neither in the journal nor in memory.")
        self._journal.do(partial(records.delete, id=id, withdrawn=waits))
        self._journal.tidy(scrub=True).result()
        if waits:
            kept = [replace(each, examples=[one for one in each.examples if one.id != id]) for each in self._ahead]
            self._ahead = deque(batch for batch in kept if batch.examples)
            self.release(1)
        self._publish()
        return Forgotten(waits, memory, older, held.prediction)


def _scrub(path: Path, id: str) -> bool:
    """Take an example out of the memory of a version; whether it was there."""
    facts, tensors = checkpoint.read(path)
    memory, key = tensors["memory"], hash_key(id)
    parts = [memory, *([memory["held"]] if memory.get("held") else [])]
    if not any(bool((part["columns"]["key"] == key).any()) for part in parts if part["columns"]):
        return False
    learner = Learner.load(path)
    learner.forget(id)
    _, tensors = learner.state()
    checkpoint.write(path, facts, tensors)
    return True
