"""The service's end of the pipe: what the engine last told, what waits for it, and commands to it."""

import atexit
import itertools
import multiprocessing
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from evenkeel.errors import EvenkeelError
from evenkeel.service.config import ServiceConfig
from evenkeel.service.store import queries
from evenkeel.service.store.counters import RECENT, Counters, Rate
from evenkeel.service.store.folder import ModelFolder
from evenkeel.service.store.journal import Journal, JournalError
from evenkeel.service.worker.pipe import PipeError, Published, WorkerReport, receive, send
from evenkeel.service.worker.worker import run_worker

SOON, PATIENCE = 0.1, 30.0  # seconds before an engine that died is started again, more each time it dies young


class Supervisor:
    """An engine, in a process of its own or in a thread; one that dies is started again where the journal is.

    `published` and `news` are what it last told.
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
        self.history = counters.history
        self.report = WorkerReport(saved=published.version, recovering=True).counted(
            counters
        )  # until it says otherwise
        self.saved_at = time.monotonic()
        self.answered = deque(journal.do(queries.recent_answers), maxlen=RECENT)
        self._model_folder, self._config, self._journal, self._apart = model_folder, config, journal, apart
        self._counting = threading.Lock()
        self._handled = Rate()
        self._reserved = 0  # examples about to be accepted
        self._queued = 0  # examples accepted but not learned
        self._woken = False  # since it last asked for batches
        self._untold: list[bool] = []  # whether answers that were given were right
        self._sending = threading.Lock()
        self._tickets = itertools.count()
        self._commands: dict[int, Future[Any]] = {}
        self._connection: Connection | None = None
        self._worker: Any = None  # a process or a thread
        self._ending = False
        self.over: str | None = None  # why it will not go on
        self._listener = threading.Thread(target=self._keep_going, name="learning", daemon=True)
        journal.write_alone(self._count).result()

    def start(self) -> None:
        self._start_worker()
        self._listener.start()
        atexit.register(self._abandon)

    def stop(self) -> None:
        """After the batch at hand, with a checkpoint."""
        self._ending = True
        self._send("stop")
        if self._listener.ident is not None:
            self._listener.join()
        atexit.unregister(self._abandon)

    def _abandon(self) -> None:
        """At the end of a program that did not stop it: it hears no signals, and would be waited for."""
        self._ending = True
        if self._apart:
            self._worker.kill()

    @property
    def alive(self) -> bool:
        """Whether it is learning, or waiting to."""
        return self._listener.is_alive() and self.over is None

    @property
    def process(self) -> int | None:
        """Of the engine, where it has one of its own."""
        return getattr(self._worker, "pid", None)

    @property
    def rate(self) -> float:
        """Examples learned a second, lately."""
        return self._handled.rate

    @property
    def error(self) -> str | None:
        return self.over or self.report.error

    # The queue

    @property
    def waiting(self) -> int:
        """Examples accepted, or about to be, but not learned."""
        return self._reserved + self._queued

    def reserve(self, count: int, most: int) -> bool:
        """Room in the queue, of `most` places, for examples that are about to be accepted."""
        with self._counting:
            if self.waiting + count > most:
                return False
            self._reserved += count
            return True

    def settle(self, reserved: int, accepted: int) -> None:
        """Of so many that were about to be, so many were accepted."""
        with self._counting:
            self._reserved -= reserved
            self._queued += accepted
        if accepted and not self._woken:  # once is enough: the pipe must not fill up while a batch is learned
            self._woken = True  # before it can ask, which takes it back
            self._send("wake")

    def _count(self, db: Any) -> None:
        """In the journal's thread, when all that was accepted before is counted."""
        with self._counting:
            self._queued = queries.waiting(db)[0]

    # Commands

    def command(self, name: str, **arguments: Any) -> "Future[Any]":
        """Have something done between two batches."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        ticket = next(self._tickets)
        self._commands[ticket] = future
        if not self.alive or not self._send("command", (ticket, name, arguments)):
            self._refuse(self.error or "The learner is just being started again. Try it once more.", [ticket])
        return future

    def tell_answered(self, right: Sequence[bool]) -> None:
        """Whether answers that were given were right."""
        self.answered.extend(right)
        self._untold.extend(right)  # the engine hears it when it asks for something

    def _refuse(self, why: str, tickets: Sequence[int]) -> None:
        for ticket in tickets:
            future = self._commands.pop(ticket, None)  # another thread may have it already
            if future is not None:
                future.set_exception(JournalError(why))

    # The pipe

    def _start_worker(self) -> None:
        ours, theirs = multiprocessing.Pipe()
        number = self._journal.do(partial(queries.value, name="current"))
        arguments = (theirs, self._model_folder.path, self._config, number)
        if self._apart:
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload(["evenkeel.service.worker.worker"])
            self._worker = context.Process(target=run_worker, args=arguments, name="evenkeel learner", daemon=True)
        else:
            self._worker = threading.Thread(target=run_worker, args=arguments, name="learner", daemon=True)
        self._model_folder.delete_partial()
        self._journal.write_alone(self._count).result()
        with self._sending:
            if self._connection is not None:
                self._connection.close()
            self._connection, self._woken = ours, False
        try:
            self._worker.start()
        finally:
            if self._apart:
                theirs.close()  # so that its end is the end of the pipe

    def _send(self, kind: str, value: Any = None, *, only: Connection | None = None) -> bool:
        """`only`: if that is still the pipe. A reply to an engine that died would puzzle the next."""
        with self._sending:
            if self._connection is None or (only is not None and only is not self._connection):
                return False
            try:
                send(self._connection, (kind, value))
            except PipeError:
                return False
            return True

    def _keep_going(self) -> None:
        """Listen to the engine; where it ends without a word, start another."""
        try:
            self._listen_on()
        finally:  # whatever happened, an engine that is still there must not wait for us
            with self._sending:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
            self._refuse(self.error or "The service is being stopped.", list(self._commands))

    def _listen_on(self) -> None:
        pause = SOON
        while True:
            begun = time.monotonic()
            if self._listen() or self._ending:
                break
            self.report = replace(self.report, error="The learning process died. It is started again.")
            self._refuse("The learning process died, and is started again. Try it once more.", list(self._commands))
            pause = SOON if time.monotonic() - begun > PATIENCE else min(2 * pause, PATIENCE)
            time.sleep(pause)
            with suppress(EvenkeelError, OSError):
                self._start_worker()
            if self._ending:  # perhaps said to the one that died
                self._send("stop")
        self._worker.join()

    def _listen(self) -> bool:
        """Until the engine says that it has ended; False if it did not say so."""
        connection = self._connection
        while connection is not None:
            try:
                kind, value = receive(connection)
            except PipeError:
                return False
            if kind == "failed":
                self.over = value
            if kind in ("failed", "stopped"):
                return True
            self._hear(kind, value, connection)
        return False

    def _hear(self, kind: str, value: Any, connection: Connection) -> None:
        if kind == "handled":
            self._handled.add(value)
            with self._counting:
                self._queued -= value
        elif kind == "published":
            if value.version >= self.published.version:  # else it is catching up after it died
                self.published = value
        elif kind == "news":
            self.report = value
        elif kind == "history":
            self.history = value
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
        else:
            self._woken = False
            untold, self._untold = self._untold, []
            if untold:
                self._send("answered", untold)
            asked: Future[Any] = self._journal.write(value) if kind == "journal" else self._journal.scrub()
            asked.add_done_callback(partial(self._reply, connection))

    def _reply(self, connection: Connection, done: "Future[Any]") -> None:
        error = done.exception()
        self._send("reply", (None, error) if error is not None else (done.result(), None), only=connection)
