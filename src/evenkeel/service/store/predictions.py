"""Predictions that are kept so that they can be labelled later.

They have a database of their own, which is not flushed with each answer: a kill loses none of them, a power cut perhaps
the last few, whose labels are then refused with an error. The thread that answers also writes: that takes a tenth of a
millisecond, and handing it to another thread would take several times as long.
"""

import json
import sqlite3
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from evenkeel.service.store.journal import JournalError, open_database, truncate_log
from evenkeel.service.store.queries import marks

PATIENCE = 0.1  # seconds for which an answer waits if another process has locked the database
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


@dataclass(frozen=True)
class Prediction:
    """A sample, and the label that was predicted for it."""

    id: str
    version: int
    answered: Hashable
    x: bytes


class Predictions:
    """The newest `most` predictions. Safe to use from any thread."""

    def __init__(self, path: Path, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._db = _open(path)
        self._db.execute(f"PRAGMA busy_timeout = {int(1000 * PATIENCE)}")
        self._try_again = 0.0
        self._unscrubbed: set[str] = set()  # deleted, but perhaps still in the log

    def remember(self, predictions: Sequence[Prediction]) -> None:
        """Keep these predictions, and drop the oldest ones beyond `most`."""
        rows = [(each.id, each.version, json.dumps(each.answered), each.x) for each in predictions]
        with self._transaction() as db:
            db.executemany("INSERT INTO predictions (id, version, answered, x) VALUES (?, ?, ?, ?)", rows)
            db.execute("DELETE FROM predictions WHERE seq <= (SELECT max(seq) FROM predictions) - ?", (self.most,))

    def fetch(self, ids: Sequence[str]) -> dict[str, Prediction]:
        """Return those of these predictions that are kept."""
        with self._transaction() as db:
            rows = db.execute(f"SELECT id, version, answered, x FROM predictions WHERE id IN ({marks(ids)})", ids)
            return {id: Prediction(id, version, json.loads(answered), x) for id, version, answered, x in rows}

    def drop(self, ids: Sequence[str]) -> None:
        """Delete predictions that are no longer needed."""
        with self._transaction() as db:
            db.execute(f"DELETE FROM predictions WHERE id IN ({marks(ids)})", ids)

    def forget(self, id: str) -> bool:
        """Delete a prediction so that nothing of it remains in any file, even if it was dropped before.

        Return whether it was kept, also if an earlier attempt deleted it but could not empty the log.
        """
        with self._transaction() as db:
            if db.execute("DELETE FROM predictions WHERE id = ?", (id,)).rowcount:
                self._unscrubbed.add(id)
        with self._locked():
            truncate_log(self._db)
            was_kept, self._unscrubbed = id in self._unscrubbed, set()
            return was_kept

    def close(self) -> None:
        with self._lock:
            self._db.close()

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


def _open(path: Path) -> sqlite3.Connection:
    """Open the database. Nothing in it was promised to anyone, so a damaged one is set aside."""
    try:
        return open_database(path, SCHEMA, flushed=False)
    except JournalError as error:
        if isinstance(error.__cause__, sqlite3.OperationalError):  # locked, or a disk that fails: not damaged
            raise
        path.replace(path.with_name(f"{path.name}.damaged"))
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return open_database(path, SCHEMA, flushed=False)
