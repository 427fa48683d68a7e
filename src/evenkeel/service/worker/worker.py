"""The worker behind a service, which learns what the journal holds, in order, batch by batch.

It runs in a process of its own, so that predictions never wait for it, and talks to the service through a pipe: it
is woken when batches were cut, reads them itself, and sends what is to be published. `supervisor` is the other end.
"""

import os
import signal
import sqlite3
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from evenkeel.config.own import OwnPart, register_again
from evenkeel.errors import EvenkeelError, reason
from evenkeel.files import keep_freed_memory
from evenkeel.service.config import ServiceConfig
from evenkeel.service.store import queries
from evenkeel.service.store.journal import JournalError, Operation, T, open_reader
from evenkeel.service.store.model_folder import ModelFolder
from evenkeel.service.store.queries import CutBatch
from evenkeel.service.store.version_rows import Version
from evenkeel.service.worker.forgetting import Forgetting
from evenkeel.service.worker.learning import Learning
from evenkeel.service.worker.pipe import PipeError, WorkerPipe
from evenkeel.service.worker.publishing import Publisher

AHEAD = 16  # batches read from the journal at once
NICE = 10  # niceness of the learner's process, which gives way to requests where there are few cores
PAUSE, PATIENCE = 1.0, 30.0  # seconds before what failed is tried again: at first, and at most


class Worker:
    """The owner of the learner: everything that changes it happens here, one thing after another."""

    def __init__(
        self,
        model_folder: ModelFolder,
        config: ServiceConfig,
        pipe: WorkerPipe,
        journal: sqlite3.Connection,
        number: int,
    ) -> None:
        self.config = config
        self.pipe = pipe
        self.learning = Learning(model_folder, config, pipe, number)
        self._journal = journal
        self._publisher = Publisher(pipe, self.learning, self._query(queries.recent_answers), self._waiting)
        self._forgetting = Forgetting(model_folder, pipe, self.learning)
        self._forgets = deque[tuple[int, Iterator[dict[str, Any]]]]()  # requests being worked on, with their tickets
        self._ahead = deque[CutBatch]()
        self._woken = True  # whether the journal may hold batches besides `_ahead`
        self._recover_to = self._query(queries.last_cut)
        self._saved_at = time.monotonic()
        self._reload = False  # whether the learner may have been left in the middle of a batch
        self._pause = PAUSE

    def run(self) -> None:
        """Learn until a stop request arrives. What fails is tried again, after longer and longer pauses."""
        self._publisher.publish()
        pause: float | None = 0.0
        while self._handle_messages(pause):
            try:
                pause = self._turn()
                self._publisher.note(error=None)
                self._pause = PAUSE
            except (JournalError, OSError, MemoryError) as error:
                self._publisher.note(error=str(error) if isinstance(error, JournalError) else _sentence(error))
                pause, self._pause = self._pause, min(2 * self._pause, PATIENCE)
        self._finish_forgets()
        if self.learning.unsaved and not self._reload:
            with suppress(JournalError):  # then the next start replays the journal
                self.save()

    def _turn(self) -> float | None:
        """Do the next thing; return the seconds until more is due, None if nothing is."""
        if self._reload:
            self.learning.reload()
            self._ahead.clear()
            self._publisher.recount()
            self._woken, self._reload = True, False
        self._advance_forget()
        batch = self._next()
        pause = self._rest() if batch is None else self._learn(batch)
        return 0.0 if self._forgets else pause

    def _handle_messages(self, pause: float | None) -> bool:
        """Wait up to `pause` seconds for messages and handle them; return False on a stop request."""
        message = self.pipe.receive(pause)
        while message is not None:
            kind, value = message
            if kind == "stop":
                return False
            if kind == "wake":
                self._woken = True
                self._publisher.answered.extend(value)
            elif kind == "command":
                self._command(*value)
            message = self.pipe.receive(0.0)
        return True

    # Learning

    def _next(self) -> CutBatch | None:
        """Return the next batch; None if there is none yet."""
        if not self._ahead and self._woken:
            self._read()
        if not self._ahead or self._ahead[0].number > self._recover_to:
            self._publisher.note(recovering=False)
        return self._ahead.popleft() if self._ahead else None

    def _read(self) -> None:
        """Read the next batches, and report if there are none."""
        self._ahead.extend(self._query(partial(queries.batches, after=self.learning.number, most=AHEAD)))
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
        self._publisher.do_what_is_due(resting=True)
        if self.learning.unsaved and self._seconds_unsaved >= self.config.checkpoints.seconds:
            self.save()
        due = self._publisher.due()
        if self.learning.unsaved:
            due.append(self._saved_at + self.config.checkpoints.seconds)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _learn(self, batch: CutBatch) -> float:
        """Learn a batch, then do what is due; return the seconds to wait before the next one."""
        try:
            self.learning.learn(batch)
        except Exception as error:
            self._reload = True
            if not _is_of_the_machine(error):
                self.learning.skip(batch.number, error)
                return 0.0
            raise MemoryError(reason(error)) from error
        self._publisher.count(len(batch.examples) + len(batch.damaged))
        self._publisher.do_what_is_due(resting=False)
        limits = self.config.checkpoints
        is_due = self.learning.unsaved >= limits.batches or self._seconds_unsaved >= limits.seconds
        if is_due or self.learning.skipped:
            self.save()
        return 0.0

    def _waiting(self) -> int:
        return self._query(partial(queries.count_waiting, after=self.learning.number))

    @property
    def _seconds_unsaved(self) -> float:
        return time.monotonic() - self._saved_at

    # Commands

    def _command(self, ticket: int, name: str, arguments: dict[str, Any]) -> None:
        """Execute a command, and send its result or error. A request to forget is answered later."""
        commands: dict[str, Callable[..., Any]] = {
            "save": self.save,
            "rollback": self.rollback,
            "retry": self.retry,
            "drop": self.drop,
        }
        if name == "forget":
            self._forgets.append((ticket, self._forget(**arguments)))
            return
        result, failure = None, None
        try:
            if self._reload:
                raise JournalError("The learner is being restored from the last checkpoint. Try again.")
            result = commands[name](**arguments)
        except (EvenkeelError, OSError) as error:
            failure = error if isinstance(error, EvenkeelError) else JournalError(_sentence(error))
        self._publisher.publish_rest()  # the client that gave the command sees everything learned before it
        self.pipe.send("done", (ticket, result, failure))

    def save(self, *, asked: bool = False, note: str = "") -> Version:
        """Write a checkpoint of what has been learned so far."""
        version = self.learning.save(asked=asked, note=note)
        self._report_saved()
        return version

    def _report_saved(self) -> None:
        """Report that the current version was saved."""
        self._saved_at = time.monotonic()
        self.pipe.send("saved", self.learning.saved)

    def rollback(self, number: int) -> Version:
        """Resume from an earlier version. What was learned since then is lost; what waits is learned."""
        self._finish_forgets()  # the version may hold what is to be forgotten
        version = self.learning.rollback(number)
        self._ahead.clear()  # they were cut again
        self._woken = True
        self._report_saved()
        self._publisher.publish()
        return version

    def retry(self, batch: int | None = None) -> int:
        """Let examples that were set aside wait again; return how many."""
        count = self.learning.retry(batch)
        self._publisher.leave(-count)
        self._publisher.publish()
        return count

    def drop(self, batch: int | None = None) -> int:
        """Withdraw examples that were set aside; return how many."""
        count = self.learning.drop(batch)
        self._publisher.publish()
        return count

    # Forgetting

    def _forget(self, ids: Sequence[str], predictions: Sequence[str]) -> "Iterator[dict[str, Any]]":
        """Forget ids in steps. The first removes them from memory and journal, and so from what was read ahead."""
        steps = self._forgetting.steps(ids, predictions)
        first = next(steps)
        self._ahead = deque(batch for each in self._ahead if (batch := each.without(set(ids))) is not None)
        self._publisher.leave(self._forgetting.withdrawn)
        self._report_saved()
        self._publisher.publish()
        yield first  # only now: the next batch is learned before the next step
        yield from steps

    def _advance_forget(self) -> None:
        """Do the next step of the oldest request to forget, and answer it if that was the last."""
        if not self._forgets or self._reload:
            return
        ticket, steps = self._forgets[0]
        result, failure = None, None
        try:
            result = next(steps)
        except EvenkeelError as error:
            failure = error
        except OSError as error:
            failure = JournalError(_sentence(error))
        if result or failure:
            self._forgets.popleft()
            self.pipe.send("done", (ticket, result, failure))

    def _finish_forgets(self) -> None:
        while self._forgets and not self._reload:
            self._advance_forget()


def _is_of_the_machine(error: Exception) -> bool:
    """Check whether an error says that memory or disk are at fault, and so not the batch."""
    return isinstance(error, MemoryError | OSError | torch.OutOfMemoryError) or "allocate memory" in str(error)


def _sentence(error: BaseException) -> str:
    return f"Learning is interrupted ({type(error).__name__}: {reason(error)}). It is tried again."


def run_worker(
    connection: Connection, path: Path, config: ServiceConfig, number: int, own: Sequence[OwnPart] = ()
) -> None:
    """Run a worker until it is stopped. It ends at once if the service is gone: another one may have taken over."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which says when to stop
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.nice(NICE)  # requests come first
        keep_freed_memory()
    torch.set_num_threads(config.threads or torch.get_num_threads())
    pipe = WorkerPipe(connection)
    try:
        register_again(own)
        model_folder = ModelFolder(path)
        model_folder.device = config.device
        with closing(open_reader(model_folder.journal)) as journal:
            Worker(model_folder, config, pipe, journal, number).run()
        pipe.send("stopped")
    except PipeError:
        pass
    except Exception as error:  # a bug of ours: the published model still predicts, and another worker is started
        traceback.print_exc()
        with suppress(PipeError):
            pipe.send("failed", f"The learning process failed ({type(error).__name__}: {reason(error)}).")
    finally:
        connection.close()
