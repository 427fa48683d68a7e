"""The journal: what was accepted is on the disk before anyone is told so.

SQLite in WAL mode, written by one thread. While a commit waits for the disk, what arrives gathers and shares the next
one (group commit), so that many clients cost few flushes. `records` has what is written.
"""

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from evenkeel.errors import EvenkeelError

T = TypeVar("T")
TIDY = 0.05  # seconds between steps of tidying while there is nothing else to do
PROBE = 1.0  # seconds between attempts to write after a failure
Operation = Callable[[sqlite3.Connection], T]


class JournalError(EvenkeelError):
    """The journal cannot be written; nothing of what was to be written is in it."""


@dataclass(frozen=True)
class _Order:
    operation: "Operation[Any]"
    future: "Future[Any]"
    alone: bool


class Journal:
    """Operations on one database, each whole or not at all. `tidy` is done a little at a time, between the others."""

    def __init__(self, path: Path, schema: str, *, tidy: "Operation[bool]") -> None:
        self.path = path
        self.failure: str | None = None  # why it cannot be written; None again after it could
        self._tidy = tidy
        self._untidy = True
        self._queue: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._db = open_database(path, schema, flushed=True)
        self._writer = threading.Thread(target=self._write_all, name="journal", daemon=True)
        self._writer.start()

    def write(self, operation: Operation[T]) -> "Future[T]":
        """Its result, once it is durable."""
        return self._order(operation, alone=False)

    def write_alone(self, operation: Operation[T]) -> "Future[T]":
        """After everything before it is durable, and told; not in a transaction."""
        return self._order(operation, alone=True)

    def do(self, operation: Operation[T]) -> T:
        return self.write(operation).result()

    def tidy(self) -> None:
        """There is something to tidy."""
        self._untidy = True
        self.write(lambda _: None)  # wakes the writer

    def scrub(self) -> "Future[None]":
        """Nothing that was deleted stays in the log beside the database."""
        return self.write_alone(truncate_log)

    def close(self) -> None:
        """What was handed over before is written."""
        self._queue.put(None)
        self._writer.join()
        self._db.close()

    def _order(self, operation: Operation[T], *, alone: bool) -> "Future[T]":
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # nobody can cancel it any more: the writer will set its result
        self._queue.put(_Order(operation, future, alone))
        return future

    def _write_all(self) -> None:
        while True:
            try:
                group = [self._queue.get(timeout=PROBE if self.failure else TIDY if self._untidy else None)]
            except queue.Empty:
                # Whether it can be written again, or a little more of what is to be tidied.
                self._commit([_Order(_probe, Future(), alone=False)] if self.failure else [])
                continue
            while not self._queue.empty():
                group.append(self._queue.get())
            orders = [each for each in group if each is not None]
            together = [each for each in orders if not each.alone]
            if together:
                self._commit(together)
            for order in orders:
                if order.alone:
                    self._do_alone(order)
            if None in group:
                return

    def _commit(self, group: "list[_Order]") -> None:
        outcomes: list[tuple[Future[Any], Any, BaseException | None]] = []
        changes = self._db.total_changes
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for order in group:
                outcomes.append((order.future, *self._savepoint(order.operation)))
            if self._untidy:
                self._untidy = self._tidy(self._db)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:  # a full or broken disk, a damaged page: of the whole group nothing is written
            self._untidy = False
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            self.failure = str(error)
            told = JournalError(f"The journal cannot be written ({error}). Nothing of this was done.")
            outcomes = [(order.future, None, told) for order in group]
        else:
            probed = any(order.operation is _probe for order in group)
            self.failure = None if probed or self._db.total_changes > changes else self.failure
        for future, result, fault in outcomes:
            if fault is None:
                future.set_result(result)
            else:
                future.set_exception(fault)

    def _do_alone(self, order: "_Order") -> None:
        try:
            order.future.set_result(order.operation(self._db))
        except sqlite3.Error as error:
            order.future.set_exception(JournalError(f"The journal cannot be tidied up ({error})."))
        except Exception as error:
            order.future.set_exception(error)

    def _savepoint(self, operation: Operation[Any]) -> tuple[Any, BaseException | None]:
        self._db.execute("SAVEPOINT one")
        try:
            result = operation(self._db)
        except sqlite3.Error:
            raise
        except Exception as error:
            self._db.execute("ROLLBACK TO one")
            return None, error
        finally:
            if self._db.in_transaction:
                self._db.execute("RELEASE one")
        return result, None


def _probe(db: sqlite3.Connection) -> None:
    """A write that changes nothing."""
    db.execute("PRAGMA user_version = 1")


def truncate_log(db: sqlite3.Connection) -> None:
    busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise JournalError(
            "Another process reads the journal, so what was deleted may still stand in its log. Try again."
        )


def open_reader(path: Path) -> sqlite3.Connection:
    """For another process: while it reads, this one goes on writing."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA query_only = ON")
    return db


def open_database(path: Path, schema: str, *, flushed: bool) -> sqlite3.Connection:
    """Ready to be written, and whole: a damaged page is found here and not in the middle of the night.

    `flushed`: what is committed survives a power cut; without, only a kill.
    """
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {'FULL' if flushed else 'NORMAL'}")
        db.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten: someone may have asked for that
        found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        db.executescript(schema)
        with suppress(sqlite3.OperationalError):  # there may be no room for it
            db.execute("PRAGMA temp_store = MEMORY")
            db.execute("VACUUM")  # where rows were moved between pages, pieces of what was deleted may have been left
    except sqlite3.Error as error:
        raise JournalError(f"The journal {str(path)!r} cannot be used: {error}. It is left as it is.") from error
    return db
