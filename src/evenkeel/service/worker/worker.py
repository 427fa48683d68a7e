"""The worker behind a service, which learns what the journal holds, in order, batch by batch.

It runs in a process of its own, so that predictions never wait for it, and talks to the service through a pipe: it
is woken when batches were cut, reads them itself, and sends what is to be published. `supervisor` is the other end.
"""

import os
import signal
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from evenkeel.errors import CheckpointError, EvenkeelError
from evenkeel.files import keep_freed_memory
from evenkeel.service.config import ServiceConfig
from evenkeel.service.samples import unpack
from evenkeel.service.store import queries, versions
from evenkeel.service.store.counters import Rate, memory_recency_bias, percent_right
from evenkeel.service.store.journal import JournalError, Operation, T, open_reader
from evenkeel.service.store.model_folder import ModelFolder
from evenkeel.service.store.queries import CutBatch, UnknownError, Version
from evenkeel.service.worker.pipe import Forgotten, PipeError, Published, WorkerPipe, WorkerReport

AHEAD = 16  # batches read from the journal at once
PUBLISH = 0.2  # seconds between snapshots, at least
PUBLISHING = 0.1  # maximum share of the time spent on snapshots: a large network is published less often
MEASURE = 5.0  # seconds between points of the history, while learning
NICE = 10  # niceness of the learner's process, which gives way to requests where there are few cores
PAUSE = 1.0  # seconds before the journal is tried again after a failure


class Worker:
    """The owner of the learner: everything that changes it happens here.

    `number` is that of the last batch learned: the version.
    """

    def __init__(
        self,
        model_folder: ModelFolder,
        config: ServiceConfig,
        pipe: WorkerPipe,
        journal: sqlite3.Connection,
        number: int,
    ) -> None:
        self.model_folder = model_folder
        self.config = config
        self.pipe = pipe
        self.number = number
        self.learner, self.counters = versions.load(model_folder, number)
        self._journal = journal
        self._answered = deque(self._query(queries.recent_answers), maxlen=queries.RECENT)
        self._ahead = deque[CutBatch]()
        self._woken = True  # whether the journal may hold batches besides `_ahead`
        self._recover_to = self._query(queries.last_cut)
        self._report = WorkerReport(recovering=True, saved=number)
        self._forgetting: set[str] = set()  # removed from memory, but no checkpoint has been written since
        self._unpublished = self._unsaved = self._unmeasured = 0  # batches
        self._published_at = self._point_at = self._saved_at = time.monotonic()
        self._measure_again = 0.0
        self._publish_every = PUBLISH
        self._handled = 0  # examples that no longer wait, not reported yet
        self._lately = Rate()

    def run(self) -> None:
        """Learn until a stop request arrives."""
        self._publish()
        pause: float | None = 0.0
        while self._handle_messages(pause):
            try:
                batch = self._next()
                pause = self._rest() if batch is None else self._learn(batch)
                self._note(error=None)
            except JournalError as error:
                self._note(error=str(error))
                pause = PAUSE
        if self._unsaved:
            self.save()

    def _note(self, **changes: Any) -> None:
        """Change the report. A change of `error` or `recovering` is sent at once, all else with the next snapshot."""
        report = replace(self._report, **changes)
        if (report.error, report.recovering) != (self._report.error, self._report.recovering):
            self.pipe.send("news", report)
        self._report = report

    def _handle_messages(self, pause: float | None) -> bool:
        """Wait up to `pause` seconds for messages and handle them; return False on a stop request."""
        message = self.pipe.receive(pause)
        while message is not None:
            kind, value = message
            if kind == "stop":
                return False
            if kind == "wake":
                self._woken = True
                self._answered.extend(value)
            elif kind == "command":
                self._command(*value)
            message = self.pipe.receive(0.0)
        return True

    def _command(self, ticket: int, name: str, arguments: dict[str, Any]) -> None:
        """Execute a command, and send its result or error."""
        commands: dict[str, Callable[..., Any]] = {"save": self.save, "rollback": self.rollback, "forget": self.forget}
        result, failure = None, None
        try:
            result = commands[name](**arguments)
        except EvenkeelError as error:
            failure = error
        if self._unpublished:
            self._publish()  # the client that gave the command sees everything learned before it
        self.pipe.send("done", (ticket, result, failure))

    # Learning

    def _next(self) -> CutBatch | None:
        """Return the next batch; None if there is none yet."""
        if not self._ahead and self._woken:
            self._read()
        if not self._ahead or self._ahead[0].number > self._recover_to:
            self._note(recovering=False)
        return self._ahead.popleft() if self._ahead else None

    def _read(self) -> None:
        """Read the next batches, and report if there are none."""
        self._ahead.extend(self._query(partial(queries.batches, after=self.number, most=AHEAD)))
        if not self._ahead:
            self._woken = False
            self.pipe.send("idle")

    def _query(self, query: Operation[T]) -> T:
        """Return the result of a query to the journal; raise JournalError if it cannot be read."""
        try:
            return query(self._journal)
        except sqlite3.Error as error:
            raise JournalError(f"The journal cannot be read ({error}).") from error

    def _rest(self) -> float | None:
        """Do what is due while there is nothing to learn; return the seconds until more is due, None if nothing is."""
        now = time.monotonic()
        if self._unpublished and now - self._published_at >= self._publish_every:
            self._publish()
        if self._unmeasured and (not self.counters.history or now - self._point_at >= MEASURE):
            self._add_point()
        if self._unsaved and now - self._saved_at >= self.config.checkpoints.seconds:
            self.save()
        due = [
            *([self._published_at + self._publish_every] if self._unpublished else []),
            *([self._point_at + MEASURE] if self._unmeasured else []),
            *([self._saved_at + self.config.checkpoints.seconds] if self._unsaved else []),
        ]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _learn(self, batch: CutBatch) -> float:
        """Learn a batch, then do what is due; return the seconds to wait before the next one."""
        labels = [example.label for example in batch.examples]
        x = unpack([example.x for example in batch.examples], self.config.input)
        try:
            self.counters.test(self.learner, x, labels)
            self.learner.learn(x, labels, key=[example.id for example in batch.examples])
        except EvenkeelError as error:  # a value is not finite; a replay after a crash refuses it too
            self.counters.refused += len(labels)
            self._report = replace(self._report, refusal=f"Batch {batch.number} was not learned: {error}")
        else:
            self.counters.count(labels)
        self.number = batch.number
        self._handled += len(labels)
        self._lately.add(len(labels))
        now = time.monotonic()
        self._unpublished += 1
        self._unsaved += 1
        self._unmeasured += 1
        if now - self._point_at >= MEASURE:
            self._add_point()
        if now - self._published_at >= self._publish_every:
            self._publish()
        limits = self.config.checkpoints
        if self._unsaved >= limits.batches or now - self._saved_at >= limits.seconds:
            self.save()
        return 0.0

    def _publish(self) -> None:
        """Send the report and a snapshot to the service."""
        self._measure()
        begun = time.monotonic()
        self._report = self._report.counted(self.counters)
        self.pipe.send("news", self._report)
        self.pipe.send("published", Published.of(self.learner, self.number))
        self.pipe.send("handled", self._handled)  # after the snapshot, so that what no longer waits is in it
        self._handled = 0
        self._published_at, self._unpublished = time.monotonic(), 0
        self._publish_every = max(PUBLISH, (self._published_at - begun) / PUBLISHING)

    def _measure(self) -> None:
        """Measure the recency bias, unless that would take too much of the time."""
        begun = time.monotonic()
        if begun >= self._measure_again:
            self._report = replace(self._report, recency_bias=memory_recency_bias(self.learner, self.counters.newest))
            now = time.monotonic()
            self._measure_again = now + (now - begun) / PUBLISHING

    def _add_point(self) -> None:
        """Add a point to the history."""
        self._measure()
        self.counters.add_point(
            accuracy=percent_right(self.counters.tested_lately),
            answered=percent_right(self._answered),
            recency_bias=self._report.recency_bias,
            queue=sum(len(batch.examples) for batch in self._ahead),
            rate=self._lately.rate,
        )
        self.pipe.send("history", self.counters.history)
        self._point_at, self._unmeasured = time.monotonic(), 0

    # Commands

    def save(self, *, asked: bool = False, note: str = "") -> Version:
        """Write a checkpoint of what has been learned so far."""
        keep = self.config.checkpoints.keep
        version = versions.save(
            self.model_folder, self.pipe, self.learner, self.counters, self.number, keep=keep, asked=asked, note=note
        )
        self._report_saved()
        return version

    def _report_saved(self) -> None:
        """Report that the current version was saved."""
        self._saved_at, self._unsaved = time.monotonic(), 0
        self._report = replace(self._report, saved=self.number)
        self.pipe.send("saved", self.number)

    def rollback(self, number: int) -> Version:
        """Resume from an earlier version. What was learned since then is lost; what waits is learned."""
        keep = self.config.checkpoints.keep
        learner, version = versions.go_back(
            self.model_folder, self.pipe, self.counters, number, learned=self.number, keep=keep
        )
        self.learner, self.number = learner, version.number
        self._ahead.clear()  # they were cut again
        self._woken = True
        self._report_saved()
        self._publish()
        return version

    def forget(self, id: str, *, prediction: bool) -> Forgotten:
        """Remove an example from the journal, from memory, and from the memory of every version that is kept.

        `prediction`: whether a prediction with this id was removed already.
        """
        held = self._query(partial(queries.find, id=id))
        learned = held.batch is not None and held.batch <= self.number
        waits = held.known and not learned
        memory = max(self.learner.forget(id), int(id in self._forgetting))
        if memory:
            self._forgetting.add(id)
        if learned or memory or self._unsaved:
            self.save()  # then the journal no longer needs the example, and the current version needs no scrubbing
        older = sum(self._scrub(number, id) for number in self.model_folder.versions() if number != self.number)
        if not (held.known or prediction or memory or older):
            raise UnknownError(f"Nothing is stored under the id {id!r}, neither in the journal nor in memory.")
        self.pipe.do(partial(queries.delete, id=id, withdrawn=waits))
        if waits:
            kept = [replace(each, examples=[one for one in each.examples if one.id != id]) for each in self._ahead]
            self._ahead = deque(batch for batch in kept if batch.examples)
            self._handled += 1
        self._publish()
        self.pipe.scrub()
        self._forgetting.discard(id)
        return Forgotten(waits, memory, older, prediction)

    def _scrub(self, number: int, id: str) -> bool:
        """Remove an example from an older version; return whether it was there. An unreadable version is deleted."""
        try:
            return versions.scrub(self.model_folder.version(number), id)
        except CheckpointError:
            self.pipe.do(partial(queries.drop_version, number=number))
            self.model_folder.version(number).unlink(missing_ok=True)
            return False


def run_worker(connection: Connection, path: Path, config: ServiceConfig, number: int) -> None:
    """Run a worker until it is stopped. It ends at once if the service is gone: another one may have taken over."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which says when to stop
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.nice(NICE)  # requests come first
        keep_freed_memory()
    torch.set_num_threads(config.threads or torch.get_num_threads())
    pipe = WorkerPipe(connection)
    try:
        model_folder = ModelFolder(path)
        with closing(open_reader(model_folder.journal)) as journal:
            Worker(model_folder, config, pipe, journal, number).run()
        pipe.send("stopped")
    except PipeError:
        pass
    except Exception as error:  # a bug of ours, or out of memory: the published model still predicts
        with suppress(PipeError):
            pipe.send("failed", f"Learning has stopped: {type(error).__name__}: {error}")
        raise
    finally:
        connection.close()
