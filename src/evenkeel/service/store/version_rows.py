"""What the journal records about versions. Each function is one operation.

A version is announced before its file is written, and its record outlives its file: a file without a record is never
one of ours to delete. Versions of one line follow from one another; a rollback begins a new line.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from evenkeel.service.config import Checkpoints
from evenkeel.service.store.accounts import refused
from evenkeel.service.store.checksums import BATCH, row_checksum
from evenkeel.service.store.queries import marks, set_value, value

COLUMNS = "number, time, learned, asked, note"


@dataclass(frozen=True)
class Version:
    """What is recorded about a checkpoint."""

    number: int
    time: float
    learned: int
    asked: bool
    note: str


def announce(db: sqlite3.Connection, number: int, deleted: Sequence[int] = ()) -> None:
    """Record that the file of a version is about to be written, and that those of others were deleted."""
    db.execute(f"DELETE FROM versions WHERE state = 'deleting' AND number IN ({marks(deleted)})", list(deleted))
    db.execute(
        f"INSERT INTO versions ({COLUMNS}, state) VALUES (?, 0, 0, 0, '', 'writing') ON CONFLICT DO NOTHING", (number,)
    )


def note(
    db: sqlite3.Connection,
    version: Version,
    *,
    keep: Checkpoints,
    sizes: Mapping[int, int],
    back_to: int | None = None,
    source: int | None = None,
    spared: int | None = None,
) -> list[int]:
    """Make a version that was read back the current one, and return the numbers of those that are no longer kept.

    `sizes`: of all versions, in bytes. `spared`: one that is needed in a moment, and stays. `back_to`: the last batch
    that was learned; the examples of later batches wait to be cut again, and a new line begins, with a copy of the
    version `source`.
    """
    if back_to is not None:
        wait_again(db, back_to)
        set_value(db, "line", value(db, "line") + 1)
    db.execute(
        f"INSERT INTO versions ({COLUMNS}, line, source) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (number) DO UPDATE "
        "SET state = 'kept', time = excluded.time, learned = excluded.learned, asked = max(asked, excluded.asked), "
        "note = iif(excluded.note = '', note, excluded.note), line = excluded.line, "
        "source = coalesce(excluded.source, source)",
        (version.number, version.time, version.learned, version.asked, version.note, value(db, "line"), source),
    )
    db.execute("UPDATE meta SET value = ? WHERE name = 'current'", (version.number,))
    db.execute("UPDATE meta SET value = max(value, ?) WHERE name = 'batch'", (version.number,))
    _retire(db, version.time, keep, sizes, spared)
    return [number for (number,) in db.execute("SELECT number FROM versions WHERE state = 'deleting'")]


def _retire(
    db: sqlite3.Connection, now: float, keep: Checkpoints, sizes: Mapping[int, int], spared: int | None
) -> None:
    """Choose the versions to delete.

    Two from which the journal leads on stay in any case: if one is damaged, there is another. After a rollback that is
    what it made a copy of, until the next checkpoint.
    """
    stay = {file for file, _ in ancestors(db)[:2]} | {spared}
    for asked in (True, False):
        same = [version for version in reversed(kept(db)) if version.asked is asked]
        seconds = inf if keep.keep_hours is None else 3600 * keep.keep_hours
        old = [version for version in same[: keep.keep] if version.time < now - seconds]
        _delete(db, [version.number for version in (*old, *same[keep.keep :]) if version.number not in stay])
    left = sorted(kept(db), key=lambda version: (version.asked, version.number))
    excess = sum(sizes.get(version.number, 0) for version in left) - (keep.keep_bytes or inf)
    for number in [version.number for version in left if version.number not in stay]:
        if excess > 0:
            _delete(db, [number])
            excess -= sizes.get(number, 0)


def _delete(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Mark versions as to be deleted."""
    db.execute(f"UPDATE versions SET state = 'deleting' WHERE number IN ({marks(numbers)})", list(numbers))


def wait_again(db: sqlite3.Connection, after: int) -> None:
    """Let the examples of all later batches wait to be cut again."""
    db.execute(
        "UPDATE examples SET batch = NULL, aside = NULL, checksum = checksum - ? * batch WHERE batch > ?",
        (BATCH, after),
    )


def drop(db: sqlite3.Connection, number: int) -> None:
    """Delete the record of a version."""
    db.execute("DELETE FROM versions WHERE number = ?", (number,))


def kept(db: sqlite3.Connection) -> list[Version]:
    """Return the versions that are kept, the oldest first."""
    rows = db.execute(f"SELECT {COLUMNS} FROM versions WHERE state = 'kept' ORDER BY number").fetchall()
    return [Version(number, time, learned, bool(asked), note) for number, time, learned, asked, note in rows]


def unfinished(db: sqlite3.Connection) -> list[int]:
    """Return the versions whose files were being written or deleted."""
    return [number for (number,) in db.execute("SELECT number FROM versions WHERE state != 'kept'").fetchall()]


def ancestors(db: sqlite3.Connection) -> list[tuple[int, int]]:
    """Return versions from which the journal leads to the current state, the newest first, each as (file, number).

    The two differ for the copy that a rollback made: what it is a copy of can stand in for it.
    """
    rows = db.execute(
        "SELECT number, source FROM versions WHERE state = 'kept' AND line = ? AND number >= ? ORDER BY number DESC",
        (value(db, "line"), value(db, "dropped")),
    ).fetchall()
    return [(number, number) for number, _ in rows] + [
        (source, number) for number, source in rows if source is not None
    ]


def resume_at(db: sqlite3.Connection, number: int, damaged: Sequence[int]) -> None:
    """Make an older version the current one, and delete the records of damaged ones.

    What was set aside since then is refused again when it is replayed, and until then it waits.
    """
    db.execute(f"DELETE FROM versions WHERE number IN ({marks(damaged)}) AND number != ?", [*damaged, number])
    db.execute("UPDATE examples SET aside = NULL WHERE batch > ?", (number,))
    set_value(db, "current", number)


def adopt(db: sqlite3.Connection, identity: str, seq: int | None, learned: int) -> None:
    """Give a journal that does not belong to the versions a new identity; it continues with a version of theirs.

    `seq`: the last example in that version, if it was written with this journal. What came later waits to be learned;
    what is lost is no longer counted as accepted.
    """
    set_value(db, "identity", identity)
    wait_again(db, value(db, "current"))
    if seq is not None:
        db.execute("DELETE FROM examples WHERE seq <= ? AND NOT own AND aside IS NULL", (seq,))
        rows = db.execute("SELECT seq, id, own, digest FROM examples WHERE seq <= ? AND aside IS NULL", (seq,))
        empty = [(row_checksum((*row, None, None), 0), row[0]) for row in rows.fetchall()]
        db.executemany("UPDATE examples SET x = NULL, label = NULL, batch = 0, checksum = ? WHERE seq = ?", empty)
    (waiting,) = db.execute("SELECT count(*) FROM examples WHERE batch IS NULL").fetchone()
    set_value(db, "accepted", learned + refused(db) + waiting + value(db, "withdrawn"))
