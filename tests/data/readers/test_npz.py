"""Arrays saved by numpy."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenkeel.data.sources import SOURCES
from evenkeel.errors import DataError
from tests.helpers.data_files import ProgressLog, pictures

ARRAYS: dict[str, Any] = {
    "x_train": np.arange(8, dtype=np.float16).reshape(4, 2),
    "y_train": np.array([0, 1, 0, 1]),
    "x_test": np.zeros((2, 2), np.float16),
    "y_test": np.array([0, 1]),
}


def put(file: Path, **changed: Any) -> Path:
    arrays = {name: array for name, array in (ARRAYS | changed).items() if array is not None}
    np.savez_compressed(file, **arrays)
    return file


def test_features_and_class_names_are_read(tmp_path: Path, progress: ProgressLog) -> None:
    for key in ("names", "classes"):
        data = SOURCES["npz"](None, progress=progress, path=put(tmp_path / "some.npz", **{key: ["no", "yes"]}))
        assert data.classes == ("no", "yes")
    assert data.name == "some"
    assert data.train.x.dtype == np.float32
    assert (data.train.x == ARRAYS["x_train"]).all()


@pytest.mark.parametrize(
    ("shape", "read"),
    [
        ((5, 6), (1, 5, 6)),
        ((5, 6, 3), (3, 5, 6)),
        ((3, 5, 6), (3, 5, 6)),
        ((1, 5, 4), (1, 5, 4)),
        ((5, 6, 1), (1, 5, 6)),
    ],
)
def test_images_may_have_channels_first_last_or_none(
    tmp_path: Path, progress: ProgressLog, shape: tuple[int, ...], read: tuple[int, ...]
) -> None:
    x = pictures(4, shape)
    data = SOURCES["npz"](None, progress=progress, path=put(tmp_path / "a.npz", x_train=x, x_test=x[:2]))
    assert data.train.x.shape == (4, *read)
    assert data.train.x[1].sum() == x[1].sum()


ERRORS: dict[str, dict[str, Any]] = {
    "a.npz has no array 'y_test'; it has x_train, y_train, x_test, y_tset. Did you mean 'y_tset'": {
        "y_test": None,
        "y_tset": [0, 1],
    },
    "y_train in .*a.npz holds Python objects": {"y_train": np.array([0, "a", None, {}], dtype=object)},
    "a.npz: x_train of a has 4 samples, but y_train has 3 labels": {"y_train": [0, 1, 0]},
    "a.npz: The class 'c' of a has no training sample": {"names": ["a", "b", "c"]},
    "a.npz: y_train of a has the label 1 at index 1, but the 1 classes are 0 to 0": {"names": ["a"]},
    "The class names in .*a.npz must be a list of strings, but are float64": {"names": [0.5, 1.0]},
    "a.npz: .* not finite in float32 at index 0": {"x_test": np.full((2, 2), np.nan)},
}


@pytest.mark.parametrize("message", ERRORS)
def test_invalid_arrays_are_reported(tmp_path: Path, progress: ProgressLog, message: str) -> None:
    with pytest.raises(DataError, match=message):
        SOURCES["npz"](None, progress=progress, path=put(tmp_path / "a.npz", **ERRORS[message]))


def test_files_that_are_not_an_npz_are_reported(tmp_path: Path, progress: ProgressLog) -> None:
    file = put(tmp_path / "a.npz", x_train=np.random.default_rng(0).random((4, 500)), x_test=np.ones((2, 500)))
    whole = file.read_bytes()
    damaged = bytearray(whole)
    damaged[200:900] = bytes(700)
    foreign, array = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(foreign, "w") as archive:
        for name in ARRAYS:
            archive.writestr(name, "not an array")
    np.save(array, np.ones(3))
    for content, message in (
        (b"", "is not an .npz file"),
        (b"text", "is not an .npz file"),
        (whole[: len(whole) // 2], "cannot be read"),
        (bytes(damaged), "cannot be read"),
        (foreign.getvalue(), "is not an array"),
        (array.getvalue(), "is a single array; an .npz with x_train"),
    ):
        file.write_bytes(content)
        with pytest.raises(DataError, match=rf"a\.npz {message}"):
            SOURCES["npz"](None, progress=progress, path=file)
    with pytest.raises(DataError, match=r"is a folder; an \.npz file is needed"):
        SOURCES["npz"](None, progress=progress, path=tmp_path)


def test_python_objects_are_refused_without_advice_to_unpickle_them(tmp_path: Path, progress: ProgressLog) -> None:
    file = put(tmp_path / "a.npz", x_train=np.array([{}], dtype=object))
    with pytest.raises(DataError, match=r"x_train in .*a\.npz holds Python objects") as caught:
        SOURCES["npz"](None, progress=progress, path=file)
    assert "pickle" not in str(caught.value)


def test_class_names_that_are_numbers_are_labels_and_no_places(tmp_path: Path, progress: ProgressLog) -> None:
    x, y = np.arange(8, dtype=np.float32)[:, None], np.array([0, 1] * 4)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=y, x_test=x, y_test=y, classes=np.array([1, 0]))
    data = SOURCES["npz"](None, progress=progress, path=tmp_path / "a.npz")
    assert data.train.labels == ["0", "1"] * 4
