"""What became of what was accepted: it was learned, waits, was refused or withdrawn. Each function is one operation.

The journal knows all but what was learned, which a version counts.
"""

import sqlite3

from evenkeel.service.store.queries import add, value, waiting


def refused(db: sqlite3.Connection) -> int:
    """Return how many examples are set aside because they could not be learned."""
    return int(db.execute("SELECT count(*) FROM examples WHERE aside IS NOT NULL").fetchone()[0])


def learned(db: sqlite3.Connection) -> int:
    """Return how many examples must have been learned; those lost since by a rollback count, too."""
    return int(value(db, "accepted")) - int(value(db, "withdrawn")) - waiting(db)[0] - refused(db)


def withdraw_rest(db: sqlite3.Connection, counted: int) -> None:
    """Count as withdrawn what was not learned, by a version's count, and is nowhere else either.

    Version 0.1 did not keep what it refused.
    """
    add(db, "withdrawn", learned(db) - counted)
