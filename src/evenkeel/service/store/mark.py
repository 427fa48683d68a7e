"""How far the journal had come, in a file of its own: what a damaged log silently lacks is noticed.

SQLite ignores everything in its log after the first damaged byte, and starts an empty database where a file is
missing. The mark is written after each commit and before it is acknowledged, so the journal is never behind it. It is
not flushed: a kill does not lose it, a power cut may leave an older one.
"""

import os
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LENGTH = 64  # a small fixed size, written in place


@dataclass(frozen=True)
class Position:
    """A moment in the life of a journal: which one, and how many times it was changed."""

    identity: str
    number: int


def read_mark(path: Path) -> Position | None:
    """Return the position in a file; None if there is none that can be read."""
    with suppress(OSError, ValueError):
        identity, number, checksum = path.read_bytes().decode().split()
        if zlib.crc32(f"{identity} {number}".encode()) == int(checksum):
            return Position(identity, int(number))
    return None


class MarkFile:
    """The open file of a mark. An error changes nothing but that less is noticed, so it is not raised."""

    def __init__(self, path: Path) -> None:
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)

    def write(self, position: Position) -> None:
        """Replace the mark."""
        text = f"{position.identity} {position.number}"
        if self._file is not None:
            with suppress(OSError):
                os.lseek(self._file, 0, os.SEEK_SET)
                os.write(self._file, f"{text} {zlib.crc32(text.encode())}".ljust(LENGTH).encode())

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
