"""The ledger of a grid: its runs, each known by a hash of its config, and an index that can be rebuilt from them.

A run under way has a folder named by its key. A finished run may be packed into one file with a readable name, such as
`cifar10-500-derpp-cba-seed2-6f0c1d2e.jsonl.gz`; ledgers of version 0.1, which packed inside the folders, are read and
continued. Any number of processes may write at once: a run's folder belongs to the process that holds its lock, and the
index is appended to under a lock of its own.
"""

import json
import os
import re
import shutil
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from errno import EACCES, EPERM, EROFS
from pathlib import Path

from evenkeel.config.own import versions_of
from evenkeel.errors import BusyError, EvenkeelError, RunError
from evenkeel.experiment.config import recorded_config
from evenkeel.experiment.run_folder import LOCK
from evenkeel.files import lock, write_whole
from evenkeel.grids.ledger_lines import Entry, Failure, append_line, read_lines
from evenkeel.grids.run_names import readable_name, run_key
from evenkeel.results.records import Ended, Started
from evenkeel.results.run_files import (
    PACKED,
    RECORDS,
    Results,
    is_damaged,
    last_record,
    packed,
    records_of,
    started_of,
    usage_of,
)

INDEX = "index.jsonl"
INDEX_LOCK = ".index.lock"
FAILURES = "failures.jsonl"
PACKING = ".packing"  # the end of the name of a folder whose run has just been packed
KEY = re.compile("[0-9a-f]{16}")
DIGITS = 8  # of a run's key in the name of its packed file
READ_ONLY = (EACCES, EPERM, EROFS)  # errors of a ledger that may only be read, and still is readable
RECENT = 10**9  # ns: a folder that changed just now may change again without a later time stamp


@dataclass(frozen=True)
class _Packed:
    """The packed files of a ledger."""

    changed: int = -1  # when the folder last did
    runs: dict[str, Path] = field(default_factory=dict)  # by key
    damaged: list[Path] = field(default_factory=list)


class Ledger:
    """A folder of runs."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._listed = _Packed()
        self._whole: dict[str, tuple[int, int]] = {}  # when folders changed in which no record was missing, and size

    def folder(self, key: str) -> Path:
        """Return the folder of a run under way, whether it exists or not."""
        return self.path / key

    def place(self, key: str) -> Path:
        """Return where a run is: its folder, or else its packed file."""
        return self.folder(key) if self.folder(key).is_dir() else self._packed().get(key, self.folder(key))

    def finished(self, key: str) -> bool:
        """Return whether a run is finished, by its own records: they count, whatever the index says."""
        return isinstance(last_record(self.place(key)), Ended) and not self._is_damaged(key)

    def step(self, key: str) -> int:
        """Return how far a run is, by its records."""
        last = last_record(self.place(key))
        return 0 if last is None else last.step

    def busy(self, key: str) -> bool:
        """Return whether a process is working on a run, here or on another machine that shares the disk."""
        return _is_locked(self.folder(key))

    def state(self, key: str) -> str:
        """Describe in words, for lists, how far a run is."""
        if self.finished(key):
            return "finished"
        step, failures = self.step(key), self.failures(key)
        if self.busy(key):
            return f"running, step {step}"
        return f"failed at step {failures[-1].step}" if failures else f"at step {step}" if step else "to do"

    def failures(self, key: str) -> list[Failure]:
        """Return why a run stopped, each time it did."""
        return read_lines(self.folder(key) / FAILURES, Failure)

    def fail(self, key: str, error: BaseException | str) -> None:
        """Record why a run stopped. It is tried again when the grid is started again."""
        expected = isinstance(error, str | EvenkeelError)
        text = str(error) if expected else f"{type(error).__name__}: {error}"
        text = ". ".join([text, *getattr(error, "__notes__", ())])  # where in the user's own code
        trace = "" if isinstance(error, str) or expected else "".join(traceback.format_exception(error))
        failure = Failure(text, trace, self.step(key), datetime.now(UTC).isoformat(timespec="seconds"))
        self.folder(key).mkdir(parents=True, exist_ok=True)
        append_line(self.folder(key) / FAILURES, asdict(failure))

    def require_writable(self) -> None:
        """Raise RunError if nothing can be written here: once, before any run starts."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_whole(self.path / f".probe{os.getpid()}", b"?" * 4096)
            (self.path / f".probe{os.getpid()}").unlink()
        except OSError as error:
            raise RunError(f"Cannot keep a ledger in {str(self.path)!r}: {error.strerror or error}.") from error

    def note_finished(self, key: str) -> Entry:
        """Enter a finished run into the index. If the index has several lines of a run, the last one counts."""
        entry = self._entry(key)
        try:
            with self._index_lock():
                known = {each.key: each for each in read_lines(self.path / INDEX, Entry)}
                if known.get(key) != entry:
                    append_line(self.path / INDEX, asdict(entry))
        except OSError as error:
            if error.errno not in READ_ONLY:
                raise
        return entry

    def entries(self) -> list[Entry]:
        """Return the finished runs, and add to the index what it lacks because a process was killed."""
        known = {each.key: each for each in read_lines(self.path / INDEX, Entry)}
        return [known.get(key) or self.note_finished(key) for key in self.runs() if self.finished(key)]

    def rebuild(self) -> int:
        """Write the index again from the runs; return how many are finished."""
        with self._index_lock():
            entries = [asdict(self._entry(key)) for key in self.runs() if self.finished(key)]
            write_whole(self.path / INDEX, "".join(json.dumps(entry) + "\n" for entry in entries).encode())
        return len(entries)

    def runs(self) -> list[str]:
        """Return the keys of all runs here, in order."""
        names = [path.name for path in self.path.iterdir()] if self.path.is_dir() else []
        folders = [name for name in names if KEY.fullmatch(name) and self._is_run(self.folder(name))]
        return sorted({*folders, *self._packed()})

    def damaged(self) -> list[Path]:
        """Return what cannot be read as a run: packed files and folders."""
        return [*self._files().damaged, *(self.folder(key) for key in self.runs() if self._is_damaged(key))]

    def _is_damaged(self, key: str) -> bool:
        """Return whether a run's folder has lost records, read again only after it has changed."""
        file = records_of(self.folder(key))
        if file is None:
            return False  # a packed file is whole or not a run
        stat = file.stat()
        now = stat.st_mtime_ns, stat.st_size
        if self._whole.get(key) != now:
            if is_damaged(self.folder(key)):
                return True
            self._whole[key] = now
        return False

    def results(self, keys: Iterable[str]) -> list[Results]:
        """Read the runs with these keys."""
        return [Results.read(self.place(key)) for key in keys]

    def adopt(self, path: Path) -> str:
        """Move a run that was made on its own (`evenkeel run --out`) into the ledger; return its key."""
        started = started_of(path)
        config = recorded_config(started.config)
        for name, version in versions_of(config).items():
            if started.versions.get(name) != version:
                raise RunError(f"{str(path)!r} was made with another file of {name}: {started.versions.get(name)}.")
        key = run_key(config)
        if last_record(self.place(key)) is not None:
            raise RunError(f"{str(path)!r} is a run that the ledger already has, as {str(self.place(key))!r}.")
        for folder in (path, self.folder(key)):
            if _is_locked(folder):
                raise BusyError(f"A process is working in {str(folder)!r}; wait for it.")
        self.path.mkdir(parents=True, exist_ok=True)
        self._move_in(path, key)
        if self.finished(key):
            self.note_finished(key)
        return key

    def _move_in(self, path: Path, key: str) -> None:
        """Move a run to its place, where an attempt that failed before its first record may have left a folder."""
        folder = self.folder(key)
        if path.is_file():
            shutil.move(path, self.path / path.name)
            shutil.rmtree(folder, ignore_errors=True)  # it would count before the file
        elif folder.is_dir():
            for each in sorted(path.iterdir(), key=lambda each: each.name == RECORDS):  # last: they make it a run
                shutil.move(each, folder / each.name)
            path.rmdir()
        else:
            shutil.move(path, folder)

    def pack(self) -> int:
        """Make one file of each finished run and delete its folder; return how many bytes that frees.

        Records, configs and times stay whole; the learners are deleted.
        """
        freed = 0
        for left in self.path.glob(f".*{PACKING}"):  # by a process that was killed
            shutil.rmtree(left)
        for entry in self.entries():
            folder = self.folder(entry.key)
            if not folder.is_dir():
                continue
            with suppress(BusyError), (folder / LOCK).open("ab") as file:
                lock(file, folder)
                if self.finished(entry.key):
                    target = self.path / self._packed_name(entry.key, started_of(folder))
                    write_whole(target, packed(folder, entry.key))
                    freed += sum(each.stat().st_size for each in folder.iterdir()) - target.stat().st_size
                    # A folder counts before a packed file, so it must go at once, not file by file.
                    shutil.rmtree(folder.replace(self.path / f".{entry.key}{PACKING}"))
        return freed

    def _packed_name(self, key: str, started: Started) -> str:
        """Name a packed run by what it is, and by so much of its key that no other run has the name."""
        name = readable_name(started)
        taken = {path.name for other, path in self._packed().items() if other != key}
        short = f"{name}-{key[:DIGITS]}{PACKED}"
        return f"{name}-{key}{PACKED}" if short in taken else short

    def _packed(self) -> dict[str, Path]:
        """Return the packed runs by key."""
        return self._files().runs

    def _files(self) -> "_Packed":
        """Return the packed files, listed again only after the folder has changed."""
        try:
            changed = self.path.stat().st_mtime_ns
        except (FileNotFoundError, NotADirectoryError):
            return _Packed()
        if self._listed.changed != changed or time.time_ns() - changed < RECENT:
            usages = [(usage_of(file), file) for file in sorted(self.path.glob(f"*{PACKED}"))]
            self._listed = _Packed(
                changed,
                runs={usage.key: file for usage, file in usages if usage is not None},
                damaged=[file for usage, file in usages if usage is None],
            )
        return self._listed

    def _is_run(self, folder: Path) -> bool:
        return records_of(folder) is not None or (folder / FAILURES).is_file()

    def _entry(self, key: str) -> Entry:
        run = Results.read(self.place(key))
        if run.ended is None:
            raise RunError(f"The records of {str(run.path)!r} are damaged; delete it to run it again.")
        return Entry(key, run.label, run.seed, str(run.started.data["name"]), dict(run.ended.metrics))

    @contextmanager
    def _index_lock(self) -> Iterator[None]:
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / INDEX_LOCK).open("ab") as file:
            lock(file, self.path, wait=True)
            yield


def _is_locked(folder: Path) -> bool:
    try:
        with (folder / LOCK).open("rb+") as file:
            lock(file, folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except BusyError:
        return True
    return False
