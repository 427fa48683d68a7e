"""The ledger of a grid: a folder for each run, named by a hash of its config, and an index that can be made anew.

Any number of processes may write at once. A run's folder belongs to the process that holds its lock; the index is
appended to under a lock of its own, and holds nothing that the folders do not.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from evenkeel.config.build import with_policy
from evenkeel.errors import BusyError, EvenkeelError, RunError
from evenkeel.experiment.config import Config, load_config
from evenkeel.experiment.folder import LOCK, MODEL
from evenkeel.files import lock, write_whole
from evenkeel.results.records import PACKED, RECORDS, Ended, Results, last_record, records_of, started_of

INDEX = "index.jsonl"
INDEX_LOCK = ".index.lock"
FAILURES = "failures.jsonl"
KEY = re.compile("[0-9a-f]{16}")


def run_key(config: Config) -> str:
    """What a run is, in 16 hexadecimal digits.

    Its name and the number of threads are no part of that: they say how it is called and how fast it was. Nor are
    settings that are none, so that a setting of a later version, absent by default, leaves the keys as they are.
    """
    told = with_policy(config).model_dump(mode="json", exclude={"name", "threads"})
    return hashlib.sha256(json.dumps(without_none(told), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Entry:
    """A finished run, as the index has it."""

    key: str
    name: str
    seed: int
    data: str
    metrics: dict[str, float | None]


@dataclass(frozen=True)
class Failure:
    error: str  # as a sentence for people
    trace: str  # for engineers; empty where the error was on purpose
    step: int  # how far the run was
    time: str  # UTC, ISO 8601


Line = TypeVar("Line", Entry, Failure)


class Ledger:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def folder(self, key: str) -> Path:
        return self.path / key

    def finished(self, key: str) -> bool:
        """From the folder itself, which is what counts."""
        return isinstance(last_record(self.folder(key)), Ended)

    def step(self, key: str) -> int:
        """How far a run is, by its records."""
        last = last_record(self.folder(key))
        return 0 if last is None else last.step

    def busy(self, key: str) -> bool:
        """Whether a process is at work on it, here or on another machine that shares the disk."""
        return _held(self.folder(key))

    def state(self, key: str) -> str:
        """In words, for lists."""
        if self.finished(key):
            return "finished"
        step, failures = self.step(key), self.failures(key)
        if self.busy(key):
            return f"at work, step {step}"
        return f"failed at step {failures[-1].step}" if failures else f"at step {step}" if step else "to do"

    def failures(self, key: str) -> list[Failure]:
        return _read(self.folder(key) / FAILURES, Failure)

    def fail(self, key: str, error: BaseException | str) -> None:
        """Note why a run could not go on. It is tried again when the grid is started again."""
        told = isinstance(error, str | EvenkeelError)
        text = str(error) if told else f"{type(error).__name__}: {error}"
        trace = "" if isinstance(error, str) or told else "".join(traceback.format_exception(error))
        failure = Failure(text, trace, self.step(key), datetime.now(UTC).isoformat(timespec="seconds"))
        self.folder(key).mkdir(parents=True, exist_ok=True)
        _append(self.folder(key) / FAILURES, asdict(failure))

    def require_writable(self) -> None:
        """Told before any work, not by each run."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_whole(self.path / f".probe{os.getpid()}", b"?" * 4096)
            (self.path / f".probe{os.getpid()}").unlink()
        except OSError as error:
            raise RunError(f"Cannot keep a ledger in {str(self.path)!r}: {error.strerror or error}.") from error

    def note_finished(self, key: str) -> Entry:
        """Enter a finished run into the index; of several lines of one run, the last counts."""
        entry = self._entry(key)
        with suppress(PermissionError), self._index_lock():  # whoever may only read a ledger still sees what is in it
            known = {each.key: each for each in _read(self.path / INDEX, Entry)}
            if known.get(key) != entry:
                _append(self.path / INDEX, asdict(entry))
        return entry

    def entries(self) -> list[Entry]:
        """The finished runs. What the index misses, because a process was killed before it could say, is added."""
        known = {each.key: each for each in _read(self.path / INDEX, Entry)}
        there = [key for key in self.runs() if self.finished(key)]  # the folders count, whatever the index says
        return [known.get(key) or self.note_finished(key) for key in there]

    def rebuild(self) -> int:
        """Make the index anew from the folders; how many finished runs there are."""
        with self._index_lock():
            entries = [asdict(self._entry(key)) for key in self.runs() if self.finished(key)]
            write_whole(self.path / INDEX, "".join(json.dumps(entry) + "\n" for entry in entries).encode())
        return len(entries)

    def runs(self) -> list[str]:
        """The keys of all runs that have a folder here, in order."""
        found = self.path.iterdir() if self.path.is_dir() else ()
        keys = sorted(each.name for each in found if KEY.fullmatch(each.name))
        return [key for key in keys if records_of(self.folder(key)) or (self.folder(key) / FAILURES).is_file()]

    def results(self, keys: Iterable[str]) -> list[Results]:
        return [Results.read(self.folder(key)) for key in keys]

    def adopt(self, folder: Path) -> str:
        """Move a run that was made on its own (`evenkeel run --out`) into the ledger; its key."""
        key = run_key(load_config(started_of(folder).config))
        target = self.folder(key)
        if target.exists():
            raise RunError(f"{str(folder)!r} is a run that the ledger already has, in {str(target)!r}.")
        if _held(folder):
            raise BusyError(f"A process is at work in {str(folder)!r}; wait for it.")
        self.path.mkdir(parents=True, exist_ok=True)
        shutil.move(folder, target)
        if self.finished(key):
            self.note_finished(key)
        return key

    def pack(self) -> int:
        """Compress the records of finished runs and delete their checkpoints; how many bytes are free again.

        Records stay whole, so that everything can still be read. The learners are gone.
        """
        freed = 0
        for entry in self.entries():
            folder = self.folder(entry.key)
            with suppress(BusyError), (folder / LOCK).open("ab") as file:
                lock(file, folder)
                before = sum(each.stat().st_size for each in folder.iterdir())
                if self.finished(entry.key) and (folder / RECORDS).is_file():
                    write_whole(folder / PACKED, gzip.compress((folder / RECORDS).read_bytes(), 9, mtime=0))
                    (folder / RECORDS).unlink()
                    (folder / MODEL).unlink(missing_ok=True)
                freed += before - sum(each.stat().st_size for each in folder.iterdir())
        return freed

    def _entry(self, key: str) -> Entry:
        run = Results.read(self.folder(key))
        if run.ended is None:
            raise RunError(f"The records in {str(self.folder(key))!r} are damaged; delete the folder to do it anew.")
        return Entry(key, run.label, run.seed, str(run.started.data["name"]), dict(run.ended.metrics))

    @contextmanager
    def _index_lock(self) -> Iterator[None]:
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / INDEX_LOCK).open("ab") as file:
            lock(file, self.path, wait=True)
            yield


def _held(folder: Path) -> bool:
    try:
        with (folder / LOCK).open("rb+") as file:
            lock(file, folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except BusyError:
        return True
    return False


def without_none(value: Any) -> Any:
    """A table without the settings that are none, at any depth."""
    if isinstance(value, dict):
        return {name: without_none(each) for name, each in value.items() if each is not None}
    return value


def _read(path: Path, kind: type[Line]) -> list[Line]:
    """The lines of a file. One that was torn by a power cut is passed over, and so is what a later version added."""
    found, names = [], {each.name for each in fields(kind)}
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        with suppress(ValueError, TypeError, AttributeError):
            found.append(kind(**{name: value for name, value in json.loads(line).items() if name in names}))
    return found


def _append(path: Path, line: dict[str, Any]) -> None:
    """In one write, on a line of its own even where the last one was torn, and on the disk when this returns."""
    text = f"{json.dumps(line)}\n".encode()
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                text = b"\n" + text
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
