"""The idx files of Fashion-MNIST."""

import gzip
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenkeel.data.readers.idx import PARTS
from evenkeel.data.sources import SOURCES
from evenkeel.errors import DataError
from tests.helpers.data_files import ProgressLog, pictures, write_idx

X, X_TEST = pictures(20, (28, 28)), pictures(10, (28, 28), seed=1)
Y, Y_TEST = np.arange(20, dtype=np.uint8) % 10, np.arange(10, dtype=np.uint8)


def put(folder: Path, suffix: str = "", **parts: Any) -> Path:
    arrays = {"x": X, "y": Y, "x_test": X_TEST, "y_test": Y_TEST} | parts
    for part, array in zip(PARTS, arrays.values(), strict=True):
        write_idx(folder / f"{part}{suffix}", array)
    return folder


def test_plain_and_gzipped_files_give_the_same_set(tmp_path: Path, progress: ProgressLog) -> None:
    digests = set()
    for home, suffix in (("fashion-mnist", ".gz"), ("fashion_mnist", ""), ("", ".gz")):
        place = tmp_path / f"{home}{suffix}"
        put(place / home, suffix)
        data = SOURCES["fashion-mnist"](place, progress=progress)
        digests.add(data.digest)
    assert len(digests) == 1
    assert (data.train.x == X[:, None]).all()
    assert (data.train.y == Y).all()
    assert data.classes[9] == "Ankle boot"


ERRORS: dict[str, dict[str, Any]] = {
    "train-images-idx3-ubyte does not begin like an idx file of bytes in 3": {"x": Y},
    "train-labels-idx1-ubyte does not begin like": {"y": X},
    "train-images.* has 20 images, but .*train-labels.* has 19 labels": {"y": Y[:19]},
    "t10k-labels-idx1-ubyte has the label 10 at index 3": {"y_test": np.where(Y_TEST == 3, 10, Y_TEST)},
    r"the size \(28, 28\), but those of .*t10k-images.* have \(27, 28\)": {"x_test": X_TEST[:, 1:]},
    "should have 0 bytes": {"x": X[:0]},
    r"'Trouser' of fashion-mnist \(.*\) has no test sample": {"y_test": np.where(Y_TEST == 1, 0, Y_TEST)},
}


@pytest.mark.parametrize("message", ERRORS)
def test_invalid_files_are_reported(tmp_path: Path, progress: ProgressLog, message: str) -> None:
    parts = {name: array.astype(np.uint8) for name, array in ERRORS[message].items()}
    put(tmp_path / "fashion-mnist", **parts)
    with pytest.raises(DataError, match=message):
        SOURCES["fashion-mnist"](tmp_path, progress=progress)


def test_truncated_overlong_and_missing_files_are_reported(tmp_path: Path, progress: ProgressLog) -> None:
    folder = put(tmp_path / "fashion-mnist")
    file = folder / PARTS[0]
    whole = file.read_bytes()
    for content, message in (
        (whole[:-1], "train-images-idx3-ubyte should have 15,680 bytes after its header, but has 15,679"),
        (whole + b"x", "should have 15,680 bytes after its header, but has more"),
        (whole[:7], "does not begin like"),
        (b"", "does not begin like"),
    ):
        file.write_bytes(content)
        with pytest.raises(DataError, match=message):
            SOURCES["fashion-mnist"](tmp_path, progress=progress)
    file.unlink()
    packed = gzip.compress(whole)
    for content in (packed[:-500], b"not gzip", packed[:500] + bytes(100) + packed[600:]):
        (folder / f"{PARTS[0]}.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz cannot be read to its end"):
            SOURCES["fashion-mnist"](tmp_path, progress=progress)
    (folder / PARTS[3]).unlink()
    with pytest.raises(DataError, match=r"but neither t10k-labels-idx1-ubyte nor t10k-labels-idx1-ubyte.gz"):
        SOURCES["fashion-mnist"](tmp_path, progress=progress)


def test_a_decompression_bomb_is_not_unpacked(tmp_path: Path, progress: ProgressLog) -> None:
    folder = put(tmp_path / "fashion-mnist", ".gz")
    head = bytes([0, 0, 8, 3]) + struct.pack(">3I", 20, 28, 28)
    (folder / f"{PARTS[0]}.gz").write_bytes(gzip.compress(head + bytes(100_000_000), 1))
    tracemalloc.start()
    with pytest.raises(DataError, match="has more"):
        SOURCES["fashion-mnist"](tmp_path, progress=progress)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000
