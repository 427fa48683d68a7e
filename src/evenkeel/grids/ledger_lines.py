"""The lines of a ledger's files: the finished runs in its index, and the failures in the folder of a run."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar


@dataclass(frozen=True)
class Entry:
    """A finished run in the index."""

    key: str
    name: str
    seed: int
    data: str
    metrics: dict[str, float | None]


@dataclass(frozen=True)
class Failure:
    """Why a run stopped."""

    error: str  # as a sentence for people
    trace: str  # for engineers; empty if the error was expected
    step: int  # how far the run had come
    time: str  # UTC, ISO 8601


Line = TypeVar("Line", Entry, Failure)


def read_lines(path: Path, kind: type[Line]) -> list[Line]:
    """Read the lines of a file, without those torn by a power cut and without what a later version added."""
    lines, names = [], {each.name for each in fields(kind)}
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        with suppress(ValueError, TypeError, AttributeError):
            lines.append(kind(**{name: value for name, value in json.loads(line).items() if name in names}))
    return lines


def append_line(path: Path, line: dict[str, Any]) -> None:
    """Append a line in one write, on a line of its own even if the last one was torn, and flush it to the disk."""
    text = f"{json.dumps(line)}\n".encode()
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                text = b"\n" + text
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
