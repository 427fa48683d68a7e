"""What was asked and answered, kept so that it can be labelled later.

It lies in a database of its own, which is not flushed with each answer: a kill loses nothing of it, a power cut perhaps
the last few, and then their labels are refused with a sentence. Answers need not wait for the disk.
"""

import json
import sqlite3
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

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
    id: str
    version: int
    answered: Hashable
    x: bytes


def remember(db: sqlite3.Connection, predictions: Sequence[Prediction], keep: int) -> None:
    """The newest `keep` stay."""
    db.executemany(
        "INSERT INTO predictions (id, version, answered, x) VALUES (?, ?, ?, ?)",
        [(each.id, each.version, json.dumps(each.answered), each.x) for each in predictions],
    )
    db.execute("DELETE FROM predictions WHERE seq <= (SELECT max(seq) FROM predictions) - ?", (keep,))


def fetch(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Prediction]:
    """Those of them that are kept."""
    marks = ",".join("?" * len(ids))
    rows = db.execute(f"SELECT id, version, answered, x FROM predictions WHERE id IN ({marks})", ids)
    return {id: Prediction(id, version, json.loads(answered), x) for id, version, answered, x in rows}


def drop(db: sqlite3.Connection, ids: Sequence[str]) -> int:
    """How many of them there were."""
    return db.execute(f"DELETE FROM predictions WHERE id IN ({','.join('?' * len(ids))})", ids).rowcount
