"""The journal: what was accepted is on the disk before anyone is told so.

SQLite in WAL mode, written by one thread. While a commit waits for the disk, what arrives gathers
and shares the next one (group commit), so that many clients cost few flushes. `records` has what is written.
"""

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from evenkeel.errors import EvenkeelError

T = TypeVar("T")
Operation = Callable[[sqlite3.Connection], T]


class JournalError(EvenkeelError):
    """The journal cannot be written; nothing of what was to be written is in it."""


class Journal:
    """Operations on one database, each whole or not at all. `tidy` is done a little at a time, between the others.

    `flushed`: an operation's result is told only when it would survive a power cut; without, a kill.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        *,
        flushed: bool = True,
        tidy: Callable[[sqlite3.Connection], bool] = lambda _: False,
    ) -> None:
        self.path = path
        self.failure: str | None = None  # why it cannot be written; None again after it could
        self._tidy = tidy
        self._untidy, self._scrub = True, False
        self._queue: queue.SimpleQueue[tuple[Operation[Any], Future[Any]] | None] = queue.SimpleQueue()
        try:
            self._db = open_database(path, schema, flushed=flushed)
        except sqlite3.Error as error:
            raise JournalError(f"The journal {str(path)!r} cannot be used: {error}. It is left as it is.") from None
        self._writer = threading.Thread(target=self._write_all, name="journal", daemon=True)
        self._writer.start()

    def write(self, operation: Operation[T]) -> "Future[T]":
        """Its result, once it is durable."""
        future: Future[T] = Future()
        self._queue.put((operation, future))
        return future

    def do(self, operation: Operation[T]) -> T:
        return self.write(operation).result()

    def tidy(self, *, scrub: bool = False) -> "Future[None]":
        """There is something to tidy. `scrub`: and nothing that was deleted may stay in the log beside the database."""
        self._untidy, self._scrub = True, self._scrub or scrub
        return self.write(lambda _: None)

    def close(self) -> None:
        """Once; what was handed over before is written."""
        self._queue.put(None)
        self._writer.join()
        self._db.close()

    def _write_all(self) -> None:
        while True:
            group = [self._queue.get()]
            while not self._queue.empty():
                group.append(self._queue.get())
            self._commit([each for each in group if each is not None])
            while self._untidy and self._queue.empty():
                self._commit([])
            if None in group:
                return

    def _commit(self, group: list[tuple[Operation[Any], Future[Any]]]) -> None:
        outcomes: list[tuple[Future[Any], Any, BaseException | None]] = []
        changes = self._db.total_changes
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for operation, future in group:
                outcomes.append((future, *self._savepoint(operation)))
            if self._untidy:
                self._untidy = self._tidy(self._db)
            self._db.execute("COMMIT")
            if self._scrub:
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._scrub = False
        except sqlite3.Error as error:  # a full or broken disk, a damaged page: of the whole group nothing is written
            self._untidy = False
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            self.failure = str(error)
            told = JournalError(f"The journal cannot be written ({error}). Nothing of this request was accepted.")
            outcomes = [(future, None, told) for _, future in group]
        else:
            self.failure = self.failure if self._db.total_changes == changes else None
        for future, result, fault in outcomes:
            if fault is None:
                future.set_result(result)
            else:
                future.set_exception(fault)

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


def open_database(path: Path, schema: str, *, flushed: bool) -> sqlite3.Connection:
    """Ready to be written, and whole: a damaged page is found here and not in the middle of the night."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {'FULL' if flushed else 'NORMAL'}")
    db.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten: someone may have asked for that
    found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    db.executescript(schema)
    return db
