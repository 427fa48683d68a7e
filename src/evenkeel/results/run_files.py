"""The files of runs: a folder while a run is under way, one packed file once it is put away.

A folder holds `records.jsonl` (the same for the same run, however often it was interrupted), `usage.jsonl` (time,
memory and command of each process that worked on it) and `model.ek`, the learner at its last checkpoint. A packed
file, `<name>.jsonl.gz`, holds the records and, as its last line, the usage and the run's key.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from evenkeel.errors import RunError
from evenkeel.results.records import (
    Aligned,
    Anytime,
    Ended,
    Record,
    Session,
    Started,
    Stepped,
    Tested,
    from_line,
)

RECORDS = "records.jsonl"
USAGE = "usage.jsonl"
PACKED = ".jsonl.gz"  # ending of a packed run
OLD_PACKED = f"{RECORDS}.gz"  # as version 0.1 packed a run, inside its folder
STEP = b'{"kind":"step",'  # how the line of a step begins
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)  # what reading a damaged gzip file raises


def records_of(path: Path) -> Path | None:
    """Return the file with the records of the run at `path`, a folder or a packed file; None if there is no run."""
    if path.name.endswith(PACKED):
        return path if path.is_file() else None
    return next((file for file in (path / RECORDS, path / OLD_PACKED) if file.is_file()), None)


def whole_records(file: Path) -> Iterator[tuple[Record, int]]:
    """Read the records of a file up to the first that is torn, each with the offset of its end."""
    offset = 0
    for line in _whole_lines(file):
        try:
            record = from_line(line)
        except ValueError:
            return
        offset += len(line)
        yield record, offset


def _whole_lines(file: Path) -> Iterator[bytes]:
    with gzip.open(file) if file.name.endswith(PACKED) else file.open("rb") as lines:
        yield from takewhile(lambda line: line.endswith(b"\n"), _until_damage(lines))


def _records_but_steps(file: Path, steps: list[bytes]) -> Iterator[Record]:
    """Read the records of a file up to the first that is torn, and add the lines of its steps to `steps`."""
    for line in _whole_lines(file):
        if line.startswith(STEP):
            steps.append(line)
            continue
        try:
            yield from_line(line)
        except ValueError:
            return


def _until_damage(lines: Iterable[bytes]) -> Iterator[bytes]:
    try:
        yield from lines
    except DAMAGED:
        return


def started_of(path: Path) -> Started:
    """Read the first record of the run at `path` only."""
    file = records_of(path)
    first = next((record for record, _ in whole_records(file)), None) if file else None
    if not isinstance(first, Started):
        raise RunError(f"The records in {str(path)!r} do not begin with the start of a run.")
    return first


def last_record(path: Path) -> Record | None:
    """Return the last whole record of the run at `path`; None if there is none."""
    file = records_of(path)
    if file is None:
        return None
    try:
        if not file.name.endswith(PACKED):
            line = _last_line(file)
            return from_line(line) if line else None
        *lines, torn = gzip.decompress(file.read_bytes()).split(b"\n")
        usage = bool(lines) and _usage(lines[-1]) is not None
        return from_line(lines[-1 - usage]) if len(lines) > usage and not torn else None
    except (*DAMAGED, ValueError):
        return None


def is_damaged(path: Path) -> bool:
    """Return whether the run at `path` has lost records before its last one: a kill tears no other."""
    file, last = records_of(path), last_record(path)
    if file is None or last is None:
        return False
    records = [record for record, _ in whole_records(file)]
    return last not in records or not isinstance(records[0], Started) or Results.of(records).has_gaps


def _last_line(file: Path) -> bytes | None:
    """Read the last whole line, from the end."""
    with file.open("rb") as content:
        size, chunk = content.seek(0, os.SEEK_END), 4096
        while True:
            content.seek(max(0, size - chunk))
            *whole, _ = content.read(min(chunk, size)).split(b"\n")  # a torn line, or nothing
            lines = whole if chunk >= size else whole[1:]  # the first may have begun before the chunk
            if lines or chunk >= size:
                return lines[-1] if lines else None
            chunk *= 4


@dataclass(frozen=True)
class Usage:
    """The last line of a packed run."""

    key: str  # of the run, in a ledger
    sessions: list[Session]


def usage_of(file: Path) -> Usage | None:
    """Read the usage of a packed file; None if it is damaged, or older than such lines."""
    try:
        *_, last, end = b"", *gzip.decompress(file.read_bytes()).split(b"\n")
    except DAMAGED:
        return None
    return None if end else _usage(last)


def _usage(line: bytes) -> Usage | None:
    try:
        content: Any = json.loads(line)
        if content.get("kind") != "usage":
            return None
        return Usage(content["key"], [Session(**each) for each in content["sessions"]])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def packed(folder: Path, key: str) -> bytes:
    """Return the content of the packed file of a finished run in `folder`."""
    file = records_of(folder)
    assert file is not None
    content = file.read_bytes()
    records = gzip.decompress(content) if file.name == OLD_PACKED else content
    usage = {"kind": "usage", "key": key, "sessions": [asdict(session) for session in sessions_of(folder)]}
    return gzip.compress(records + json.dumps(usage, separators=(",", ":")).encode() + b"\n", 9, mtime=0)


def sessions_of(path: Path) -> list[Session]:
    """Return the last note of each process that worked on the run at `path`."""
    if path.name.endswith(PACKED):
        usage = usage_of(path)
        return [] if usage is None else usage.sessions
    file, latest = path / USAGE, dict[str, Session]()
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else ():
        try:
            session = Session(**json.loads(line))
        except (ValueError, TypeError):
            continue  # torn by a kill; it is only about time
        latest[session.started] = session
    return list(latest.values())


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Find the runs at these paths and below them: folders and packed files."""
    runs: dict[Path, None] = {}
    for path in paths:
        below = [path] if records_of(path) else _below(path)
        if not below:
            raise RunError(f"There is no run in {str(path)!r}: no file {RECORDS}, and no packed run, in it or below.")
        runs.update(dict.fromkeys(below))
    return list(runs)


def _below(path: Path) -> list[Path]:
    folders = {file.parent for name in (RECORDS, OLD_PACKED) for file in path.rglob(name)}
    files = {file for file in path.rglob(f"*{PACKED}") if file.name != OLD_PACKED}
    return sorted(folders | files)


class LazySteps(Sequence[Stepped]):
    """Steps that are decoded when they are looked at: they are most of a run's records, and few tables need them."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, place: int) -> Stepped: ...
    @overload
    def __getitem__(self, place: slice) -> list[Stepped]: ...
    def __getitem__(self, place: int | slice) -> Stepped | list[Stepped]:
        return self._decoded[place]

    @cached_property
    def _decoded(self) -> list[Stepped]:
        return [record for record in map(from_line, self._lines) if isinstance(record, Stepped)]


@dataclass(frozen=True)
class Results:
    """The records of one run, sorted by kind."""

    path: Path | None  # its folder or packed file; None if it was never written
    started: Started
    steps: Sequence[Stepped] = field(default_factory=list)
    anytime: list[Anytime] = field(default_factory=list)
    tested: list[Tested] = field(default_factory=list)
    aligned: list[Aligned] = field(default_factory=list)
    ended: Ended | None = None
    sessions: list[Session] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[Record], path: Path | None = None) -> "Results":
        """Sort the records of a run, and read the times that belong to `path`."""
        stream = iter(records)
        first = next(stream, None)
        if not isinstance(first, Started):
            raise RunError("These records do not begin with the start of a run.")
        found = list(stream)
        return cls(
            path,
            first,
            steps=[each for each in found if isinstance(each, Stepped)],
            anytime=[each for each in found if isinstance(each, Anytime)],
            tested=[each for each in found if isinstance(each, Tested)],
            aligned=[each for each in found if isinstance(each, Aligned)],
            ended=next((each for each in found if isinstance(each, Ended)), None),
            sessions=sessions_of(path) if path else [],
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Results":
        """Read a run, finished or not, from its folder or packed file."""
        path = Path(path)
        file = records_of(path)
        if file is None:
            raise RunError(f"{str(path)!r} is not a run: it has no file {RECORDS}, and is no packed run.")
        try:
            if not file.name.endswith(PACKED):
                return cls.of((record for record, _ in whole_records(file)), path)
            steps: list[bytes] = []  # those of a packed file are whole: gzip has checked them
            return replace(cls.of(_records_but_steps(file, steps), path), steps=LazySteps(steps))
        except RunError:
            raise RunError(f"{str(file)!r} does not begin with the start of a run.") from None

    @property
    def label(self) -> str:
        """What this run is, apart from its seed: runs of one label are averaged."""
        return str(self.started.config["name"])

    @property
    def seed(self) -> int:
        return int(self.started.config["seed"])

    @property
    def has_gaps(self) -> bool:
        """Return whether a step, or the test of a task, is missing before a later one."""
        steps, tasks = [each.step for each in self.steps], [each.task for each in self.finished_tasks]
        return steps != [*range(1, len(steps) + 1)] or tasks != [*range(len(tasks))]

    @property
    def finished_tasks(self) -> list[Tested]:
        """The tests at task ends, without the one of the untrained network."""
        return [test for test in self.tested if test.task >= 0]

    def matrix(self, scores: str = "accuracy") -> NDArray[np.float64]:
        """R[j, i]: percent on task i after task j, for the tasks finished. `scores`: "accuracy", "seen", "masked"."""
        return np.array([getattr(test, scores) for test in self.finished_tasks], dtype=np.float64)
