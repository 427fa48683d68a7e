"""Predictions that are kept so that they can be labelled later.

They have a database of their own, which is not flushed with each answer: a kill loses none of them, a power cut perhaps
the last few, whose labels are then refused with an error. The thread that answers also writes: that takes a tenth of a
millisecond, and handing it to another thread would take several times as long.
"""

import json
import math
import sqlite3
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from evenkeel.service.config import ServiceLimits
from evenkeel.service.store.journal import JournalError, open_database, remove_pieces, truncate_log
from evenkeel.service.store.queries import marks

PATIENCE = 0.1  # seconds for which an answer waits if another process has locked the database
UNSCRUBBED = 1  # `user_version` if something was forgotten of which pieces may be left
PAUSE = 1.0  # seconds after that in which no answer waits: they would wait one after another

SCHEMA = """
CREATE TABLE IF NOT EXISTS predictions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    answered TEXT NOT NULL,  -- JSON
    x BLOB NOT NULL
);
"""
INSERT = "INSERT INTO predictions (id, version, answered, x, time) VALUES (?, ?, ?, ?, ?)"


@dataclass(frozen=True)
class Prediction:
    """A sample, and the label that was predicted for it."""

    id: str
    version: int
    answered: Hashable
    x: bytes


@dataclass(frozen=True)
class Kept:
    """How many predictions are kept: the newest, within all of these limits."""

    count: int
    bytes: int = 2**62
    seconds: float = math.inf

    @classmethod
    def of(cls, limits: ServiceLimits) -> "Kept":
        """Return what a config says."""
        hours = math.inf if limits.prediction_hours is None else limits.prediction_hours
        return cls(limits.predictions, limits.prediction_bytes, 3600 * hours)


class Predictions:
    """The newest predictions, and up to a hundredth more. Safe to use from any thread.

    A clock that jumps back keeps them longer; one that jumps ahead drops them early.
    """

    def __init__(self, path: Path, most: Kept) -> None:
        self.most = most
        self.notice: str | None = None  # if those that were kept before are lost
        self._lock = threading.Lock()
        self._db = self._open(path)
        self._db.execute(f"PRAGMA busy_timeout = {int(1000 * PATIENCE)}")
        (self._bytes,) = self._db.execute("SELECT coalesce(sum(length(x)), 0) FROM predictions").fetchone()  # at most
        self._dropped = 0  # the last one that was dropped because there were too many
        self._try_again = 0.0
        self._unscrubbed: set[str] = set()  # deleted, but perhaps still in the log
        with suppress(JournalError), self._transaction() as db:  # if it cannot be written now, they are dropped later
            (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM predictions").fetchone()
            self._drop_oldest(db, last, time.time())

    def remember(self, predictions: Sequence[Prediction]) -> None:
        """Keep these predictions, and drop the oldest ones beyond `most`."""
        now = time.time()
        rows = [(each.id, each.version, json.dumps(each.answered), each.x, now) for each in predictions]
        if len(rows) == 1:  # a transaction by itself, in a third of the statements
            with self._locked():
                last = self._db.execute(INSERT, rows[0]).lastrowid or 0
        else:
            with self._transaction() as db:
                last = [db.execute(INSERT, row).lastrowid for row in rows][-1] or 0
        self._bytes += sum(len(each.x) for each in predictions)
        if self._is_too_much(last):
            with self._transaction() as db:
                self._drop_oldest(db, last, now)

    def _is_too_much(self, last: int) -> bool:
        """Check whether there may be too many, too large or too old ones; `last` is the newest."""
        too_many = last - self._dropped > self.most.count + self.most.count // 100
        return too_many or self._bytes > self.most.bytes or self.most.seconds < math.inf

    def _drop_oldest(self, db: sqlite3.Connection, last: int, now: float) -> None:
        """Drop what is beyond `most`."""
        self._dropped = last - self.most.count
        db.execute("DELETE FROM predictions WHERE seq <= ?", (self._dropped,))
        if self.most.seconds < math.inf:
            self._drop_old(db, now - self.most.seconds)
        if self._bytes > self.most.bytes:
            self._drop_to_size(db)

    def _drop_old(self, db: sqlite3.Connection, before: float) -> None:
        """Drop the oldest until one is left that was made after this time."""
        db.execute(
            "DELETE FROM predictions WHERE seq < coalesce((SELECT seq FROM predictions WHERE time >= ? ORDER BY seq "
            "LIMIT 1), (SELECT max(seq) + 1 FROM predictions))",
            (before,),
        )

    def _drop_to_size(self, db: sqlite3.Connection) -> None:
        """Drop the oldest until a tenth less than `most` is left, so that this is rarely done."""
        room, last = 0.9 * self.most.bytes, 0
        for seq, size in db.execute("SELECT seq, length(x) FROM predictions ORDER BY seq DESC"):
            room -= size
            if room < 0:
                last = seq
                break
        db.execute("DELETE FROM predictions WHERE seq <= ?", (last,))
        (self._bytes,) = db.execute("SELECT coalesce(sum(length(x)), 0) FROM predictions").fetchone()

    def fetch(self, ids: Sequence[str]) -> dict[str, Prediction]:
        """Return those of these predictions that are kept."""
        with self._transaction() as db:
            rows = db.execute(f"SELECT id, version, answered, x FROM predictions WHERE id IN ({marks(ids)})", ids)
            return {id: Prediction(id, version, json.loads(answered), x) for id, version, answered, x in rows}

    def held(self, ids: Sequence[str]) -> list[str]:
        """Return those of these ids whose predictions are kept."""
        with self._transaction() as db:
            rows = db.execute(f"SELECT id FROM predictions WHERE id IN ({marks(ids)})", ids)
            return [id for (id,) in rows]

    def drop(self, ids: Sequence[str]) -> None:
        """Delete predictions that are no longer needed."""
        with self._transaction() as db:
            db.execute(f"DELETE FROM predictions WHERE id IN ({marks(ids)})", ids)

    def forget(self, ids: Sequence[str]) -> list[str]:
        """Delete predictions so that nothing of them remains in any file, even of those that were dropped before.

        Return which were kept, also if an earlier attempt deleted them but could not empty the log.
        """
        with self._transaction() as db:
            for id in ids:
                if db.execute("DELETE FROM predictions WHERE id = ?", (id,)).rowcount:
                    self._unscrubbed.add(id)
            db.execute(f"PRAGMA user_version = {UNSCRUBBED}")  # also for pieces of those that were dropped before
        with self._locked():
            truncate_log(self._db)
            were_kept, self._unscrubbed = [id for id in ids if id in self._unscrubbed], set()
            return were_kept

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _open(self, path: Path) -> sqlite3.Connection:
        """Open the database; if anything was forgotten since the last start, nothing of it is left in the file."""
        db = self._open_or_replace(path)
        if db.execute("PRAGMA user_version").fetchone()[0] != UNSCRUBBED:
            return db
        are_gone = remove_pieces(db, path)
        db = self._open_or_replace(path)
        if are_gone:
            db.execute("PRAGMA user_version = 0")
        return db

    def _open_or_replace(self, path: Path) -> sqlite3.Connection:
        """Open the database. Nothing in it was promised to anyone, so a damaged one is set aside."""
        try:
            return open_database(path, _prepare, flushed=False)
        except JournalError as error:
            if isinstance(error.__cause__, sqlite3.OperationalError):  # locked, or a disk that fails: not damaged
                raise
            aside = path.replace(path.with_name(f"{path.name}.damaged"))
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            self.notice = (
                f"{path.name} is damaged ({error.__cause__}). It was renamed to {aside.name}; predictions made "
            )
            self.notice += "before cannot be labelled any more."
            return open_database(path, _prepare, flushed=False)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._locked():
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if time.monotonic() < self._try_again:
            raise JournalError("The predictions are locked by another process. Try again.")
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:  # not all errors have a code
                    self._try_again = time.monotonic() + PAUSE
                raise JournalError(f"The predictions cannot be written or read ({error}).") from error


def _prepare(db: sqlite3.Connection) -> None:
    """Create the table."""
    db.executescript(SCHEMA)
    if "time" not in {row[1] for row in db.execute("PRAGMA table_info(predictions)")}:  # version 0.1 had no such column
        db.execute("ALTER TABLE predictions ADD COLUMN time REAL")
        db.execute("UPDATE predictions SET time = ?", (time.time(),))
    db.execute("DROP INDEX IF EXISTS by_time")  # they are in the order of time anyway
