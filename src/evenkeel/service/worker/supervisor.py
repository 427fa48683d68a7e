"""The service's end of the pipe: what the worker last reported, what waits for it, and commands to it."""

import atexit
import itertools
import multiprocessing
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from evenkeel.config.own import own_parts
from evenkeel.errors import EvenkeelError, reason
from evenkeel.service.config import ServiceConfig
from evenkeel.service.store import accounts, queries
from evenkeel.service.store.counters import Counters, Rate, percent_right
from evenkeel.service.store.journal import Journal, JournalError
from evenkeel.service.store.model_folder import ModelFolder
from evenkeel.service.store.recovery import resume
from evenkeel.service.worker.pipe import PipeError, Published, WorkerReport, receive, send
from evenkeel.service.worker.process import learner_context
from evenkeel.service.worker.queue_limits import QueueLimits
from evenkeel.service.worker.waiting import Waiting
from evenkeel.service.worker.worker import run_worker

SOON, PATIENCE = 0.1, 30.0  # seconds before a dead worker is restarted; longer each time it dies young


class Supervisor:
    """A worker in a process of its own or in a thread. One that dies is restarted, and resumes from the journal.

    `published` and `report` are what it last sent.
    """

    def __init__(
        self,
        model_folder: ModelFolder,
        config: ServiceConfig,
        journal: Journal,
        published: Published,
        counters: Counters,
        *,
        apart: bool,
    ) -> None:
        self.published = published
        self._points = counters.history
        # Until the worker sends its own.
        bias = (counters.history[-1]["recency_bias"] if counters.history else None) or 0.0  # version 0.1 had None
        report = WorkerReport(saved=published.version, recovering=True, recency_bias=bias)
        self.report = report.counted(counters, journal.do(accounts.refused))
        self.saved_at = time.monotonic()
        self.answered = deque(journal.do(queries.recent_answers), maxlen=queries.RECENT)
        self._model_folder, self._config, self._journal, self._apart = model_folder, config, journal, apart
        self.queue = Waiting()
        self._handled = Rate()
        self.limits = QueueLimits(config, self.queue, self._handled, lambda: self.report.refused)
        self._unsent_answers: list[bool] = []  # whether labelled answers were correct; the worker does not know yet
        self._sending = threading.Lock()
        self._tickets = itertools.count()
        self._commands: dict[int, Future[Any]] = {}
        self._connection: Connection | None = None
        self._worker: Any = None  # a process or a thread
        self._ending = False
        self.notice: str | None = None  # about damaged versions that were found since the start
        self._listener = threading.Thread(target=self._supervise, name="learning", daemon=True)
        journal.cutter.wake = self._wake
        journal.write_alone(self._count).result()

    def start(self) -> None:
        """Start the worker."""
        self._start_worker()
        self._listener.start()
        atexit.register(self._abandon)

    def stop(self) -> None:
        """Stop the worker after its current batch, with a checkpoint."""
        self._ending = True
        self._send("stop")
        if self._listener.ident is not None:
            self._listener.join()
        atexit.unregister(self._abandon)

    def _abandon(self) -> None:
        """Kill the worker if a program ends without stopping it: it ignores signals, and the exit would wait for it."""
        self._ending = True
        if self._apart:
            self._worker.kill()

    @property
    def alive(self) -> bool:
        """Check whether the worker is learning, or waiting to."""
        return self._listener.is_alive()

    @property
    def process(self) -> int | None:
        """Return the id of the worker's process; None if it has none of its own."""
        return getattr(self._worker, "pid", None)

    @property
    def rate(self) -> float:
        """Return the examples learned per second, over the last ten seconds."""
        return self._handled.rate

    @property
    def error(self) -> str | None:
        """Return why nothing is learned; None if all is well."""
        return self.report.error

    @property
    def history(self) -> list[dict[str, Any]]:
        """Return the points of the history and, once anything was accepted, one of now, which equals the status."""
        report = self.report
        now = {
            "time": time.time(),
            "learned": report.learned,
            "accuracy": report.lately,
            "answered": percent_right(self.answered),
            "recency_bias": report.recency_bias,
            "queue": self.waiting,
            "rate": self.rate,
        }
        return [*self._points, now] if self._points or self.waiting else []

    # The queue

    @property
    def waiting(self) -> int:
        """Return the number of examples accepted, or about to be, but not learned."""
        return self.queue.count

    def _wake(self) -> None:
        """Tell the worker that there are batches to learn. It is idle, so the pipe never fills up."""
        unsent, self._unsent_answers = self._unsent_answers, []
        self._send("wake", unsent)

    def _count(self, db: Any) -> None:
        """Count the queue. Runs in the journal's thread, after everything accepted before was counted."""
        self.queue.recount(queries.count_waiting(db, queries.value(db, "current")))

    # Commands

    def command(self, name: str, **arguments: Any) -> "Future[Any]":
        """Have the worker execute a command between two batches."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        ticket = next(self._tickets)
        self._commands[ticket] = future
        if not self.alive or not self._send("command", (ticket, name, arguments)):
            self._refuse(self.error or "The learning process is being restarted. Try again.", [ticket])
        return future

    def tell_answered(self, right: Sequence[bool]) -> None:
        """Record whether labelled answers were correct."""
        self.answered.extend(right)
        self._unsent_answers.extend(right)  # sent when the worker is woken

    def _refuse(self, reason: str, tickets: Sequence[int]) -> None:
        """Refuse commands with a JournalError."""
        for ticket in tickets:
            future = self._commands.pop(ticket, None)  # another thread may have taken it already
            if future is not None:
                future.set_exception(JournalError(reason))

    # The pipe

    def _start_worker(self) -> None:
        """Start a worker at the current version, with a new pipe."""
        ours, theirs = multiprocessing.Pipe()
        _, _, number, notice = resume(self._model_folder, self._journal, self._config.checkpoints)
        self.notice = notice or self.notice
        own = own_parts(self._config) if self._apart else []  # another process has to import them, too
        arguments = (theirs, self._model_folder.path, self._config, number, own)
        if self._apart:
            self._worker = learner_context().Process(
                target=run_worker, args=arguments, name="evenkeel learner", daemon=True
            )
        else:
            self._worker = threading.Thread(target=run_worker, args=arguments, name="learner", daemon=True)
        self._model_folder.delete_partial()
        self._journal.write_alone(self._count).result()
        with self._sending:
            if self._connection is not None:
                self._connection.close()
            self._connection = ours
        try:
            self._worker.start()
        finally:
            if self._apart:
                theirs.close()  # so that the pipe closes when the worker ends

    def _send(self, kind: str, value: Any = None, *, only: Connection | None = None) -> bool:
        """Send a message; return whether it was sent.

        `only`: send only if this is still the pipe. A reply meant for a worker that died would confuse the next one.
        """
        with self._sending:
            if self._connection is None or (only is not None and only is not self._connection):
                return False
            try:
                send(self._connection, (kind, value))
            except PipeError:
                return False
            return True

    def _supervise(self) -> None:
        """Listen to the worker until it ends, then refuse the commands that are left."""
        try:
            self._listen_and_restart()
        finally:  # whatever happened, a worker that is still there must not wait for us
            with self._sending:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
            self._refuse(self.error or "The service is being stopped.", list(self._commands))

    def _listen_and_restart(self) -> None:
        """Listen to the worker, and start another one whenever it dies without notice."""
        pause = SOON
        while True:
            begun = time.monotonic()
            if self._listen() or self._ending:
                break
            died = "The learning process died. It is being restarted."
            self.report = replace(self.report, error=self.report.error or died)
            self._refuse("The learning process died, and is being restarted. Try again.", list(self._commands))
            pause = SOON if time.monotonic() - begun > PATIENCE else min(2 * pause, PATIENCE)
            time.sleep(pause)
            try:
                self._start_worker()
            except (EvenkeelError, OSError) as error:  # the folder is away, or no version can be read: tried again
                self.report = replace(self.report, error=f"The learning process cannot be started ({reason(error)}).")
            if self._ending:  # the request may have gone to the one that died
                self._send("stop")
        self._worker.join()

    def _listen(self) -> bool:
        """Handle messages until the worker reports that it has ended; return False if it ended without a report."""
        connection = self._connection
        while connection is not None:
            try:
                kind, value = receive(connection)
            except PipeError:
                return False
            if kind == "stopped":
                return True
            self._handle(kind, value, connection)
        return False

    def _handle(self, kind: str, value: Any, connection: Connection) -> None:
        """Handle a message of the worker."""
        if kind == "handled":
            self._handled.add(value)
            self.queue.leave(value)
        elif kind == "published":
            if value.version >= self.published.version:  # otherwise it is catching up after it died
                self.published = value
        elif kind == "news":
            self.report = value
        elif kind == "failed":
            self.report = replace(self.report, error=f"{value} It is being restarted.")
        elif kind == "history":
            self._points = value
        elif kind == "saved":
            self.report, self.saved_at = replace(self.report, saved=value), time.monotonic()
            self._journal.tidy()
        elif kind == "done":
            ticket, result, error = value
            future = self._commands.pop(ticket, None)
            if future is not None and error is None:
                future.set_result(result)
            elif future is not None:
                future.set_exception(error)
        elif kind == "idle":
            self._journal.note_idle()
        else:
            self._request(kind, value).add_done_callback(partial(self._reply, connection))

    def _request(self, kind: str, value: Any) -> "Future[Any]":
        """Do what the worker requests, and waits for."""
        if kind == "recount":
            return self._journal.write_alone(self._count)
        return self._journal.write(value) if kind == "journal" else self._journal.scrub()

    def _reply(self, connection: Connection, done: "Future[Any]") -> None:
        """Send the outcome of a request to the worker that made it."""
        error = done.exception()
        self._send("reply", (None, error) if error is not None else (done.result(), None), only=connection)
