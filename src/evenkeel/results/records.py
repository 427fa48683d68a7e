"""Records of a run: what happened, as JSON lines. Everything that comes after a run reads these, never a model.

A run's folder holds `records.jsonl` (equal for equal runs, however often one was interrupted), `usage.jsonl` (time,
memory and command of each process that worked on it) and `model.ek`, the learner at the last checkpoint.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evenkeel.errors import RunError

RECORDS = "records.jsonl"
PACKED = "records.jsonl.gz"  # the same, of a finished run that is put away
USAGE = "usage.jsonl"


@dataclass(frozen=True)
class Started:
    """The first record: everything that determines the others."""

    kind: ClassVar[str] = "start"
    config: Mapping[str, Any]  # complete: every default is written out
    versions: Mapping[str, str]  # of evenkeel, python, torch, numpy
    threads: int
    data: Mapping[str, Any]  # name, digest, train and test (numbers of samples), classes (names)
    tasks: list[Mapping[str, Any]]  # of each: name, classes (indices), samples, steps; one dummy task for a bare stream
    steps: int | None  # None where the stream does not tell its length
    stream: str | None  # digest of which sample comes when; None for a stream of the user's own
    boundaries: bool  # whether the learner is told when a task ends
    step: int = 0
    bound: str = ""  # "lower" or "upper" for a method that is no method to use, but a bound to compare others with


@dataclass(frozen=True)
class Stepped:
    """One incoming batch was learned."""

    kind: ClassVar[str] = "step"
    step: int  # from 1
    task: int  # from 0
    samples: int
    loss: float | None  # None where the method held the whole batch out
    outer_loss: float | None  # of the adaptor, where it was trained in this step
    replayed: int  # samples drawn from memory
    stored: int  # samples in memory afterwards
    classes: int  # labels known afterwards
    correct: int | None  # prequential: how many of the batch were predicted right before they were learned


@dataclass(frozen=True)
class Anytime:
    """A point of the accuracy curve, on a fixed sample of the test data."""

    kind: ClassVar[str] = "anytime"
    step: int
    task: int
    accuracy: list[float]  # on each task so far, `task` + 1 of them, in percent
    predicted: list[float]  # share, in percent, of the predictions for seen tasks' samples by the task predicted, all
    # tasks; empty where tasks share their classes

    @property
    def mean(self) -> float:
        """The mean over the tasks seen so far: the value of the curve in the CBA paper."""
        return float(np.mean(self.accuracy))


@dataclass(frozen=True)
class Tested:
    """The whole test data, at the end of a task; `task` is -1 before the first."""

    kind: ClassVar[str] = "test"
    step: int
    task: int
    accuracy: list[float]  # on each task, in percent: class-incremental, all outputs compete
    seen: list[float]  # the same, but only outputs of classes seen so far compete
    masked: list[float]  # task-incremental: only outputs of the sample's own task compete
    predicted: list[float]  # as in `Anytime`
    confusion: list[list[int]]  # [true class][predicted class], counts; other predictions are in no column
    recall: list[float]  # by class, in percent
    memory: list[int]  # samples in memory by class


@dataclass(frozen=True)
class Aligned:
    """Gradient alignment (Theorem 1 of the CBA paper) at this step, before it was learned."""

    kind: ClassVar[str] = "alignment"
    step: int
    task: int
    cosine: float  # between the two gradients
    training_norm: float  # of the training loss, with the adaptor
    memory_norm: float  # of the memory loss, without


@dataclass(frozen=True)
class Ended:
    """The last record."""

    kind: ClassVar[str] = "end"
    step: int
    metrics: Mapping[str, float | None]  # by name, see `evenkeel.results.groups.MEASURES`


Record = Started | Stepped | Anytime | Tested | Aligned | Ended
KINDS: dict[str, type[Record]] = {each.kind: each for each in (Started, Stepped, Anytime, Tested, Aligned, Ended)}


LATER = {"bound": ""}  # fields that older records lack: written only where they differ from this default
OLD_BOUNDS = {"finetune": "lower", "joint": "upper"}  # bounds whose older records do not say so


def to_line(record: Record) -> str:
    """Return the record as a line of JSON."""
    content = {name: value for name, value in asdict(record).items() if name not in LATER or value != LATER[name]}
    return json.dumps({"kind": record.kind, **content}, separators=(",", ":"), allow_nan=False) + "\n"


def from_line(line: str | bytes) -> Record:
    """ValueError where the line is not a whole record of this version."""
    content = json.loads(line)
    try:
        kind = KINDS[content.pop("kind")]
        known = {each.name for each in fields(kind)}
        return kind(**{name: value for name, value in content.items() if name in known})
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a record: {error}") from None


def bound_of(started: Started) -> str:
    """Return "lower" or "upper" if the method of a run is a bound, else an empty string."""
    table = started.config["method"]
    inner = [str(value.get("name")) for value in table.values() if isinstance(value, Mapping)]  # what RAR repeats
    names = [str(table.get("name")), *inner]
    return started.bound or next((OLD_BOUNDS[name] for name in names if name in OLD_BOUNDS), "")


def records_of(folder: Path) -> Path | None:
    """The file with the records of the run in `folder`, packed or not; None where there is no run."""
    return next((path for path in (folder / RECORDS, folder / PACKED) if path.is_file()), None)


def whole_records(path: Path) -> Iterator[tuple[Record, int]]:
    """The records of a file up to the first that is torn, each with the offset of its end."""
    offset = 0
    with gzip.open(path) if path.name == PACKED else path.open("rb") as file:
        for line in _lines(file):
            if not line.endswith(b"\n"):
                return
            try:
                record = from_line(line)
            except ValueError:
                return
            offset += len(line)
            yield record, offset


def _lines(file: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file, up to where a packed one is damaged."""
    try:
        yield from file
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return


def started_of(folder: Path) -> Started:
    """The first record of the run in `folder`, without reading the others."""
    path = records_of(folder)
    first = next((record for record, _ in whole_records(path)), None) if path else None
    if not isinstance(first, Started):
        raise RunError(f"The records in {str(folder)!r} do not begin with the start of a run.")
    return first


def last_record(folder: Path) -> Record | None:
    """The last whole record of the run in `folder`, without reading the others; None where there is none."""
    path = records_of(folder)
    if path is None:
        return None
    if path.name == PACKED:
        try:
            *_, last, end = b"", *gzip.decompress(path.read_bytes()).split(b"\n")
            return None if end else from_line(last)
        except (EOFError, gzip.BadGzipFile, zlib.error, ValueError):
            return None
    with path.open("rb") as file:
        size, chunk = file.seek(0, os.SEEK_END), 4096
        while True:
            file.seek(max(0, size - chunk))
            *whole, _ = file.read(min(chunk, size)).split(b"\n")  # after the last line break is nothing, or a torn line
            lines = whole if chunk >= size else whole[1:]  # the first may have begun before the chunk
            if lines or chunk >= size:
                break
            chunk *= 4
    try:
        return from_line(lines[-1]) if lines else None
    except ValueError:
        return None


@dataclass(frozen=True)
class Session:
    """One process that worked on a run, as it was at its last sign of life."""

    command: str
    started: str  # UTC, ISO 8601
    from_step: int
    step: int
    seconds: float  # in all
    evaluating: float  # of these in tests, anytime points and diagnostics
    peak_bytes: int | None  # most memory the process held at once; None where the system does not tell


@dataclass(frozen=True)
class Results:
    """The records of one run, sorted by kind."""

    folder: Path | None
    started: Started
    steps: list[Stepped] = field(default_factory=list)
    anytime: list[Anytime] = field(default_factory=list)
    tested: list[Tested] = field(default_factory=list)
    aligned: list[Aligned] = field(default_factory=list)
    ended: Ended | None = None
    sessions: list[Session] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[Record], folder: Path | None = None) -> "Results":
        stream = iter(records)
        first = next(stream, None)
        if not isinstance(first, Started):
            raise RunError("These records do not begin with the start of a run.")
        found = list(stream)
        return cls(
            folder,
            first,
            steps=[each for each in found if isinstance(each, Stepped)],
            anytime=[each for each in found if isinstance(each, Anytime)],
            tested=[each for each in found if isinstance(each, Tested)],
            aligned=[each for each in found if isinstance(each, Aligned)],
            ended=next((each for each in found if isinstance(each, Ended)), None),
            sessions=sessions_of(folder) if folder else [],
        )

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> "Results":
        """The run in `folder`, finished or not."""
        folder = Path(folder)
        path = records_of(folder)
        if path is None:
            raise RunError(f"{str(folder)!r} is not a run: there is no file {RECORDS} in it.")
        try:
            return cls.of((record for record, _ in whole_records(path)), folder)
        except RunError:
            raise RunError(f"{str(path)!r} does not begin with the start of a run.") from None

    @property
    def label(self) -> str:
        """What this run is, apart from its seed: runs of one label are averaged."""
        return str(self.started.config["name"])

    @property
    def seed(self) -> int:
        return int(self.started.config["seed"])

    @property
    def finished_tasks(self) -> list[Tested]:
        """The tests at task ends, without the one of the untrained network."""
        return [test for test in self.tested if test.task >= 0]

    def matrix(self, scores: str = "accuracy") -> NDArray[np.float64]:
        """R[j, i]: percent on task i after task j, for the tasks finished. `scores`: "accuracy", "seen", "masked"."""
        return np.array([getattr(test, scores) for test in self.finished_tasks], dtype=np.float64)


def sessions_of(folder: Path) -> list[Session]:
    """The last word of each process that worked on the run in `folder`."""
    path = folder / USAGE
    latest: dict[str, Session] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        try:
            session = Session(**json.loads(line))
        except (ValueError, TypeError):
            continue  # torn by a kill; it is only about time
        latest[session.started] = session
    return list(latest.values())


def find_runs(folders: Iterable[Path]) -> list[Path]:
    """Runs in these folders and below them."""
    found: dict[Path, None] = {}
    for folder in folders:
        below = [folder] if records_of(folder) else sorted({path.parent for path in folder.rglob(f"{RECORDS}*")})
        runs = [each for each in below if records_of(each)]
        if not runs:
            raise RunError(f"There is no run in {str(folder)!r}: no file {RECORDS} in it or below.")
        found.update(dict.fromkeys(runs))
    return list(found)
