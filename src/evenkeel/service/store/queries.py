"""What the journal holds: examples, batches, answers, versions. Each function is one operation."""

import json
import sqlite3
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from evenkeel.errors import InputError
from evenkeel.service.examples import Example

TIDY_ROWS = 128  # at a time, so that nobody waits long
INSERT_ROWS = 64  # per statement: between two statements this thread may have to wait for its turn
RECENT = 1_000  # last answers kept one by one, and last examples that recent accuracies are computed over

SCHEMA = """
CREATE TABLE IF NOT EXISTS examples (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order in which they are learned
    id TEXT NOT NULL UNIQUE,
    own INTEGER NOT NULL,                   -- whether the client chose the id, and so may send it again
    digest BLOB NOT NULL,                   -- of sample and label: what is sent again must be the same
    label TEXT,                             -- JSON
    x BLOB,                                 -- NULL, as the label, once it is inside a checkpoint
    batch INTEGER                           -- NULL while it waits
);
CREATE INDEX IF NOT EXISTS waiting ON examples(seq) WHERE batch IS NULL;
CREATE INDEX IF NOT EXISTS held ON examples(batch) WHERE x IS NOT NULL;
CREATE TABLE IF NOT EXISTS answers (       -- of predictions that were labelled, the newest
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    right INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS versions (
    number INTEGER PRIMARY KEY,             -- of the last batch inside
    time REAL NOT NULL,
    learned INTEGER NOT NULL,
    asked INTEGER NOT NULL,                 -- whether someone asked for it
    note TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value);
INSERT OR IGNORE INTO meta VALUES ('batch', 0), ('current', 0), ('accepted', 0), ('withdrawn', 0), ('labelled', 0),
    ('right', 0);
"""


class UnknownError(InputError):
    """There is nothing with this id."""


class ConflictError(InputError):
    """An id is already in use, with other content."""


@dataclass(frozen=True)
class CutBatch:
    """A batch whose examples are fixed."""

    number: int
    examples: list[Example]


@dataclass(frozen=True)
class Version:
    """What is recorded about a checkpoint."""

    number: int
    time: float
    learned: int
    asked: bool
    note: str


def accept(db: sqlite3.Connection, examples: Sequence[Example]) -> list[bool]:
    """Insert the examples whose ids are new, and return which ones are; raise ConflictError if a known one differs."""
    known = _digests(db, [example.id for example in examples if example.digest])
    new = []
    for example in examples:
        new.append(example.id not in known)
        if known.setdefault(example.id, example.digest) != example.digest:
            raise ConflictError(
                f"The example {example.id!r} was accepted before with another sample or label. Give each its own id."
            )
    fresh = [each for each, is_new in zip(examples, new, strict=True) if is_new]
    for start in range(0, len(fresh), INSERT_ROWS):
        part = fresh[start : start + INSERT_ROWS]
        cells = [(each.id, bool(each.digest), each.digest, json.dumps(each.label), each.x) for each in part]
        rows = ", ".join(["(?, ?, ?, ?, ?)"] * len(part))
        db.execute(f"INSERT INTO examples (id, own, digest, label, x) VALUES {rows}", list(chain(*cells)))
    _add(db, "accepted", sum(new))
    return new


def _digests(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, bytes]:
    """Return the digests of those ids that are known."""
    return dict(db.execute(f"SELECT id, digest FROM examples WHERE id IN ({marks(ids)})", ids).fetchall())


def cut(db: sqlite3.Connection, size: int, *, partial: bool) -> tuple[int, int]:
    """Cut batches of this size from the waiting examples, in order of arrival; the last is incomplete if `partial`.

    Return how many batches were cut, and how many examples are still in none.
    """
    (count,) = db.execute("SELECT count(*) FROM examples WHERE batch IS NULL").fetchone()
    taken = count if partial else count - count % size
    batches = -(-taken // size)
    if batches:
        first = _add(db, "batch", batches) - batches + 1
        db.execute(
            "UPDATE examples SET batch = ? + (place - 1) / ? FROM (SELECT seq AS cut, row_number() OVER (ORDER BY seq) "
            "AS place FROM examples WHERE batch IS NULL ORDER BY seq LIMIT ?) WHERE seq = cut",
            (first, size, taken),
        )
    return batches, count - taken


def batches(db: sqlite3.Connection, after: int, most: int) -> list[CutBatch]:
    """Return the first batches after the one with this number, `most` at most, with their examples."""
    rows = db.execute(
        "SELECT batch, id, label, x FROM examples WHERE x IS NOT NULL AND batch > :after AND batch < :most + "
        "(SELECT min(batch) FROM examples WHERE x IS NOT NULL AND batch > :after) ORDER BY batch, seq",
        {"after": after, "most": most},
    ).fetchall()
    by_number: dict[int, CutBatch] = {}
    for number, id, label, x in rows:
        by_number.setdefault(number, CutBatch(number, [])).examples.append(Example(x, json.loads(label), id))
    return list(by_number.values())


def last_cut(db: sqlite3.Connection) -> int:
    """Return the number of the last batch that is not in a checkpoint; 0 if all are."""
    row = db.execute("SELECT max(batch) FROM examples WHERE x IS NOT NULL AND batch IS NOT NULL").fetchone()
    return int(row[0] or 0)


def waiting(db: sqlite3.Connection) -> tuple[int, set[Hashable]]:
    """Return how many examples are not in the current checkpoint, and their labels."""
    current = value(db, "current")
    where = "FROM examples WHERE x IS NOT NULL AND (batch IS NULL OR batch > ?)"
    count = db.execute(f"SELECT count(*) {where}", (current,)).fetchone()[0]
    labels = db.execute(f"SELECT DISTINCT label {where}", (current,)).fetchall()
    return count, {json.loads(label) for (label,) in labels}


@dataclass(frozen=True)
class Held:
    """What the journal knows about an example."""

    known: bool
    batch: int | None = None


def find(db: sqlite3.Connection, id: str) -> Held:
    """Return what the journal knows about an example."""
    row = db.execute("SELECT batch FROM examples WHERE id = ?", (id,)).fetchone()
    return Held(known=False) if row is None else Held(known=True, batch=row[0])


def delete(db: sqlite3.Connection, id: str, *, withdrawn: bool) -> None:
    """Delete an example. `withdrawn`: it was not learned yet, and never will be."""
    db.execute("DELETE FROM examples WHERE id = ?", (id,))
    _add(db, "withdrawn", withdrawn)


def next_number(db: sqlite3.Connection) -> int:
    """Return a number for a version that does not end with a batch."""
    return _add(db, "batch", 1)


def tell(db: sqlite3.Connection, labelled: Sequence[tuple[Example, Hashable | None]]) -> list[bool | None]:
    """Accept predictions whose true labels are now known as examples, each with the label that was answered.

    The answer is None if the prediction is no longer kept: then the example must be known already. Return for each
    whether the answer was correct; None if the same label was submitted before.
    """
    return [_tell_one(db, example, answered) for example, answered in labelled]


def _tell_one(db: sqlite3.Connection, example: Example, answered: Hashable | None) -> bool | None:
    if answered is None and not find(db, example.id).known:
        raise UnknownError(
            f"There is no prediction {example.id!r}, or it is no longer kept. Send the example to /v1/learn."
        )
    try:
        (new,) = accept(db, [example])
    except ConflictError:
        raise ConflictError(
            f"The prediction {example.id!r} was labelled before, with a label other than {example.label!r}."
        ) from None
    if not new:
        return None
    right = answered == example.label and type(answered) is type(example.label)
    _add(db, "labelled", 1)
    _add(db, "right", right)
    db.execute("INSERT INTO answers (right) VALUES (?)", (right,))
    db.execute("DELETE FROM answers WHERE seq <= (SELECT max(seq) FROM answers) - ?", (RECENT,))
    return right


def note_version(db: sqlite3.Connection, version: Version, keep: int, back_to: int | None = None) -> list[int]:
    """Make this version the current one, and return the numbers of those that are no longer kept.

    `back_to`: the last batch that was learned; the examples of later batches wait to be cut again.
    """
    if back_to is not None:
        db.execute("UPDATE examples SET batch = NULL WHERE batch > ?", (back_to,))
    db.execute(
        "INSERT INTO versions VALUES (?, ?, ?, ?, ?) ON CONFLICT (number) DO UPDATE SET time = excluded.time, "
        "asked = max(asked, excluded.asked), note = iif(excluded.note = '', note, excluded.note)",
        (version.number, version.time, version.learned, version.asked, version.note),
    )
    db.execute("UPDATE meta SET value = ? WHERE name = 'current'", (version.number,))
    db.execute("UPDATE meta SET value = max(value, ?) WHERE name = 'batch'", (version.number,))
    old = db.execute(
        "DELETE FROM versions WHERE "
        "number NOT IN (SELECT number FROM versions WHERE asked ORDER BY number DESC LIMIT ?) "
        "AND number NOT IN (SELECT number FROM versions WHERE NOT asked ORDER BY number DESC LIMIT ?) "
        "AND number != ? RETURNING number",
        (keep, keep, version.number),
    ).fetchall()
    return [number for (number,) in old]


def drop_version(db: sqlite3.Connection, number: int) -> None:
    """Delete the record of a version."""
    db.execute("DELETE FROM versions WHERE number = ?", (number,))


def versions(db: sqlite3.Connection) -> list[Version]:
    """Return the versions that are kept, the oldest first."""
    rows = db.execute("SELECT number, time, learned, asked, note FROM versions ORDER BY number").fetchall()
    return [Version(number, time, learned, bool(asked), note) for number, time, learned, asked, note in rows]


def tidy(db: sqlite3.Connection, ids: int) -> bool:
    """Drop some samples that are in a checkpoint, and ids too old to be repeated; return whether there is more."""
    inside = (value(db, "current"), TIDY_ROWS)
    rows = [seq for (seq,) in db.execute("SELECT seq FROM examples WHERE x IS NOT NULL AND batch <= ? LIMIT ?", inside)]
    db.execute(f"DELETE FROM examples WHERE seq IN ({marks(rows)}) AND NOT own", rows)
    db.execute(f"UPDATE examples SET x = NULL, label = NULL WHERE seq IN ({marks(rows)})", rows)
    old = db.execute(
        "DELETE FROM examples WHERE seq IN (SELECT seq FROM examples WHERE x IS NULL AND "
        "seq <= (SELECT max(seq) FROM examples) - ? ORDER BY seq LIMIT ?)",
        (ids, TIDY_ROWS),
    ).rowcount
    return TIDY_ROWS in (len(rows), old)


def marks(values: Sequence[object]) -> str:
    """Return a question mark for each value, for a statement that takes them all."""
    return ",".join("?" * len(values))


def value(db: sqlite3.Connection, name: str) -> Any:
    """Return a value by its name; None if there is none."""
    row = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def set_value(db: sqlite3.Connection, name: str, value: object) -> None:
    """Store a value under a name."""
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def recent_answers(db: sqlite3.Connection) -> list[bool]:
    """Return whether the answers that were labelled last were correct, the newest last."""
    return [bool(right) for (right,) in db.execute("SELECT right FROM answers ORDER BY seq").fetchall()]


def _add(db: sqlite3.Connection, name: str, number: int) -> int:
    """Add to a value, and return the sum."""
    row = db.execute("UPDATE meta SET value = value + ? WHERE name = ? RETURNING value", (int(number), name)).fetchone()
    return int(row[0])
