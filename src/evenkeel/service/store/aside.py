"""Examples that could not be learned: they stay in the journal until someone retries or drops them.

They keep their batches, so that a replay of the journal comes to the same result. Each function is one operation.
"""

import sqlite3
from dataclasses import dataclass

from evenkeel.service.store.checksums import BATCH
from evenkeel.service.store.queries import add

WHICH = "aside IS NOT NULL AND (batch = :batch OR :batch IS NULL)"


@dataclass(frozen=True)
class Reasons:
    """Why whole batches, by number, and single rows, by seq, could not be learned."""

    batches: dict[int, str]
    rows: dict[int, str]


@dataclass(frozen=True)
class SetAside:
    """Examples of one batch that could not be learned, and why."""

    batch: int
    examples: int
    reason: str


def set_aside(db: sqlite3.Connection, reasons: Reasons) -> None:
    """Record which examples could not be learned, and why."""
    for column, why in (("batch", reasons.batches), ("seq", reasons.rows)):
        rows = [(reason, key) for key, reason in why.items()]
        db.executemany(f"UPDATE examples SET aside = ? WHERE {column} = ? AND aside IS NULL", rows)


def listed(db: sqlite3.Connection) -> list[SetAside]:
    """Return what is set aside, by batch and reason."""
    rows = db.execute(
        "SELECT batch, count(*), aside FROM examples WHERE aside IS NOT NULL GROUP BY batch, aside ORDER BY batch"
    ).fetchall()
    return [SetAside(*row) for row in rows]


def retry(db: sqlite3.Connection, batch: int | None) -> int:
    """Let examples wait again, and return how many. Their order among those that wait is that of their arrival."""
    return db.execute(
        f"UPDATE examples SET checksum = checksum - {BATCH} * batch, batch = NULL, aside = NULL WHERE {WHICH}",
        {"batch": batch},
    ).rowcount


def drop(db: sqlite3.Connection, batch: int | None) -> int:
    """Delete examples that were set aside, count them as withdrawn, and return how many."""
    deleted = db.execute(f"DELETE FROM examples WHERE {WHICH}", {"batch": batch}).rowcount
    add(db, "withdrawn", deleted)
    return deleted
