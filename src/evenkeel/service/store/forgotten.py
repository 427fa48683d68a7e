"""Answers to requests to forget, so that a repeated request gets the same one. Each function is one operation.

Only a hash of an id is kept, with a secret of the journal as its key.
"""

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

from pydantic import Field

from evenkeel.service.store.queries import value

KEPT = 1_000_000  # answers, the newest


@dataclass(frozen=True)
class Forgotten:
    """What was removed when an id was forgotten."""

    waiting: Annotated[bool, Field(description="Whether it was still waiting; it will not be learned")]
    memory: Annotated[int, Field(description="Samples removed from memory")]
    versions: Annotated[int, Field(description="Older versions whose memory also held it")]
    prediction: Annotated[bool, Field(description="Whether it was a prediction kept to be labelled later")]

    def together(self, before: "Forgotten | None") -> "Forgotten":
        """Return what was removed by this request and one before it, which did not come to its end."""
        both = (self, before or self)
        return Forgotten(
            waiting=any(each.waiting for each in both),
            memory=max(each.memory for each in both),
            versions=max(each.versions for each in both),
            prediction=any(each.prediction for each in both),
        )


def note(db: sqlite3.Connection, answers: Mapping[str, Forgotten]) -> None:
    """Remember answers."""
    if not answers:
        return
    (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM forgotten").fetchone()
    rows = [
        (_hash(db, id), seq, json.dumps(asdict(answer))) for seq, (id, answer) in enumerate(answers.items(), last + 1)
    ]
    db.executemany("INSERT OR REPLACE INTO forgotten VALUES (?, ?, ?)", rows)
    db.execute("DELETE FROM forgotten WHERE seq <= ?", (last + len(rows) - KEPT,))


def find(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Forgotten]:
    """Return the answers for those ids that were forgotten before."""
    rows = ((id, db.execute("SELECT answer FROM forgotten WHERE hash = ?", (_hash(db, id),)).fetchone()) for id in ids)
    return {id: Forgotten(**json.loads(row[0])) for id, row in rows if row is not None}


def _hash(db: sqlite3.Connection, id: str) -> bytes:
    return hashlib.blake2b(id.encode(), key=value(db, "salt").encode(), digest_size=16).digest()
