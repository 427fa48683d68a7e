"""The files of versions, each a learner and its counters: saving, loading, rolling back, scrubbing."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from evenkeel.errors import CheckpointError, reason
from evenkeel.files import drop_cached
from evenkeel.learning import checkpoint
from evenkeel.learning.learner import Learner
from evenkeel.service.config import Checkpoints
from evenkeel.service.store import queries, version_rows
from evenkeel.service.store.counters import Counters
from evenkeel.service.store.journal import JournalError, Operation
from evenkeel.service.store.model_folder import ModelFolder
from evenkeel.service.store.queries import UnknownError
from evenkeel.service.store.version_rows import Version


class Writes(Protocol):
    """A journal, or its stand-in in another process."""

    def do(self, operation: Callable[..., Any]) -> Any: ...


def load(model_folder: ModelFolder, number: int) -> tuple[Learner, Counters]:
    """Return the learner and the counters of a version; raise CheckpointError if it cannot be read."""
    path = model_folder.version(number)
    return Learner.load(path, device=model_folder.device), Counters.from_state(checkpoint.read(path)[0]["service"])


def is_readable(path: Path) -> bool:
    """Check whether a version can be read."""
    with suppress(CheckpointError):
        checkpoint.read(path)
        return True
    return False


def save(
    model_folder: ModelFolder,
    journal: Writes,
    learner: Learner,
    counters: Counters,
    number: int,
    *,
    keep: Checkpoints,
    asked: bool = False,
    note: str = "",
    back_to: int | None = None,
    source: int | None = None,
    spared: int | None = None,
    also: Sequence[Operation[Any]] = (),
    identity: str | None = None,
) -> Version:
    """Write a version, read it back, and make it the current one, together with what `also` does to the journal.

    `identity`: that of the journal from now on, if it changes. `spared`: a version that is kept though it may be old.
    """
    gone = [old for old in journal.do(version_rows.unfinished) if not model_folder.version(old).exists()]
    journal.do(partial(version_rows.announce, number=number, deleted=gone))
    position = journal.do(queries.position)
    facts, tensors = learner.state()
    carried = {"identity": identity or position.identity, "position": position.number}
    _write(model_folder.version(number), {**facts, "service": counters.state(), "journal": carried}, tensors)
    version = Version(number, time.time(), counters.learned, asked, note)
    sizes = model_folder.sizes()
    noted = partial(
        version_rows.note, version=version, keep=keep, sizes=sizes, back_to=back_to, source=source, spared=spared
    )
    for old in journal.do(partial(together, operations=[*also, noted])):
        with suppress(OSError):  # its record says that it is to be deleted, if not now then later
            model_folder.version(old).unlink(missing_ok=True)
    return version


def together(db: sqlite3.Connection, operations: Sequence[Operation[Any]]) -> Any:
    """Run operations in one transaction, and return the result of the last one."""
    return [operation(db) for operation in operations][-1]


def _write(path: Path, facts: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Write a version and read it back from the disk; raise JournalError if either fails."""
    try:
        checkpoint.write(path, facts, tensors)
        drop_cached(path)
        checkpoint.read(path)
    except (OSError, RuntimeError, CheckpointError) as error:  # torch reports a full disk as a RuntimeError
        raise JournalError(
            f"No checkpoint could be written ({reason(error)}). The journal keeps what is not in one."
        ) from None


def require_known(journal: Writes, number: int) -> None:
    """Raise UnknownError if no version with this number is kept."""
    known = [version.number for version in journal.do(version_rows.kept)]
    if number not in known:
        raise UnknownError(f"There is no version {number}; there are {', '.join(map(str, known))}.")


def go_back(
    model_folder: ModelFolder, journal: Writes, counters: Counters, number: int, *, learned: int, keep: Checkpoints
) -> tuple[Learner, Version]:
    """Save an earlier version under a new number, as the current one. Batches not learned yet wait to be cut again."""
    require_known(journal, number)
    learner, _ = load(model_folder, number)
    new, note = journal.do(queries.next_number), f"back to version {number}"
    return learner, save(
        model_folder,
        journal,
        learner,
        counters,
        new,
        keep=keep,
        asked=True,
        note=note,
        back_to=learned,
        source=number,
    )


def scrub(path: Path, ids: Sequence[str]) -> list[str]:
    """Remove examples from the memory of a version; return those that were there."""
    learner = Learner.load(path, device="cpu")
    held = [id for id in ids if learner.forget(id)]
    if held:
        _write(path, checkpoint.read(path)[0], learner.state()[1])
    return held
