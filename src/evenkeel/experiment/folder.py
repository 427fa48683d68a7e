"""The folder of a run: what one process writes, and the next goes on from."""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO

from evenkeel.errors import CheckpointError, RunError
from evenkeel.learner import Learner
from evenkeel.results import RECORDS, USAGE, Ended, Record, Session, Started, Stepped, to_line, whole_records

MODEL = "model.ek"
LOCK = ".lock"


class Folder:
    """Owned by one process at a time. Records are on the disk before any checkpoint that knows of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = (path / LOCK).open("ab")
        except OSError as error:
            raise RunError(f"Cannot keep a run in {str(path)!r}: {error.strerror}.") from None
        _lock(self._lock, path)
        self._records: BinaryIO = (path / RECORDS).open("ab", buffering=0)

    def close(self) -> None:
        self._records.close()
        self._lock.close()

    def resume(self, started: Started) -> tuple[list[Record], Learner | None]:
        """The records to go on from, and the learner as it was after them; none where there is nothing to go on from.

        What was recorded after the last checkpoint is dropped: it comes again, the same.
        """
        found = list(whole_records(self.path / RECORDS))
        if not found:
            self._cut(0)
            return [], None
        first = found[0][0]
        if not isinstance(first, Started):
            raise RunError(f"{str(self.path / RECORDS)!r} does not begin with the start of a run.")
        _require_same(self.path, first, started)
        if isinstance(found[-1][0], Ended):
            self._cut(found[-1][1])
            return [record for record, _ in found], None
        if not (self.path / MODEL).is_file():
            self._cut(0)
            return [], None
        try:
            learner = Learner.load(self.path / MODEL)
        except CheckpointError as error:
            raise RunError(f"This run cannot go on: {error} Delete {str(self.path)!r} to begin anew.") from None
        kept = [(record, end) for record, end in found if record.step <= learner.step]
        if max((record.step for record, _ in kept if isinstance(record, Stepped)), default=0) != learner.step:
            raise RunError(
                f"{str(self.path / RECORDS)!r} is damaged: it ends before step {learner.step}, where the checkpoint "
                "is. Delete the folder to begin anew."
            )
        self._cut(kept[-1][1])
        return [record for record, _ in kept], learner

    def append(self, records: Iterable[Record]) -> None:
        self._records.write("".join(map(to_line, records)).encode())

    def save(self, learner: Learner, session: Session) -> None:
        os.fsync(self._records.fileno())
        learner.save(self.path / MODEL)
        with (self.path / USAGE).open("a") as file:
            file.write(json.dumps(asdict(session)) + "\n")

    def _cut(self, offset: int) -> None:
        self._records.truncate(offset)


def _require_same(path: Path, before: Started, now: Started) -> None:
    """Threads may differ: the ones of the beginning are used."""
    old, new = (json.loads(to_line(replace(each, threads=0))) for each in (before, now))
    found = [each for each in _differences(old, new) if each[0] != "config.name"]
    if found:
        shown = "; ".join(f"{where} is {was!r} there and {is_!r} here" for where, was, is_ in found[:3])
        raise RunError(
            f"{str(path)!r} holds another run: {shown}. Choose another folder, or give the same config, data and "
            "versions to go on."
        )


def _differences(old: Any, new: Any, where: str = "") -> list[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = dict.fromkeys([*old, *new])
        return [
            each
            for name in names
            for each in _differences(old.get(name), new.get(name), f"{where}.{name}".removeprefix("."))
        ]
    return [] if old == new else [(where, old, new)]


def _lock(file: BinaryIO, path: Path) -> None:
    if sys.platform == "win32":  # no advisory locks there; two processes in one folder are the user's own fault
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise RunError(f"Another process is at work in {str(path)!r}; wait for it, or choose another folder.") from None
