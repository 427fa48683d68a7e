"""A cache of decoded images on disk, so that a data set is decoded once and then memory-mapped.

`<cache>/decoded/<name>-<key>/` holds four arrays and a meta.json. The key depends on the files of the source and on the
settings. A folder is written under a temporary name and renamed once complete, so a partial one is never read. What is
read is checked against the digest of the whole set; a folder that fails the check is decoded again.
"""

import contextlib
import hashlib
import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenkeel.data.dataset import DataSet, Progress, Split, content_digest
from evenkeel.data.readers.encoded import Encoded, EncodedSplit
from evenkeel.data.readers.places import cache_home
from evenkeel.errors import DataError, nearest
from evenkeel.files import flush, flushed

FORMAT = 1
STALE = 3600.0  # seconds after which an unfinished folder counts as abandoned
_UNFINISHED = ".tmp-"
_OURS = re.compile(r"-[0-9a-f]{16}(-\w+)?$")  # a folder of ours, finished or not


@dataclass(frozen=True)
class CachedSet:
    """A decoded data set in the cache."""

    name: str
    folder: Path
    bytes: int
    train: int
    test: int
    classes: int


def decoded_home() -> Path:
    return cache_home() / "decoded"


def load(
    name: str,
    settings: Mapping[str, Any],
    files: Sequence[Path],
    read: Callable[[], Encoded],
    progress: Progress,
) -> DataSet:
    """Return the set `name` from the cache; if it is not there, decode what `read` returns into the cache first.

    files, settings: what the content depends on; the key in the cache changes with them.
    """
    folder = decoded_home() / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}-{_key(name, settings, files)}"
    if folder.exists():
        cached = _open(folder)
        if cached is not None:
            return cached
        progress(f"The cached {name} is damaged and is decoded again", 0, 1)
        shutil.rmtree(folder, ignore_errors=True)
    encoded = read()
    try:
        _write(folder, name, encoded, progress)
    except OSError as error:
        progress(f"The cache cannot be written ({error}); {name} is kept in memory", 0, 1)
    cached = _open(folder) if folder.exists() else None
    return cached or _in_memory(name, encoded, progress)


def entries() -> list[CachedSet]:
    """Return the complete sets in the cache, sorted by name."""
    complete = []
    for meta_file in sorted(decoded_home().glob("*/meta.json")):
        folder = meta_file.parent
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # not a folder of ours, or a damaged one
            meta = json.loads(meta_file.read_text(encoding="utf-8"))
            counts = {split: int(meta["samples"][split]) for split in ("train", "test")}
            if not folder.name.startswith(_UNFINISHED):
                complete.append(CachedSet(meta["name"], folder, _bytes(folder), **counts, classes=len(meta["classes"])))
    return complete


def clear(name: str | None = None) -> int:
    """Delete the set `name`, or everything including unfinished folders; return the number of bytes freed."""
    if name is None:
        folders = [one for one in decoded_home().glob("*") if one.is_dir() and _OURS.search(one.name)]
    else:
        known = entries()
        folders = [entry.folder for entry in known if entry.name == name]
        if not folders:
            names = sorted({entry.name for entry in known})
            has = ", ".join(names) or "nothing"
            raise DataError(f"The cache has no {name!r}; it has {has}.{nearest(name, names)}")
    freed = sum(map(_bytes, folders))
    for folder in folders:
        shutil.rmtree(folder)
    return freed


def _key(name: str, settings: Mapping[str, Any], files: Sequence[Path]) -> str:
    versions = []
    for file in files:
        try:
            stat = file.stat()
        except OSError as error:
            raise DataError(f"{file} cannot be read ({error.strerror}).") from error
        versions.append((str(file.resolve()), stat.st_size, stat.st_mtime_ns))
    identity = json.dumps([FORMAT, name, dict(settings), versions], sort_keys=True)
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _open(folder: Path) -> DataSet | None:
    """Return the set in a folder of the cache, or None unless every byte is as it was written."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        train, test = _mapped(folder)
        classes = tuple(meta["classes"])
        # The digest covers classes, shapes, dtypes and content: one pass over the bytes checks all of it.
        if meta["format"] != FORMAT or content_digest(train, test, classes) != meta["digest"]:
            return None
        return DataSet(meta["name"], train, test, classes, meta["digest"])
    except Exception:  # damage can raise anything; numpy's header reader alone raises four kinds
        return None


def _mapped(folder: Path) -> tuple[Split, Split]:
    train_x, train_y, test_x, test_y = (
        np.load(folder / f"{split}_{part}.npy", mmap_mode="r", allow_pickle=False)
        for split in ("train", "test")
        for part in "xy"
    )
    return Split(train_x, train_y), Split(test_x, test_y)


def _write(folder: Path, name: str, encoded: Encoded, progress: Progress) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    for leftover in folder.parent.glob(f"{_UNFINISHED}{folder.name}-*"):
        if time.time() - leftover.stat().st_mtime > STALE:  # of a killed process; a live one writes more often
            shutil.rmtree(leftover, ignore_errors=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{_UNFINISHED}{folder.name}-", dir=folder.parent))
    unfinished.chmod(0o755)  # users may share a cache
    try:
        blocks = _decoded(name, encoded, progress)
        for split, part in (("train", encoded.train), ("test", encoded.test)):
            with flushed(unfinished / f"{split}_x.npy") as file:
                head = {"descr": "|u1", "fortran_order": False, "shape": (len(part.y), *encoded.shape)}
                np.lib.format.write_array_header_1_0(file, head)
                for block in blocks[split]:
                    file.write(np.ascontiguousarray(block).data)
            with flushed(unfinished / f"{split}_y.npy") as file:
                np.save(file, part.y, allow_pickle=False)
        meta = {
            "format": FORMAT,
            "name": name,
            "classes": encoded.classes,
            "samples": {"train": len(encoded.train.y), "test": len(encoded.test.y)},
            "digest": content_digest(*_mapped(unfinished), encoded.classes),
        }
        with flushed(unfinished / "meta.json") as file:
            file.write(json.dumps(meta, indent=1).encode())
        with contextlib.suppress(OSError):  # another process was first; its folder is just as good
            unfinished.rename(folder)
            flush(folder.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _in_memory(name: str, encoded: Encoded, progress: Progress) -> DataSet:
    blocks = _decoded(name, encoded, progress)
    train, test = (
        Split(_filled(np.empty((len(part.y), *encoded.shape), np.uint8), blocks[split]), part.y)
        for split, part in (("train", encoded.train), ("test", encoded.test))
    )
    return DataSet(name, train, test, encoded.classes, content_digest(train, test, encoded.classes))


def _filled(array: NDArray[np.uint8], blocks: Iterator[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    done = 0
    for block in blocks:
        array[done : done + len(block)] = block
        done += len(block)
    return array


def _decoded(name: str, encoded: Encoded, progress: Progress) -> dict[str, Iterator[NDArray[np.uint8]]]:
    """Return the decoded blocks of both splits, to be consumed in this order; each is reported to `progress`."""
    train, total = len(encoded.train.y), len(encoded.train.y) + len(encoded.test.y)

    def reported(part: EncodedSplit, done: int) -> Iterator[NDArray[np.uint8]]:
        for block in part.blocks():
            done += len(block)
            progress(f"Decoding {name}", done, total)
            yield block

    return {"train": reported(encoded.train, 0), "test": reported(encoded.test, train)}


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())
