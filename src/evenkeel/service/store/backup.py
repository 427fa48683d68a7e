"""Backups: a consistent copy of a service's folder, made while the service runs, and restored as a whole.

A backup is a folder, or a tar file of it, with a list of its files and their hashes. It appears under its name only
once it is complete, and a restored folder as well.
"""

import hashlib
import json
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from evenkeel.errors import DataError, EvenkeelError, SettingsError, reason, some
from evenkeel.files import flush, flush_all, flushed, write_whole
from evenkeel.service.store import queries, version_rows, versions
from evenkeel.service.store.agreement import disagreement, is_taken_over, position_of
from evenkeel.service.store.journal import open_unchanged
from evenkeel.service.store.mark import MarkFile, Position
from evenkeel.service.store.model_folder import CONFIG, ModelFolder
from evenkeel.service.store.seal import seal

LIST = "backup.json"
ATTEMPTS = 20  # while versions are replaced under our hands
COMPRESSED = (".gz", ".tgz", ".bz2", ".xz", ".zst", ".zip")


def back_up(folder: ModelFolder, target: str) -> dict[str, Any]:
    """Copy a service's folder to a new folder, a .tar file, or a URL of fsspec; return what the backup holds."""
    if "://" in target:
        return _to_url(folder, target)
    path = Path(target).resolve()
    if path.suffix in COMPRESSED:
        raise SettingsError(f"A backup is a folder or a .tar file, not {path.suffix}: compress it once it is made.")
    return _to_tar(folder, path) if path.suffix == ".tar" else _to_folder(folder, path)


def _exists(target: str | Path) -> SettingsError:
    return SettingsError(f"{str(target)!r} exists. Choose a new name, or move that away first.")


def _to_url(folder: ModelFolder, url: str) -> dict[str, Any]:
    """Upload a tar file as a whole: one that is written piece by piece would appear when an error closes it."""
    with tempfile.TemporaryDirectory() as local, _storage(url, "written") as (storage, path):
        if storage.exists(path):
            raise _exists(url)
        facts = _to_tar(folder, Path(local) / "backup.tar")
        storage.put_file(str(Path(local) / "backup.tar"), path)
    return facts


def _to_tar(folder: ModelFolder, target: Path) -> dict[str, Any]:
    with _partial(target) as partial:
        facts = _copy(folder, partial)
        packed = partial.with_name(f"{partial.name}.tar")
        with flushed(packed) as file, tarfile.open(fileobj=file, mode="w") as tar:
            tar.add(partial, arcname="")
        packed.replace(target)
        flush(target.parent)
    return facts


def _to_folder(folder: ModelFolder, target: Path) -> dict[str, Any]:
    with _partial(target) as partial:
        facts = _copy(folder, partial)
        partial.rename(target)
        flush(target.parent)
    return facts


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """Make a folder next to the target to work in; delete it in the end, and what a killed process left of it.

    Raise SettingsError if the target exists, but for an empty folder, which may be a place that was made for it.
    """
    partial = target.with_name(f".{target.name}.partial")
    leftovers = (partial, partial.with_name(f"{partial.name}.tar"))
    new = [parent for parent in target.parents if not parent.exists()]
    _delete(*leftovers)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise _exists(target)
    if target.is_mount():
        raise SettingsError(f"{str(target)!r} is a mount point, which cannot be replaced. Choose a folder inside it.")
    partial.mkdir(parents=True)
    try:
        yield partial
    finally:
        _delete(*leftovers)
        for parent in new:
            with suppress(OSError):  # it is not empty: all went well
                parent.rmdir()


def _delete(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)


def _copy(folder: ModelFolder, target: Path) -> dict[str, Any]:
    """Copy the databases as of one moment, and the versions that they know."""
    _require_whole(folder)
    copy = ModelFolder(target)
    copy.make()
    for path in (folder.path / CONFIG, folder.keys):
        if path.exists():
            shutil.copy(path, target)
    _copy_database(folder.predictions, copy.predictions)
    for last in [False] * ATTEMPTS + [True]:
        copy.journal.unlink(missing_ok=True)
        _copy_database(folder.journal, copy.journal)
        if _copy_versions(folder, copy):
            break
        if last:
            raise DataError(
                f"{str(folder.path)!r} has no version that belongs to its journal: `evenkeel check` says more."
            )
    return _list(copy)


def _require_whole(folder: ModelFolder) -> None:
    """Raise DataError if the journal has lost something: a backup would look as if it had not."""
    trouble: str | None = "It has no journal yet."
    try:
        for _ in range(ATTEMPTS if folder.journal.exists() or folder.versions() else 0):
            trouble = disagreement(folder)
            if trouble is None:  # otherwise it may be a version that is written at this moment
                break
        if trouble is None and not is_taken_over(folder.journal):
            trouble = "It was written by an earlier version of evenkeel; start the service once to take it over."
    except sqlite3.Error as error:
        trouble = f"Its journal cannot be read: {error}."
    if trouble is not None:
        raise DataError(f"{str(folder.path)!r} cannot be backed up. {trouble} `evenkeel check` says more.")


def _copy_database(source: Path, target: Path) -> None:
    """Copy a database, with what is in its log, while others write to it."""
    if not source.exists():
        return
    try:
        with closing(open_unchanged(source)) as original, closing(sqlite3.connect(target)) as copy:
            original.backup(copy)
    except sqlite3.Error as error:
        raise DataError(f"{str(source)!r} cannot be copied: {error}. `evenkeel check` says more.") from None


def _copy_versions(folder: ModelFolder, copy: ModelFolder) -> bool:
    """Copy the versions of a copied journal; return False if the current one was replaced meanwhile.

    An older one that is gone was retired meanwhile: the copied journal need not know it.
    """
    with closing(sqlite3.connect(copy.journal, isolation_level=None)) as db:
        position, current = queries.position(db), queries.value(db, "current")
        for version in version_rows.kept(db):
            path = copy.version(version.number)
            try:
                shutil.copy(folder.version(version.number), path)
            except FileNotFoundError:
                version_rows.drop(db, version.number)
            if version.number == current and not _belongs(path, position):
                return False
        seal(db)
    mark = MarkFile(copy.mark)
    mark.write(position)
    mark.close()
    return True


def _belongs(version: Path, position: Position) -> bool:
    """Check whether a version can be read, and was not written after the journal was copied."""
    carried = position_of(version)  # None if it is of version 0.1
    return versions.is_readable(version) and (
        carried is None or (carried.identity == position.identity and carried.number <= position.number)
    )


def _list(copy: ModelFolder) -> dict[str, Any]:
    """Write the list of a backup's files, and return it."""
    with closing(sqlite3.connect(copy.journal)) as db:
        facts = {"time": time.time(), "version": queries.value(db, "current"), "waiting": queries.waiting(db)[0]}
    names = sorted(_name(path, copy.path) for path in copy.path.rglob("*") if path.is_file())
    listed = {**facts, "files": {name: _hash(copy.path / name) for name in names}}
    write_whole(copy.path / LIST, json.dumps(listed, indent=1).encode())
    copy.keep_private()
    flush_all(copy.path)
    return listed


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def restore(source: str, target: Path) -> dict[str, Any]:
    """Make a service's folder of a backup, checked file by file; return what the backup holds."""
    target = target.resolve()
    with _partial(target) as partial:
        _fetch(source, partial)
        listed = _checked(partial, source)
        ModelFolder(partial).keep_private()
        flush_all(partial)
        partial.rename(target)
        flush(target.parent)
    return listed


def _fetch(source: str, target: Path) -> None:
    if "://" in source:
        with tempfile.TemporaryDirectory() as local, _storage(source, "read") as (storage, path):
            storage.get_file(path, str(Path(local) / "backup.tar"))
            _unpack(Path(local) / "backup.tar", target, source)
    else:
        _unpack(Path(source), target, source)


def _unpack(path: Path, target: Path, source: str) -> None:
    """Copy a backup, which is a folder or a tar file; raise DataError if it is neither."""
    if not path.exists():
        raise DataError(f"There is no backup {source!r}.")
    if path.is_dir() and not (path / LIST).is_file():  # before anything is copied: it may be large
        raise _no_backup(source)
    try:
        if path.is_dir():
            shutil.copytree(path, target, dirs_exist_ok=True)
        else:
            with tarfile.open(path, mode="r:") as tar:
                tar.extractall(target, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise DataError(f"{source!r} cannot be restored: {reason(error)}.") from None


def _no_backup(source: str) -> DataError:
    return DataError(f"{source!r} is not a backup: it has no list of its files ({LIST}) that can be read.")


def _checked(folder: Path, source: str) -> dict[str, Any]:
    """Return what a backup holds; raise DataError if a file is missing or differs. Delete files it does not list."""
    try:
        listed: dict[str, Any] = json.loads((folder / LIST).read_bytes())
        hashes, _ = dict[str, str](listed["files"]), (listed["version"], listed["waiting"])
    except (OSError, ValueError, KeyError, TypeError):
        raise _no_backup(source) from None
    missing = [name for name in hashes if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{source!r} is incomplete: it lacks {some(missing)}.")
    wrong = [name for name, digest in hashes.items() if _hash(folder / name) != digest]
    if wrong:
        raise DataError(f"{source!r} is damaged: {some(wrong)}.")
    _delete(*(path for path in folder.rglob("*") if path.is_file() and _name(path, folder) not in hashes))
    return listed


@contextmanager
def _storage(url: str, done: str) -> Iterator[tuple[Any, str]]:
    """Return the file system of a URL and the path in it; raise DataError if it cannot be used."""
    try:
        import fsspec
    except ModuleNotFoundError:
        raise SettingsError("fsspec is not installed. Run: pip install 'evenkeel[backup]'") from None
    try:
        yield fsspec.core.url_to_fs(url)
    except EvenkeelError:
        raise
    except Exception as error:  # each storage has errors of its own
        raise DataError(f"{url!r} cannot be {done}: {reason(error)}.") from error
