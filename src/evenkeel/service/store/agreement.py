"""Whether a journal and the versions next to it belong together. Nothing is written here.

A version carries the identity and the position of the journal at the time it was written. A journal that was lost,
emptied, torn or replaced by an older copy has another identity, or is behind.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from evenkeel.config.loading import differences
from evenkeel.errors import CheckpointError
from evenkeel.learning import checkpoint
from evenkeel.results.records import without_rar
from evenkeel.service.config import ServiceConfig
from evenkeel.service.store import queries, schema
from evenkeel.service.store.journal import open_unchanged
from evenkeel.service.store.mark import Position, read_mark
from evenkeel.service.store.model_folder import ModelFolder
from evenkeel.service.store.seal import require_sealed


def disagreement(model_folder: ModelFolder) -> str | None:
    """Return what is wrong with the journal, seen from the versions and the mark; None if nothing is.

    Raises sqlite3.Error if the journal cannot be read, or its small tables are damaged.
    """
    path, mark = model_folder.journal, read_mark(model_folder.mark)
    if not model_folder.versions() and mark is None:
        return None  # a new folder, or one whose creation was interrupted
    if not path.exists() or not path.stat().st_size:  # SQLite would start an empty one, and delete the log
        return f"The journal {str(path)!r} is {'empty' if path.exists() else 'missing'}."
    with closing(open_unchanged(path)) as db:
        db.execute("BEGIN")  # all that is read is of one moment, whatever a service commits meanwhile
        return _compare(db, model_folder, mark)


def is_taken_over(path: Path) -> bool:
    """Check whether a journal is of this version, and not of 0.1."""
    with closing(open_unchanged(path)) as db:
        return _is_taken_over(db)


def _is_taken_over(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA user_version").fetchone()[0] >= schema.NEWEST)


def _compare(db: sqlite3.Connection, model_folder: ModelFolder, mark: Position | None) -> str | None:
    path = str(model_folder.journal)
    if not db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0]:
        return f"The journal {path!r} is empty."
    require_sealed(db)
    own = queries.position(db) if _is_taken_over(db) else None  # version 0.1 had none
    if mark is not None and (trouble := _trouble(own, mark, "It was")):
        return f"The journal {path!r} {trouble}"
    for number in _to_compare(db, model_folder):
        carried = position_of(model_folder.version(number))
        if carried is not None and (trouble := _trouble(own, carried, f"Version {number} was written when it was")):
            return f"The journal {path!r} {trouble}"
    return None


def _to_compare(db: sqlite3.Connection, model_folder: ModelFolder) -> list[int]:
    """Return the versions to compare: the current one, and all that the journal does not know, the newest first."""
    known = {number for (number,) in db.execute("SELECT number FROM versions")} - {queries.value(db, "current")}
    return [number for number in reversed(model_folder.versions()) if number not in known]


def _trouble(own: Position | None, other: Position, when: str) -> str | None:
    if own is None or own.identity != other.identity:
        return "is not the one that these versions were written with."
    if own.number < other.number:
        return f"is incomplete: it ends at position {own.number:,}. {when} at position {other.number:,}."
    return None


def position_of(version: Path) -> Position | None:
    """Return the journal's position that a version carries; None if it is of version 0.1, or cannot be read."""
    try:
        carried = checkpoint.read(version)[0].get("journal")
    except CheckpointError:
        return None
    return None if carried is None else Position(carried["identity"], carried["position"])


def other_learner(model_folder: ModelFolder, config: ServiceConfig, before: str) -> str | None:
    """Return how the learner of a config differs from the one that the journal was made for; None if it does not."""
    changes = differences(without_rar(json.loads(before)), config.determining())
    if not changes:
        return None
    where, was, is_ = changes[0]
    return (
        f"{where} is {was!r} in {str(model_folder.path)!r} and {is_!r} in the config. The parts of a learner are "
        "fixed; only limits, batches and checkpoints may change. For another learner, use another folder."
    )


def ways_out(model_folder: ModelFolder, numbers: list[int]) -> str:
    """Return what can be done about a journal that does not belong to the versions."""
    return (
        "What was accepted last may be missing, so nothing was changed. Put the journal's files back, all of one "
        f"moment, or restore a backup (`evenkeel restore`); or continue with what is there: `evenkeel serve "
        f"{model_folder.path} --rollback N` with this journal, or with `--new-journal` as well to set it aside. "
        f"Versions: {', '.join(map(str, numbers)) or 'none'}."
    )
