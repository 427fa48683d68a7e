"""The cache: complete or not used, checked to the last byte, never an obstacle."""

import json
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

from evenkeel.data import cache
from evenkeel.data.dataset import DataSet
from evenkeel.data.sources import SOURCES
from evenkeel.errors import DataError
from tests.helpers.data_files import ProgressLog, pictures, write_cifar_parquet, write_image
from tests.helpers.processes import fork_server

TRAIN, TEST = pictures(20), pictures(10, seed=1)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_cifar_parquet(tmp_path / "home" / "cifar10", TRAIN, TEST)
    return tmp_path / "home"


def load(home: Path, progress: ProgressLog) -> DataSet:
    return SOURCES["cifar10"](home, progress=progress)


def only_entry() -> Path:
    (entry,) = cache.entries()
    return entry.folder


def test_a_set_is_decoded_once_and_then_mapped(home: Path, progress: ProgressLog, cache_folder: Path) -> None:
    first = load(home, progress)
    assert progress == [("Decoding cifar10", 20, 30), ("Decoding cifar10", 30, 30)]
    progress.clear()
    second = load(home, progress)
    assert progress == []
    assert (
        second.digest
        == first.digest
        == DataSet.of(TRAIN, first.train.y, TEST, first.test.y, classes=first.classes).digest
    )
    assert second.name == "cifar10"
    assert second.classes == first.classes
    assert (second.train.x == TRAIN).all()
    assert isinstance(second.train.x, np.memmap)
    assert not second.train.x.flags.writeable
    folder = only_entry()
    assert folder.parent == cache_folder / "decoded"
    assert sorted(file.name for file in folder.iterdir()) == [
        "meta.json",
        "test_x.npy",
        "test_y.npy",
        "train_x.npy",
        "train_y.npy",
    ]
    assert [one for one in folder.parent.iterdir() if one != folder] == []


def flip(file: Path, place: int = -1) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def rename_class(file: Path) -> None:
    file.write_text(file.read_text().replace("airplane", "aeroplane"))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "train pixel": lambda folder: flip(folder / "train_x.npy"),
    "test label": lambda folder: flip(folder / "test_y.npy"),
    "head, magic": lambda folder: flip(folder / "test_x.npy", 3),
    "head, bracket": lambda folder: flip(folder / "train_x.npy", 10),
    "head, shape": lambda folder: flip(folder / "train_x.npy", (folder / "train_x.npy").read_bytes().index(b"20, 3")),
    "cut": lambda folder: os.truncate(folder / "train_x.npy", 5000),
    "empty": lambda folder: os.truncate(folder / "test_x.npy", 0),
    "gone": lambda folder: (folder / "test_x.npy").unlink(),
    "no meta": lambda folder: (folder / "meta.json").unlink(),
    "cut meta": lambda folder: os.truncate(folder / "meta.json", 30),
    "other meta": lambda folder: (folder / "meta.json").write_text("[]"),
    "class renamed": lambda folder: rename_class(folder / "meta.json"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache_is_decoded_again(home: Path, progress: ProgressLog, damage: str) -> None:
    digest = load(home, progress).digest
    folder = only_entry()
    DAMAGE[damage](folder)
    progress.clear()
    data = load(home, progress)
    assert progress[0][0] == "The cached cifar10 is damaged and is decoded again"
    assert progress[-1] == ("Decoding cifar10", 30, 30)
    assert data.digest == digest
    assert (data.train.x == TRAIN).all()
    assert only_entry() == folder
    progress.clear()
    load(home, progress)
    assert progress == []


def test_an_older_format_is_decoded_again(home: Path, progress: ProgressLog) -> None:
    load(home, progress)
    meta = only_entry() / "meta.json"
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"format": 0}))
    progress.clear()
    load(home, progress)
    assert len(progress) == 3


def test_changed_files_and_settings_make_separate_entries(home: Path, progress: ProgressLog, tmp_path: Path) -> None:
    digest = load(home, progress).digest
    write_cifar_parquet(home / "cifar10", pictures(20, seed=5), TEST)
    assert load(home, progress).digest != digest
    assert len(cache.entries()) == 2
    for place in range(4):
        write_image(tmp_path / "own" / "one" / f"{place}.png", pictures(1, seed=place)[0])
    for size in (None, 16, 8):
        data = SOURCES["folder"](None, progress=progress, path=tmp_path / "own", size=size)
        assert data.train.x.shape[2] == (size or 32)
    assert len(cache.entries()) == 5


def test_an_error_leaves_nothing_behind(home: Path, progress: ProgressLog, cache_folder: Path) -> None:
    write_cifar_parquet(home / "cifar10", TRAIN, pictures(10, (3, 31, 32)))
    with pytest.raises(DataError, match="31 x 32"):
        load(home, progress)
    assert list((cache_folder / "decoded").iterdir()) == []


def test_without_a_writable_cache_data_is_kept_in_memory(
    home: Path, progress: ProgressLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = load(home, progress).digest
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("EVENKEEL_CACHE", str(tmp_path / "file" / "cache"))
    progress.clear()
    data = load(home, progress)
    assert progress[0][0].startswith("The cache cannot be written (")
    assert progress[-1] == ("Decoding cifar10", 30, 30)
    assert data.digest == digest
    assert (data.train.x == TRAIN).all()
    assert cache.entries() == []


def test_on_a_full_disk_data_is_kept_in_memory(
    home: Path, progress: ProgressLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("evenkeel.files.os.fsync", full)
    data = load(home, progress)
    assert (data.train.x == TRAIN).all()
    assert (data.test.x == TEST).all()
    assert any("No space left" in what for what, _, _ in progress)
    assert list(cache.decoded_home().iterdir()) == []


def test_the_slower_of_two_processes_uses_what_the_faster_wrote(home: Path, progress: ProgressLog) -> None:
    """While this process decodes, another one finishes the same set."""
    inner = ProgressLog()

    def other_is_faster(what: str, done: int, total: int) -> None:
        progress(what, done, total)
        if done == 20:
            load(home, inner)

    data = SOURCES["cifar10"](home, progress=other_is_faster)
    assert inner[-1][1] == progress[-1][1] == 30  # both decoded
    assert (data.train.x == TRAIN).all()
    assert list(cache.decoded_home().iterdir()) == [only_entry()]


def decode(home: Path, folder: str, parent: Connection) -> None:
    """Decode in a process of its own: report the first part, wait for a word, and report the digest at the end."""
    os.environ["EVENKEEL_CACHE"] = folder

    def progress(what: str, done: int, total: int) -> None:
        if done < total:
            parent.send((what, done))
            parent.recv()

    parent.send(SOURCES["cifar10"](home, progress=progress).digest)


def begin(home: Path) -> tuple[BaseProcess, Connection]:
    """Start a process that is in the middle of decoding when this returns."""
    ours, theirs = multiprocessing.Pipe()
    process = fork_server().Process(target=decode, args=(home, os.environ["EVENKEEL_CACHE"], theirs))
    process.start()
    theirs.close()
    assert ours.recv() == ("Decoding cifar10", 20)
    return process, ours


def test_a_killed_process_leaves_nothing_that_is_used(home: Path, progress: ProgressLog) -> None:
    process, connection = begin(home)
    process.kill()
    process.join()
    connection.close()
    (unfinished,) = cache.decoded_home().iterdir()
    assert cache.entries() == []
    data = load(home, progress)
    assert progress[-1] == ("Decoding cifar10", 30, 30)
    assert (data.train.x == TRAIN).all()
    assert unfinished.exists()  # its process might still be working
    assert cache.clear() > 0
    assert list(cache.decoded_home().iterdir()) == []


def test_two_processes_may_decode_at_once(home: Path, progress: ProgressLog) -> None:
    processes = [begin(home) for _ in range(2)]
    for process, connection in processes:
        connection.send("go on")
        with connection:
            assert connection.recv() == load(home, progress).digest
        process.join()
    assert progress == []
    assert list(cache.decoded_home().iterdir()) == [only_entry()]


def test_the_cache_can_be_listed_and_cleared(home: Path, progress: ProgressLog, tmp_path: Path) -> None:
    assert cache.entries() == []
    assert cache.clear() == 0
    load(home, progress)
    for split in ("train", "test"):
        write_image(tmp_path / "my own" / split / "one" / "0.png", TRAIN[0])
    SOURCES["folder"](None, progress=progress, path=tmp_path / "my own")
    (cache.decoded_home() / "not ours").mkdir()
    unfinished = cache.decoded_home() / f".tmp-{cache.entries()[0].folder.name}-x"
    unfinished.mkdir()
    (unfinished / "meta.json").write_text((cache.entries()[0].folder / "meta.json").read_text())
    first, second = cache.entries()
    assert (first.name, first.train, first.test, first.classes) == ("cifar10", 20, 10, 10)
    assert first.bytes == sum(file.stat().st_size for file in first.folder.iterdir()) > 30 * 3072
    assert second.name == "my own"
    with pytest.raises(DataError, match=r"The cache has no 'cifar11'; it has cifar10, my own. Did you mean 'cifar10'"):
        cache.clear("cifar11")
    assert cache.clear("cifar10") == first.bytes
    assert cache.entries() == [second]
    assert cache.clear() > second.bytes
    assert [one.name for one in cache.decoded_home().iterdir()] == ["not ours"]


def test_mapped_data_outlives_the_cache(home: Path, progress: ProgressLog) -> None:
    data = load(home, progress)
    cache.clear()
    assert (data.train.x == TRAIN).all()


def test_what_a_killed_process_left_is_deleted_once_it_is_old(home: Path, progress: ProgressLog) -> None:
    load(home, progress)
    folder = only_entry()
    old, young = (folder.parent / f".tmp-{folder.name}-{name}" for name in ("old", "young"))
    for leftover in (old, young):
        leftover.mkdir()
    os.utime(old, (0, 0))
    flip(folder / "train_x.npy")
    load(home, progress)
    assert not old.exists()
    assert young.exists()  # another process may be writing it
    assert only_entry().stat().st_mode & 0o777 == 0o755
