"""The files of versions: a learner and what was counted with it, written, read, gone back to, scrubbed."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from evenkeel import checkpoint
from evenkeel.errors import CheckpointError
from evenkeel.hashing import hash_key
from evenkeel.learner import Learner
from evenkeel.service import records
from evenkeel.service.home import Home
from evenkeel.service.journal import JournalError
from evenkeel.service.records import UnknownError, Version
from evenkeel.service.tally import Tally


class Writes(Protocol):
    """A journal, or what stands for it in another process."""

    def do(self, operation: Callable[..., Any]) -> Any: ...


def load(home: Home, number: int) -> tuple[Learner, Tally]:
    path = home.version(number)
    try:
        return Learner.load(path), Tally.from_state(checkpoint.read(path)[0]["service"])
    except CheckpointError as error:
        others = [str(each) for each in home.versions() if each != number]
        way = f" Versions kept: {', '.join(others)}; `evenkeel serve --rollback N` starts from one." if others else ""
        raise CheckpointError(f"{error}{way}") from None


def save(
    home: Home,
    journal: Writes,
    learner: Learner,
    tally: Tally,
    number: int,
    *,
    keep: int,
    asked: bool = False,
    note: str = "",
    back_to: int | None = None,
) -> Version:
    """Write a version and make it the current one. The journal needs nothing any more of what is inside."""
    facts, tensors = learner.state()
    _write(home.version(number), {**facts, "service": tally.state()}, tensors)
    version = Version(number, time.time(), tally.learned, asked, note)
    for old in journal.do(partial(records.note_version, version=version, keep=keep, back_to=back_to)):
        with suppress(OSError):  # a file that nobody knows any more goes at the next start
            home.version(old).unlink()
    return version


def _write(path: Path, facts: dict[str, Any], tensors: dict[str, Any]) -> None:
    try:
        checkpoint.write(path, facts, tensors)
    except (OSError, RuntimeError) as error:  # torch tells of a full disk by a RuntimeError
        reason = str(error).splitlines()[0]
        raise JournalError(
            f"No checkpoint could be written ({reason}). The journal holds what is not in one."
        ) from None


def go_back(
    home: Home, journal: Writes, tally: Tally, number: int, *, learned: int, keep: int
) -> tuple[Learner, Version]:
    """An earlier version under a new number. Batches after the one learned last wait again, to be cut anew."""
    known = [version.number for version in journal.do(records.versions)]
    if number not in known:
        raise UnknownError(f"There is no version {number}; there are {', '.join(map(str, known))}.")
    learner, _ = load(home, number)
    new, note = journal.do(records.next_number), f"back to version {number}"
    return learner, save(home, journal, learner, tally, new, keep=keep, asked=True, note=note, back_to=learned)


def scrub(path: Path, id: str) -> bool:
    """Take an example out of the memory of a version; whether it was there."""
    facts, tensors = checkpoint.read(path)
    memory, key = tensors["memory"], hash_key(id)
    parts = [memory, *([memory["held"]] if memory.get("held") else [])]
    if not any(bool((part["columns"]["key"] == key).any()) for part in parts if part["columns"]):
        return False
    learner = Learner.load(path)
    learner.forget(id)
    _write(path, facts, learner.state()[1])
    return True
