"""What is written into the journal: examples, batches, answers, versions. Each function is one operation."""

import json
import sqlite3
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel.errors import InputError

TIDY_ROWS = 128  # at a time, so that nobody waits long
INSERT_ROWS = 64  # by one statement: between two of them this thread may have to wait for its turn
ANSWERS = 1_000  # that are remembered one by one

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
    """There is nothing by this id."""


class ConflictError(InputError):
    """An id is known, with something else."""


@dataclass(frozen=True)
class Example:
    id: str
    label: Hashable
    x: bytes
    digest: bytes = b""
    own: bool = False  # whether the client chose the id, or knows it, and may send it again


@dataclass(frozen=True)
class CutBatch:
    number: int
    examples: list[Example]


@dataclass(frozen=True)
class Version:
    number: int
    time: float
    learned: int
    asked: bool
    note: str


def accept(db: sqlite3.Connection, examples: Sequence[Example]) -> list[bool]:
    """Which of them are new. One that is known by its id and is the same is not accepted twice."""
    known = _digests(db, [example.id for example in examples if example.own])
    new = []
    for example in examples:
        new.append(example.id not in known)
        if known.setdefault(example.id, example.digest) != example.digest:
            raise ConflictError(
                f"The example {example.id!r} was accepted before, with another sample or label. Give each its own id."
            )
    fresh = [each for each, is_new in zip(examples, new, strict=True) if is_new]
    for start in range(0, len(fresh), INSERT_ROWS):
        part = fresh[start : start + INSERT_ROWS]
        values = [value for each in part for value in (each.id, each.own, each.digest, json.dumps(each.label), each.x)]
        rows = ", ".join(["(?, ?, ?, ?, ?)"] * len(part))
        db.execute(f"INSERT INTO examples (id, own, digest, label, x) VALUES {rows}", values)
    _add(db, "accepted", sum(new))
    return new


def _digests(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, bytes]:
    """Of those ids that are known."""
    marks = ",".join("?" * len(ids))
    return dict(db.execute(f"SELECT id, digest FROM examples WHERE id IN ({marks})", ids).fetchall())


def assign(db: sqlite3.Connection, size: int, most: int, *, partial: bool) -> tuple[int, int]:
    """Cut up to `most` batches of what waits, in order of arrival: how many, and how many examples still wait.

    One that is not full is cut only where `partial`. More than can be cut are not counted, but one.
    """
    (found,) = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM examples WHERE batch IS NULL LIMIT ?)", (size * most + 1,)
    ).fetchone()
    cut = min(found // size, most) * size
    if not cut and partial:
        cut = found
    batches = -(-cut // size)
    first = _add(db, "batch", batches) - batches + 1
    db.execute(
        "UPDATE examples SET batch = ? + (place - 1) / ? FROM (SELECT seq AS cut, row_number() OVER (ORDER BY seq) AS "
        "place FROM examples WHERE batch IS NULL ORDER BY seq LIMIT ?) WHERE seq = cut",
        (first, size, cut),
    )
    return batches, found - cut


def batches(db: sqlite3.Connection, after: int) -> list[CutBatch]:
    """Those that were cut after the one of that number, with what is in them."""
    rows = db.execute(
        "SELECT batch, id, label, x FROM examples WHERE x IS NOT NULL AND batch > ? ORDER BY batch, seq", (after,)
    ).fetchall()
    found: dict[int, CutBatch] = {}
    for number, id, label, x in rows:
        found.setdefault(number, CutBatch(number, [])).examples.append(Example(id, json.loads(label), x))
    return list(found.values())


def waiting(db: sqlite3.Connection) -> tuple[int, set[Hashable]]:
    """How many examples are not inside the current checkpoint, and their labels."""
    current = value(db, "current")
    where = "FROM examples WHERE x IS NOT NULL AND (batch IS NULL OR batch > ?)"
    count = db.execute(f"SELECT count(*) {where}", (current,)).fetchone()[0]
    labels = db.execute(f"SELECT DISTINCT label {where}", (current,)).fetchall()
    return count, {json.loads(label) for (label,) in labels}


@dataclass(frozen=True)
class Held:
    """What there is of an example."""

    known: bool
    batch: int | None = None


def find(db: sqlite3.Connection, id: str) -> Held:
    row = db.execute("SELECT batch FROM examples WHERE id = ?", (id,)).fetchone()
    return Held(known=False) if row is None else Held(known=True, batch=row[0])


def delete(db: sqlite3.Connection, id: str, *, withdrawn: bool) -> None:
    """`withdrawn`: it was not learned yet, and never will be."""
    db.execute("DELETE FROM examples WHERE id = ?", (id,))
    _add(db, "withdrawn", withdrawn)


def next_number(db: sqlite3.Connection) -> int:
    """A number for a version that no batch leads to."""
    return _add(db, "batch", 1)


def tell(db: sqlite3.Connection, told: Sequence[tuple[Example, Hashable | None]]) -> list[bool | None]:
    """Make examples of predictions whose true labels are known now, each with what was answered.

    None was answered where the prediction is not kept: then the example must be known already. Gives for each whether
    the answer was right; None where the same was told before.
    """
    return [_tell_one(db, example, answered) for example, answered in told]


def _tell_one(db: sqlite3.Connection, example: Example, answered: Hashable | None) -> bool | None:
    if answered is None and not find(db, example.id).known:
        raise UnknownError(
            f"There is no prediction {example.id!r} any more, or there never was. Send the example to /v1/learn."
        )
    try:
        (new,) = accept(db, [example])
    except ConflictError:
        raise ConflictError(f"The prediction {example.id!r} was labelled before, and not {example.label!r}.") from None
    if not new:
        return None
    right = answered == example.label and type(answered) is type(example.label)
    _add(db, "labelled", 1)
    _add(db, "right", right)
    db.execute("INSERT INTO answers (right) VALUES (?)", (right,))
    db.execute("DELETE FROM answers WHERE seq <= (SELECT max(seq) FROM answers) - ?", (ANSWERS,))
    return right


def note_version(db: sqlite3.Connection, version: Version, keep: int, back_to: int | None = None) -> list[int]:
    """This version is the current one from here on. The numbers of those that are kept no longer.

    `back_to`: batches after this one, the last that was learned, wait again to be cut anew.
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
    db.execute("DELETE FROM versions WHERE number = ?", (number,))


def versions(db: sqlite3.Connection) -> list[Version]:
    rows = db.execute("SELECT number, time, learned, asked, note FROM versions ORDER BY number").fetchall()
    return [Version(number, time, learned, bool(asked), note) for number, time, learned, asked, note in rows]


def tidy(db: sqlite3.Connection, ids: int) -> bool:
    """Drop a few of the payloads that are inside a checkpoint, and ids too old to come again; whether there is more."""
    inside = (value(db, "current"), TIDY_ROWS)
    rows = [seq for (seq,) in db.execute("SELECT seq FROM examples WHERE x IS NOT NULL AND batch <= ? LIMIT ?", inside)]
    marks = ",".join("?" * len(rows))
    db.execute(f"DELETE FROM examples WHERE seq IN ({marks}) AND NOT own", rows)
    db.execute(f"UPDATE examples SET x = NULL, label = NULL WHERE seq IN ({marks})", rows)
    old = db.execute(
        "DELETE FROM examples WHERE seq IN (SELECT seq FROM examples WHERE x IS NULL AND "
        "seq <= (SELECT max(seq) FROM examples) - ? ORDER BY seq LIMIT ?)",
        (ids, TIDY_ROWS),
    ).rowcount
    return TIDY_ROWS in (len(rows), old)


def value(db: sqlite3.Connection, name: str) -> Any:
    row = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def set_value(db: sqlite3.Connection, name: str, value: object) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def recent_answers(db: sqlite3.Connection) -> list[bool]:
    """Whether the answers labelled last were right, the newest last."""
    return [bool(right) for (right,) in db.execute("SELECT right FROM answers ORDER BY seq").fetchall()]


def _add(db: sqlite3.Connection, name: str, number: int) -> int:
    row = db.execute("UPDATE meta SET value = value + ? WHERE name = ? RETURNING value", (int(number), name)).fetchone()
    return int(row[0])
