"""What the journal holds: examples, batches and answers. Each function is one operation; `version_rows` has more."""

import json
import sqlite3
from collections.abc import Collection, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, groupby
from typing import Any

from evenkeel.errors import InputError
from evenkeel.service.examples import Example
from evenkeel.service.store.checksums import BATCH, is_whole, row_checksum
from evenkeel.service.store.mark import Position
from evenkeel.service.store.seal import seal

TIDY_ROWS = 128  # at a time, so that nobody waits long
INSERT_ROWS = 64  # per statement: between two statements this thread may have to wait for its turn
RECENT = 1_000  # last answers kept one by one, and last examples that recent accuracies are computed over


class UnknownError(InputError):
    """There is nothing with this id."""


class ConflictError(InputError):
    """An id is already in use, with other content."""


@dataclass(frozen=True)
class CutBatch:
    """A batch whose examples are fixed."""

    number: int
    examples: list[Example]
    last: int  # seq of the last example
    damaged: tuple[tuple[int, str], ...] = ()  # seq and id of rows that fail their checksums: not among the examples

    def without(self, ids: Collection[str]) -> "CutBatch | None":
        """Return the batch without the examples that have these ids; None if nothing is left of it."""
        examples = [example for example in self.examples if example.id not in ids]
        damaged = tuple(row for row in self.damaged if row[1] not in ids)
        return replace(self, examples=examples, damaged=damaged) if examples or damaged else None


def accept(db: sqlite3.Connection, examples: Sequence[Example]) -> list[bool]:
    """Insert the examples whose ids are new, and return which ones are; raise ConflictError if a known one differs."""
    own = [example.id for example in examples if example.digest]
    known = _digests(db, own) if own else {}
    new = []
    for example in examples:
        new.append(example.id not in known)
        if known.setdefault(example.id, example.digest) != example.digest:
            raise ConflictError(
                f"The example {example.id!r} was accepted before with another sample or label. Give each its own id."
            )
    _insert(db, [each for each, is_new in zip(examples, new, strict=True) if is_new])
    add(db, "accepted", sum(new))
    return new


def _insert(db: sqlite3.Connection, fresh: Sequence[Example]) -> None:
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'examples'").fetchone()
    last = row[0] if row else 0
    columns = [(each.id, bool(each.digest), each.digest, json.dumps(each.label), each.x) for each in fresh]
    cells = [(seq, *each, row_checksum((seq, *each), None)) for seq, each in enumerate(columns, last + 1)]
    for start in range(0, len(cells), INSERT_ROWS):
        part = cells[start : start + INSERT_ROWS]
        rows = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(part))
        db.execute(f"INSERT INTO examples (seq, id, own, digest, label, x, checksum) VALUES {rows}", list(chain(*part)))


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
        first = add(db, "batch", batches) - batches + 1
        db.execute(
            "UPDATE examples SET batch = number, checksum = checksum + ? * number FROM (SELECT seq AS cut, "
            "? + (row_number() OVER (ORDER BY seq) - 1) / ? AS number FROM examples WHERE batch IS NULL ORDER BY seq "
            "LIMIT ?) WHERE seq = cut",
            (BATCH, first, size, taken),
        )
    return batches, count - taken


def batches(db: sqlite3.Connection, after: int, most: int) -> list[CutBatch]:
    """Return the first batches after the one with this number, `most` at most, with their examples."""
    rows = db.execute(
        "SELECT batch, checksum, seq, id, own, digest, label, x FROM examples WHERE x IS NOT NULL AND batch > :after "
        "AND batch < :most + (SELECT min(batch) FROM examples WHERE x IS NOT NULL AND batch > :after) "
        "ORDER BY batch, seq",
        {"after": after, "most": most},
    ).fetchall()
    return [_batch(number, list(group)) for number, group in groupby(rows, key=lambda row: row[0])]


def _batch(number: int, rows: Sequence[Any]) -> CutBatch:
    good = [row for row in rows if is_whole(row[2:], number, row[1])]
    examples = [Example(x, _label(text), id) for _, _, _, id, _, _, text, x in good]
    damaged = tuple((row[2], str(row[3])) for row in rows if row not in good) if len(good) < len(rows) else ()
    return CutBatch(number, examples, max(row[2] for row in rows), damaged)


@lru_cache(10_000)  # the same labels come again and again
def _label(text: str) -> Hashable:
    label: Hashable = json.loads(text)
    return label


def last_cut(db: sqlite3.Connection) -> int:
    """Return the number of the last batch that is not in a checkpoint; 0 if all are."""
    row = db.execute("SELECT max(batch) FROM examples WHERE x IS NOT NULL AND batch IS NOT NULL").fetchone()
    return int(row[0] or 0)


def waiting(db: sqlite3.Connection) -> tuple[int, set[Hashable]]:
    """Return how many examples are not in the current checkpoint, and their labels."""
    current = value(db, "current")
    labels = db.execute(
        "SELECT DISTINCT label FROM examples WHERE x IS NOT NULL AND (batch IS NULL OR batch > ?)", (current,)
    ).fetchall()
    return count_waiting(db, current), {label for (text,) in labels for label in _read_label(text)}


def count_waiting(db: sqlite3.Connection, after: int) -> int:
    """Return how many accepted examples are still to be learned after the batch with this number. Reads no sample."""
    (uncut,) = db.execute("SELECT count(*) FROM examples WHERE batch IS NULL").fetchone()
    (cut,) = db.execute("SELECT count(*) FROM examples WHERE x IS NOT NULL AND batch > ?", (after,)).fetchone()
    return int(uncut + cut)


def _read_label(text: str) -> list[Hashable]:
    """Return the label of a row; nothing if it is damaged."""
    with suppress(ValueError, TypeError):
        label = _label(text)
        return [label] if isinstance(label, str | int) else []
    return []


@dataclass(frozen=True)
class Held:
    """What the journal knows about an example."""

    batch: int | None
    aside: bool

    def waits(self, number: int) -> bool:
        """Check whether it is still to be learned, if the last batch learned is the one with this number."""
        return not self.aside and (self.batch is None or self.batch > number)


def find(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Held]:
    """Return what the journal knows about those examples that it knows."""
    found: dict[str, Held] = {}
    for start in range(0, len(ids), INSERT_ROWS):
        part = ids[start : start + INSERT_ROWS]
        rows = db.execute(f"SELECT id, batch, aside IS NOT NULL FROM examples WHERE id IN ({marks(part)})", part)
        found |= {id: Held(batch, bool(aside)) for id, batch, aside in rows}
    return found


def delete(db: sqlite3.Connection, ids: Sequence[str], *, withdrawn: int) -> None:
    """Delete examples to forget them. `withdrawn`: how many were not learned yet, and never will be.

    The next start removes pieces, even if there is nothing to delete: a request before may have been killed.
    """
    db.executemany("DELETE FROM examples WHERE id = ?", [(id,) for id in ids])
    add(db, "withdrawn", withdrawn)
    set_value(db, "unscrubbed", 1)


def next_number(db: sqlite3.Connection) -> int:
    """Return a number for a version that does not end with a batch."""
    return add(db, "batch", 1)


def tell(db: sqlite3.Connection, labelled: Sequence[tuple[Example, Hashable | None]]) -> list[bool | None]:
    """Accept predictions whose true labels are now known as examples, each with the label that was answered.

    The answer is None if the prediction is no longer kept: then the example must be known already. Return for each
    whether the answer was correct; None if the same label was submitted before.
    """
    return [_tell_one(db, example, answered) for example, answered in labelled]


def _tell_one(db: sqlite3.Connection, example: Example, answered: Hashable | None) -> bool | None:
    if answered is None and not find(db, [example.id]):
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
    add(db, "labelled", 1)
    add(db, "right", right)
    db.execute("INSERT INTO answers (right) VALUES (?)", (right,))
    db.execute("DELETE FROM answers WHERE seq <= (SELECT max(seq) FROM answers) - ?", (RECENT,))
    return right


def tidy(db: sqlite3.Connection, ids: int) -> bool:
    """Drop some samples that are in two checkpoints, and ids too old to be repeated; return whether there is more."""
    inside = (held_twice(db), TIDY_ROWS)
    rows = db.execute(
        "SELECT seq, id, own, digest, batch FROM examples WHERE x IS NOT NULL AND batch <= ? AND aside IS NULL LIMIT ?",
        inside,
    ).fetchall()
    nameless, own = ([row for row in rows if bool(row[2]) == chosen] for chosen in (False, True))
    db.execute(f"DELETE FROM examples WHERE seq IN ({marks(nameless)})", [row[0] for row in nameless])
    if rows:
        db.execute("UPDATE meta SET value = max(value, ?) WHERE name = 'dropped'", (max(row[4] for row in rows),))
    empty = [(row_checksum((*row[:4], None, None), row[4]), row[0]) for row in own]
    db.executemany("UPDATE examples SET x = NULL, label = NULL, checksum = ? WHERE seq = ?", empty)
    old = db.execute(
        "DELETE FROM examples WHERE seq IN (SELECT seq FROM examples WHERE x IS NULL AND "
        "seq <= (SELECT max(seq) FROM examples) - ? ORDER BY seq LIMIT ?)",
        (ids, TIDY_ROWS),
    ).rowcount
    return TIDY_ROWS in (len(rows), old)


def held_twice(db: sqlite3.Connection) -> int:
    """Return the last batch whose examples are in two checkpoints that follow one another and were read back."""
    row = db.execute(
        "SELECT number FROM versions WHERE state = 'kept' AND line = (SELECT value FROM meta WHERE name = 'line') "
        "ORDER BY number DESC LIMIT 1 OFFSET 1"
    ).fetchone()
    return row[0] if row else 0


def position(db: sqlite3.Connection) -> Position:
    """Return the identity of the journal, and how many times it was changed."""
    return Position(value(db, "identity"), int(value(db, "position")))


def advance(db: sqlite3.Connection) -> Position:
    """Count a change of the journal, and seal it."""
    number = add(db, "position", 1)
    seal(db)
    return Position(value(db, "identity"), number)


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


def add(db: sqlite3.Connection, name: str, number: int) -> int:
    """Add to a value, and return the sum."""
    row = db.execute("UPDATE meta SET value = value + ? WHERE name = ? RETURNING value", (int(number), name)).fetchone()
    return int(row[0])
