"""The files of versions, each a learner and its counters: saving, loading, rolling back, scrubbing."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from evenkeel.errors import CheckpointError, reason
from evenkeel.learning import checkpoint
from evenkeel.learning.learner import Learner
from evenkeel.service.store import queries
from evenkeel.service.store.counters import Counters
from evenkeel.service.store.journal import JournalError
from evenkeel.service.store.model_folder import ModelFolder
from evenkeel.service.store.queries import UnknownError, Version


class Writes(Protocol):
    """A journal, or its stand-in in another process."""

    def do(self, operation: Callable[..., Any]) -> Any: ...


def load(model_folder: ModelFolder, number: int) -> tuple[Learner, Counters]:
    """Return the learner and the counters of a version; raise CheckpointError if it cannot be read."""
    path = model_folder.version(number)
    try:
        return Learner.load(path), Counters.from_state(checkpoint.read(path)[0]["service"])
    except CheckpointError as error:
        others = [str(each) for each in model_folder.versions() if each != number]
        hint = f" Other versions: {', '.join(others)}; `evenkeel serve --rollback N` starts from one." if others else ""
        raise CheckpointError(f"{error}{hint}") from None


def save(
    model_folder: ModelFolder,
    journal: Writes,
    learner: Learner,
    counters: Counters,
    number: int,
    *,
    keep: int,
    asked: bool = False,
    note: str = "",
    back_to: int | None = None,
) -> Version:
    """Write a version and make it the current one. The journal no longer needs what is inside."""
    facts, tensors = learner.state()
    _write(model_folder.version(number), {**facts, "service": counters.state()}, tensors)
    version = Version(number, time.time(), counters.learned, asked, note)
    for old in journal.do(partial(queries.note_version, version=version, keep=keep, back_to=back_to)):
        with suppress(OSError):  # a file without a record is deleted at the next start
            model_folder.version(old).unlink()
    return version


def _write(path: Path, facts: dict[str, Any], tensors: dict[str, Any]) -> None:
    try:
        checkpoint.write(path, facts, tensors)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        raise JournalError(
            f"No checkpoint could be written ({reason(error)}). The journal keeps what is not in one."
        ) from None


def go_back(
    model_folder: ModelFolder, journal: Writes, counters: Counters, number: int, *, learned: int, keep: int
) -> tuple[Learner, Version]:
    """Save an earlier version under a new number, as the current one. Batches not learned yet wait to be cut again."""
    known = [version.number for version in journal.do(queries.versions)]
    if number not in known:
        raise UnknownError(f"There is no version {number}; there are {', '.join(map(str, known))}.")
    learner, _ = load(model_folder, number)
    new, note = journal.do(queries.next_number), f"back to version {number}"
    return learner, save(
        model_folder, journal, learner, counters, new, keep=keep, asked=True, note=note, back_to=learned
    )


def scrub(path: Path, id: str) -> bool:
    """Remove an example from the memory of a version; return whether it was there."""
    learner = Learner.load(path)
    if not learner.forget(id):
        return False
    _write(path, checkpoint.read(path)[0], learner.state()[1])
    return True
