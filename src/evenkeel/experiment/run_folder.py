"""The folder of a run: records, checkpoint and times, written by one process and resumed by the next."""

import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import BinaryIO

from evenkeel.config.loading import differences
from evenkeel.errors import CheckpointError, RunError, reason
from evenkeel.files import lock, write_whole
from evenkeel.learning import checkpoint
from evenkeel.learning.learner import Learner
from evenkeel.results.records import Ended, Record, Session, Started, Stepped, to_line
from evenkeel.results.run_files import DAMAGED, OLD_PACKED, RECORDS, USAGE, whole_records

MODEL = "model.ek"
LOCK = ".lock"


class RunFolder:
    """The files of a run, owned by one process at a time.

    A checkpoint holds the digest of the records before it, which are on disk first. Records after the last checkpoint
    are cut off when the run resumes: the run writes the same ones again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._as_run_error("keep a run in"):
            path.mkdir(parents=True, exist_ok=True)
            self._lock = (path / LOCK).open("ab")
            lock(self._lock, path)
            self._unpack()
            self._records: BinaryIO = (path / RECORDS).open("ab")
            for left in path.glob(f".{MODEL}.*.partial"):  # by a process that was killed while it saved
                left.unlink()
        self._digest = hashlib.sha256()

    def _unpack(self) -> None:
        """Restore the records of a run that version 0.1 packed."""
        packed = self.path / OLD_PACKED
        if packed.is_file():
            try:
                records = gzip.decompress(packed.read_bytes())
            except DAMAGED as error:
                self._lock.close()
                raise RunError(f"{str(packed)!r} is damaged: {error}. Delete it to repeat the run.") from None
            write_whole(self.path / RECORDS, records)
            packed.unlink()

    def close(self) -> None:
        """Close the files and release the lock."""
        self._records.close()
        self._lock.close()

    def resume(self, started: Started, device: str) -> tuple[list[Record], Learner | None, str | None]:
        """Return the records to resume from, the learner after them, and the digest of the user's own stream so far.

        Without a checkpoint, there are no records and no learner to resume from.
        """
        records = list(whole_records(self.path / RECORDS))
        first = records[0][0] if records else None
        if first is not None and not isinstance(first, Started):
            raise RunError(f"{str(self.path / RECORDS)!r} does not begin with the start of a run.")
        if first is None or not any(isinstance(record, Stepped) for record, _ in records):
            return self._from(records, 0), None, None
        _require_same(self.path, first, started)
        if isinstance(records[-1][0], Ended):
            return self._from(records, records[-1][1]), None, None
        if not (self.path / MODEL).is_file():
            return self._from(records, 0), None, None
        try:
            learner = Learner.load(self.path / MODEL, device=device)
            known = checkpoint.read(self.path / MODEL)[0].get("run", {})
        except CheckpointError as error:
            raise RunError(f"This run cannot be resumed: {error} Delete {str(self.path)!r} to start over.") from None
        kept = self._from(records, known.get("bytes", 0))
        if self._digest.hexdigest() != known.get("sha256"):
            raise RunError(
                f"{str(self.path / RECORDS)!r} does not match the last checkpoint: one of the two is damaged, or "
                "belongs to another run. Delete the folder to start over."
            )
        return kept, learner, known["stream"]

    def append(self, records: Iterable[Record]) -> None:
        """Write these records."""
        text = "".join(map(to_line, records)).encode()
        with self._as_run_error("write to"):
            self._records.write(text)
            self._records.flush()
        self._digest.update(text)

    def save(self, learner: Learner, session: Session, stream: str | None) -> None:
        """Write a checkpoint, with the digest of the records before it, and what the session has used so far."""
        with self._as_run_error("write to"):
            os.fsync(self._records.fileno())
            run = {"bytes": self._records.tell(), "sha256": self._digest.hexdigest(), "stream": stream}
            facts, tensors = learner.state()
            checkpoint.write(self.path / MODEL, {**facts, "run": run}, tensors)
            with (self.path / USAGE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(session)) + "\n")

    def _from(self, records: Iterable[tuple[Record, int]], offset: int) -> list[Record]:
        """Return the records up to this byte, and cut the file off after it."""
        text = (self.path / RECORDS).read_bytes()[:offset]
        self._digest = hashlib.sha256(text)
        with self._as_run_error("write to"):
            self._records.truncate(len(text))
            self._records.seek(len(text))
        return [record for record, end in records if end <= offset]

    @contextmanager
    def _as_run_error(self, what: str) -> Iterator[None]:
        """Raise RunError for errors of the disk; `what` could not be done."""
        try:
            yield
        except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
            why = getattr(error, "strerror", None) or reason(error)
            raise RunError(f"Cannot {what} {str(self.path)!r}: {why}. Existing files are unchanged.") from error


def _require_same(path: Path, before: Started, now: Started) -> None:
    """Raise RunError unless both are one run. Name, threads and devices may differ: the run keeps name and threads.

    Whether the method is a bound follows from the config; older records do not say it.
    """
    anywhere = {"threads": 0, "device": "", "memory_device": "", "bound": ""}
    old, new = (json.loads(to_line(replace(each, **anywhere))) for each in (before, now))  # type: ignore[arg-type]
    changes = [each for each in differences(old, new) if each[0] not in ("config.name", "config.threads")]
    if changes:
        shown = "; ".join(f"{where} is {was!r} there and {is_!r} here" for where, was, is_ in changes[:3])
        raise RunError(
            f"{str(path)!r} holds another run: {shown}. Choose another folder, or use the same config, data and "
            "versions to resume."
        )
