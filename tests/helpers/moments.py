"""What a process would leave if it were killed, at every moment at which that makes a difference.

A killed process leaves what is on the disk. So a copy of its folder, made just before a file is renamed, flushed or
deleted, in the middle of a write, or between two statements of a database, is what a kill at that moment leaves; one
undisturbed process shows all moments.
"""

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pytest


class Moments:
    """Copies of `folder`, made in `copies`, while code of this process writes to it: one at each `step`-th moment.

    `left`: the copies so far. `note` is called for each, and its result kept with it, to say what was promised then.
    """

    def __init__(self, folder: Path, copies: Path, *, step: int = 1, note: Callable[[], Any] = lambda: None) -> None:
        self.left: list[tuple[Path, Any]] = []
        self._folder, self._copies, self._step, self._note = folder, copies, step, note
        self._count = 0
        self._alone = threading.RLock()  # held while anything is written, so that a copy is of one moment

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Copy from now on, until the patch ends."""
        for name in ("fsync", "replace", "unlink", "rmdir"):
            patch.setattr(os, name, self._after_a_moment(getattr(os, name)))
        patch.setattr(Path, "open", self._opening(Path.open))
        patch.setattr(sqlite3, "connect", self._connecting(sqlite3.connect))

    def now(self) -> None:
        """Copy the folder, if it is time for a copy."""
        with self._alone:
            if self._count % self._step == 0 and self._folder.exists():
                copy = self._copies / str(self._count)
                shutil.copytree(self._folder, copy, copy_function=_copy_if_there)
                self.left.append((copy, self._note()))
            self._count += 1

    def _after_a_moment(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **settings: Any) -> Any:
            with self._alone:
                self.now()
                return function(*arguments, **settings)

        return called

    def _opening(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Path, mode: str = "r", *arguments: Any, **settings: Any) -> Any:
            file = function(path, mode, *arguments, **settings)
            torn = path.is_relative_to(self._folder) and mode.strip("bt") != "r"
            return Torn(file, self, new="w" in mode) if torn else file

        return called

    def _connecting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        class Statements(sqlite3.Connection):
            execute = self._after_a_moment(sqlite3.Connection.execute)

        return lambda *arguments, **settings: function(*arguments, factory=Statements, **settings)


def _copy_if_there(source: str, target: str) -> None:
    """Copy a file, unless SQLite is deleting it at this moment: a kill may leave it or not."""
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)


class Torn:
    """A file of which a kill may leave half of what is being written. In a new file, the first write will do."""

    def __init__(self, file: IO[Any], moments: Moments, *, new: bool) -> None:
        self._file, self._moments, self._new, self._begun = file, moments, new, False

    def write(self, data: Any) -> int:
        if self._new and self._begun:
            return self._file.write(data)
        self._begun, half = True, len(data) // 2
        with self._moments._alone:
            self._file.write(data[:half])
            self._file.flush()
            self._moments.now()
            self._file.write(data[half:])
        return len(data)

    def __enter__(self) -> "Torn":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
