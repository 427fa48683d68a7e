"""The journal: what was accepted is on disk before it is acknowledged.

SQLite in WAL mode, written by one thread. While a commit waits for the disk, new operations gather and share the next
commit (group commit), so that many clients cost few flushes. `queries` has the operations.
"""

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from evenkeel.errors import EvenkeelError
from evenkeel.files import is_writable
from evenkeel.service.store import queries, schema
from evenkeel.service.store.cutter import Cutter
from evenkeel.service.store.mark import MarkFile
from evenkeel.service.store.pieces import overwrite_pieces

T = TypeVar("T")
TIDY = 0.05  # seconds between steps of tidying while idle
PROBE = 1.0  # seconds between attempts to write after a failure
Operation = Callable[[sqlite3.Connection], T]


class JournalError(EvenkeelError):
    """The journal cannot be used; nothing of what was to be written is in it."""


@dataclass(frozen=True)
class _Order:
    """An operation for the writer, and the future that gets its result."""

    operation: "Operation[Any]"
    future: "Future[Any]"
    alone: bool


class Journal:
    """A database with one writer. Each operation is done whole or not at all; `tidy` is done in steps between them.

    After each commit, `mark` is where the position is written.
    """

    def __init__(self, path: Path, mark: Path, *, tidy: "Operation[bool]", cutter: Cutter) -> None:
        self.path = path
        self.failure: str | None = None  # why it cannot be written; None again as soon as it can
        self.cutter = cutter
        self._tidy = tidy
        self._untidy = True
        self._queue: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._db = _open_without_pieces(path)
        self._mark = MarkFile(mark)
        self._marking = False
        self._writer = threading.Thread(target=self._write_all, name="journal", daemon=True)
        self._writer.start()

    def write(self, operation: Operation[T]) -> "Future[T]":
        """Queue an operation. The future returns its result once it is durable."""
        return self._order(operation, alone=False)

    def write_alone(self, operation: Operation[T]) -> "Future[T]":
        """Queue an operation that runs outside a transaction, after all earlier ones are durable and reported."""
        return self._order(operation, alone=True)

    def do(self, operation: Operation[T]) -> T:
        """Run an operation and return its result once it is durable."""
        return self.write(operation).result()

    def start_marking(self) -> None:
        """Write the mark, now and after each commit: the journal belongs to the versions."""
        self._marking = True
        with suppress(JournalError):  # a full disk: `failure` says so, and it is tried again until there is room
            self.do(_probe)

    def tidy(self) -> None:
        """Start tidying."""
        self._untidy = True
        self.write(lambda _: None)  # wakes the writer

    def note_idle(self) -> None:
        """Record that the worker has nothing to learn."""
        self.write_alone(lambda _: self.cutter.note_idle())

    def scrub(self) -> "Future[None]":
        """Remove everything that was deleted from the database's log."""
        return self.write_alone(truncate_log)

    def close(self) -> None:
        """Write everything that is queued, and close the database."""
        self._queue.put(None)
        self._writer.join()
        self._db.close()
        self._mark.close()

    def _order(self, operation: Operation[T], *, alone: bool) -> "Future[T]":
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # it cannot be cancelled any more: the writer will set its result
        self._queue.put(_Order(operation, future, alone))
        return future

    def _write_all(self) -> None:
        """Run the queued operations in groups until the journal is closed."""
        self._commit([], due=True)  # version 0.1 left full batches uncut
        while True:
            try:
                group = [self._queue.get(timeout=self._pause())]
            except queue.Empty:
                # Try whether the journal can be written again, tidy a little more, or cut an incomplete batch.
                self._commit([_Order(_probe, Future(), alone=False)] if self.failure else [], due=True)
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

    def _pause(self) -> float | None:
        """Return the seconds until something is due without any order; None if nothing is."""
        if self.failure:
            return PROBE
        due = [self.cutter.pause(), TIDY if self._untidy else None]
        return min((pause for pause in due if pause is not None), default=None)

    def _commit(self, group: "list[_Order]", *, due: bool = False) -> None:
        """Run a group of operations in one transaction, then report their results.

        Batches are cut if anything was written, or that is `due`: reading must not fail because of a full disk.
        """
        outcomes: list[tuple[Future[Any], Any, BaseException | None]] = []
        changes, position = self._db.total_changes, None
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for order in group:
                outcomes.append((order.future, *self._savepoint(order.operation)))
            if self._untidy:
                self._untidy = self._tidy(self._db)
            if due or self._db.total_changes > changes:
                self.cutter.cut(self._db)
            if self._db.total_changes > changes:
                position = queries.advance(self._db)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:  # a full or broken disk, a damaged page: nothing of the group is written
            self._untidy = False
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            self.failure = str(error)
            failed = JournalError(f"The journal cannot be written ({error}). Nothing was changed.")
            outcomes = [(order.future, None, failed) for order in group]
        else:
            probed = any(order.operation is _probe for order in group)
            self.failure = None if probed or self._db.total_changes > changes else self.failure
            if position is not None and self._marking:
                self._mark.write(position)
        for future, result, exception in outcomes:
            if exception is None:
                future.set_result(result)
            else:
                future.set_exception(exception)
        self.cutter.committed()

    def _do_alone(self, order: "_Order") -> None:
        try:
            order.future.set_result(order.operation(self._db))
        except sqlite3.Error as error:
            order.future.set_exception(JournalError(f"The journal cannot be tidied up ({error})."))
        except Exception as error:
            order.future.set_exception(error)

    def _savepoint(self, operation: Operation[Any]) -> tuple[Any, BaseException | None]:
        """Run one operation of a group; return its result, or the error for which it was undone."""
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
    """Write without changing anything but the position."""
    db.execute("UPDATE meta SET value = value WHERE name = 'batch'")


def _open_without_pieces(path: Path) -> sqlite3.Connection:
    """Open the journal; if anything was forgotten since the last start, nothing of it is left in the file."""
    db = open_database(path, schema.prepare, flushed=True)
    if not queries.value(db, "unscrubbed"):
        return db
    are_gone = remove_pieces(db, path)
    db = open_database(path, schema.prepare, flushed=True)
    if are_gone:
        queries.set_value(db, "unscrubbed", 0)
    return db


def remove_pieces(db: sqlite3.Connection, path: Path) -> bool:
    """Close a database, and overwrite pieces of deleted data in its file; return False if the next start must try."""
    try:
        truncate_log(db)
        roots = [root for (root,) in db.execute("SELECT rootpage FROM sqlite_master WHERE rootpage > 0")]
        db.close()  # it may have pages with pieces in memory
        overwrite_pieces(path, roots)
    except (OSError, sqlite3.Error, JournalError):
        db.close()
        return False
    return True


def truncate_log(db: sqlite3.Connection) -> None:
    """Empty the database's log; raise JournalError if another process is reading it."""
    busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise JournalError(
            "Another process is reading the journal, so deleted data may still be in its log. Try again."
        )


def open_reader(path: Path) -> sqlite3.Connection:
    """Open a database for reading in another process, while this one keeps writing."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA query_only = ON")
    return db


def open_unchanged(path: Path) -> sqlite3.Connection:
    """Open a database so that neither it nor its log is changed, not even when it is closed.

    SQLite cannot read it in a folder in which it cannot create files, unless it knows that nobody writes to it.
    """
    is_still = not is_writable(path.parent) and not path.with_name(f"{path.name}-wal").exists()
    how = "mode=ro&immutable=1" if is_still else "mode=ro"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None)


def open_database(path: Path, prepare: Operation[object], *, flushed: bool) -> sqlite3.Connection:
    """Open a database for writing, and check it: better to find a damaged page now than in the middle of the night.

    `flushed`: what is committed survives a power cut; otherwise it survives only a kill.
    """
    try:
        if path.exists() and path.stat().st_size:
            _require_sound(path)
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {'FULL' if flushed else 'NORMAL'}")
        db.execute("PRAGMA secure_delete = ON")  # deleted data is overwritten: a client may have demanded that
        prepare(db)
    except sqlite3.Error as error:
        raise JournalError(f"{str(path)!r} cannot be used: {error}. It was left unchanged.") from error
    return db


def _require_sound(path: Path) -> None:
    """Raise sqlite3.Error if a page is damaged; a connection that may write would copy the log into it on closing."""
    with closing(open_unchanged(path)) as db:
        check = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if check != "ok":
        raise sqlite3.DatabaseError(check)
