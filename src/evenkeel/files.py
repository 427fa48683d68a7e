"""Files that are never half-written, locks between processes, and memory that a process keeps."""

import ctypes
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from evenkeel.errors import BusyError

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_freed_memory() -> None:
    """Let the process keep what it frees, up to 128 MiB, instead of returning it to the system (glibc only).

    A learning step frees and allocates the same blocks again and again, and asking the system for them each time takes
    time. For processes of our own: a library must not decide this for its user's process.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
            mallopt(M_TRIM_THRESHOLD, 128 * 2**20)


def keep_files_private() -> None:
    """Let only the owner read what this process and its children create. For processes of our own."""
    os.umask(0o077)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the block ends; readers see the old file or the new one, complete."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.partial")
    try:
        with flushed(partial) as file:
            yield file
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    flush(path.parent)


def write_whole(path: Path, content: bytes) -> None:
    """Write all of `content` or nothing. It is on the disk when this returns, so files it supersedes may be deleted."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def flushed(path: Path) -> Iterator[BinaryIO]:
    """Open a new file and flush it to the disk, not only to the system's cache, when the block ends."""
    with path.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def drop_cached(path: Path) -> None:
    """Let the next reader of a flushed file see what is on the disk, not what the system remembers (Linux only)."""
    if sys.platform == "linux":
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def flush(path: Path) -> None:
    """Make renames in a folder, or the content of a file, survive a power cut."""
    if os.name == "posix":
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def is_writable(folder: Path) -> bool:
    """Check whether files can be created in a folder: a disk may be read-only, or belong to someone else."""
    return os.access(folder, os.W_OK)


def flush_all(folder: Path) -> None:
    """Flush a folder and all that is in it to the disk."""
    for path in (*folder.rglob("*"), folder):
        flush(path)


def lock(file: BinaryIO, path: Path, *, wait: bool = False) -> None:
    """Lock an open file until it is closed or the process ends; raise BusyError if it is locked and `wait` is False."""
    if sys.platform == "win32":  # no advisory locks there: the user must keep two processes apart
        return
    import fcntl

    for last in (False, False, True):  # a process that only checks for a lock releases it at once
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            return
        except BlockingIOError:
            time.sleep(0 if last else 0.02)
    file.close()
    raise BusyError(
        f"Another process, or an unclosed run of this one, is using {str(path)!r}. Wait for it to end, or choose "
        "another folder."
    )
