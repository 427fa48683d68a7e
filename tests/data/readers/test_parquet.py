"""Parquet files, as on the Hugging Face hub and otherwise."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evenkeel.data.sources import SOURCES
from evenkeel.errors import DataError
from tests.helpers.data_files import (
    ProgressLog,
    encoded,
    image_column,
    pictures,
    png_of,
    write_cifar_parquet,
    write_parquet,
)

X, X_TEST = pictures(6, (3, 4, 4)), pictures(2, (3, 4, 4), seed=1)


def put(folder: Path, labels: Any = (0, 1, 0, 1, 0, 1), test_labels: Any = (0, 1), **more: Any) -> Path:
    """Write both splits; `more` are columns of the training file instead of the usual ones."""
    cells = [encoded(pixels) for pixels in X]
    columns = {"image": image_column(cells), "label": pa.array(labels), **more}
    write_parquet(folder / "train.parquet", {name: column for name, column in columns.items() if column is not None})
    test = {"image": image_column([encoded(pixels) for pixels in X_TEST]), "label": pa.array(test_labels)}
    write_parquet(folder / "test.parquet", {columns_name(columns, name): column for name, column in test.items()})
    return folder


def test_images_may_be_structs_or_bytes(tmp_path: Path, progress: ProgressLog) -> None:
    structs = SOURCES["parquet"](None, progress=progress, path=put(tmp_path / "a"))
    assert (structs.train.x == X).all()
    assert structs.train.y.tolist() == [0, 1, 0, 1, 0, 1]
    assert structs.classes == ("0", "1")
    plain = pa.array([encoded(pixels) for pixels in X])
    data = SOURCES["parquet"](None, progress=progress, path=put(tmp_path / "b" / "data", image=plain).parent)
    assert data.digest == structs.digest
    assert data.name == "b"


def test_labels_may_be_text_or_categories(tmp_path: Path, progress: ProgressLog) -> None:
    text = ["cat", "dog"] * 3
    as_text = SOURCES["parquet"](None, progress=progress, path=put(tmp_path / "a", text, ["cat", "dog"]))
    assert as_text.classes == ("cat", "dog")
    folder = put(tmp_path / "b", pa.array(text).dictionary_encode(), ["cat", "dog"])
    assert SOURCES["parquet"](None, progress=progress, path=folder).digest == as_text.digest


def test_class_names_come_from_the_metadata(tmp_path: Path, progress: ProgressLog) -> None:
    columns = {"image": image_column([encoded(one) for one in X]), "label": [0, 1, 2] * 2}
    for split in ("train", "validation"):
        write_parquet(tmp_path / f"{split}-0.parquet", columns, {"label": ["x", "y", "z"]})
    assert SOURCES["parquet"](None, progress=progress, path=tmp_path).classes == ("x", "y", "z")


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.list_(pa.float32(), 3), pa.large_list(pa.float16())])
def test_features_are_read_from_lists_of_floats(tmp_path: Path, progress: ProgressLog, kind: Any) -> None:
    x = np.arange(12, dtype=np.float16).reshape(4, 3)
    columns = {"embedding": pa.array(list(map(list, x)), type=kind), "label": ["a", "b"] * 2}
    for split in ("train", "test"):
        write_parquet(tmp_path / f"{split}.parquet", columns)
    data = SOURCES["parquet"](None, progress=progress, path=tmp_path)
    assert data.train.x.dtype == np.float32
    assert (data.train.x == x).all()
    named = SOURCES["parquet"](None, progress=progress, path=tmp_path, image="embedding", label="label")
    assert named.digest == data.digest


def test_columns_must_be_unambiguous_or_named(tmp_path: Path, progress: ProgressLog) -> None:
    folder = put(tmp_path, fine=pa.array(range(6)))
    with pytest.raises(DataError, match=r"train.parquet has 2 columns that could hold the labels: label, fine; choose"):
        SOURCES["parquet"](None, progress=progress, path=folder)
    assert SOURCES["parquet"](None, progress=progress, path=folder, label="label").classes == ("0", "1")
    with pytest.raises(DataError, match=r"has no column 'lable'; it has image, label, fine. Did you mean 'label'?"):
        SOURCES["parquet"](None, progress=progress, path=folder, label="lable")
    with pytest.raises(DataError, match=r"has no column 'imgae' of images. Did you mean 'image'?"):
        SOURCES["parquet"](None, progress=progress, path=folder, image="imgae", label="label")
    with pytest.raises(DataError, match=r"The column image of .*train.parquet is struct.*; labels are"):
        SOURCES["parquet"](None, progress=progress, path=folder, label="image")
    with pytest.raises(DataError, match=r"has only the column 'label', which holds the labels"):
        SOURCES["parquet"](None, progress=progress, path=put(tmp_path / "b", image=None))


CELLS = [encoded(pixels) for pixels in X]
ERRORS: dict[str, dict[str, Any]] = {
    "train.parquet, row 2, has no image": {"image": image_column([*CELLS[:2], None, *CELLS[3:]])},
    "train.parquet, row 3 is not an image": {"image": image_column([*CELLS[:3], b"x", *CELLS[4:]])},
    "train.parquet, row 4 is a damaged": {"image": image_column([*CELLS[:4], CELLS[4][:-30], CELLS[5]])},
    "row 5 claims an absurd number": {"image": image_column([*CELLS[:5], png_of(30_000, 30_000)])},
    "row 1 is 2 x 2 pixels, but the first image, .*row 0, is 4 x 4; give a size": {
        "image": image_column([CELLS[0], encoded(X[0, :, :2, :2]), *CELLS[2:]])
    },
    "train.parquet, row 1, has nothing in the column label": {"labels": [0, None, 0, 1, 0, 1]},
    "is double; labels are whole numbers or strings|no column of labels": {"labels": [0.5] * 6},
    "y_test of .* has the label 7, which is not one of the 2 classes": {"test_labels": [0, 7]},
    "The class '2' of .* has no test sample": {"labels": [0, 1, 2, 0, 1, 2]},
}


@pytest.mark.parametrize("message", ERRORS)
def test_invalid_rows_are_reported(tmp_path: Path, progress: ProgressLog, message: str) -> None:
    folder = put(tmp_path, **ERRORS[message])
    with pytest.raises(DataError, match=message):
        SOURCES["parquet"](None, progress=progress, path=folder)


def test_rows_are_counted_through_the_whole_file(tmp_path: Path, progress: ProgressLog) -> None:
    """A file with more rows than are read at a time."""
    pixels = pictures(1100, (1, 1, 1))
    cells = [encoded(one) for one in pixels]
    for split in ("train", "test"):
        write_parquet(tmp_path / f"{split}.parquet", {"image": image_column(cells), "label": ["a"] * 1100})
    assert (SOURCES["parquet"](None, progress=progress, path=tmp_path).train.x == pixels).all()
    cells[1050] = b"x"
    write_parquet(tmp_path / "train.parquet", {"image": image_column(cells), "label": ["a"] * 1100})
    with pytest.raises(DataError, match=r"train.parquet, row 1050 is not an image"):
        SOURCES["parquet"](None, progress=progress, path=tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_truncated_files_are_reported(tmp_path: Path, progress: ProgressLog, share: float) -> None:
    file = put(tmp_path) / "train.parquet"
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(DataError, match=r"train.parquet is not a complete parquet file"):
        SOURCES["parquet"](None, progress=progress, path=tmp_path)


def test_damage_in_the_middle_is_reported(tmp_path: Path, progress: ProgressLog) -> None:
    file = put(tmp_path) / "train.parquet"
    content = bytearray(file.read_bytes())
    content[8:200] = bytes(192)
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"train.parquet"):
        SOURCES["parquet"](None, progress=progress, path=tmp_path)


def test_features_of_uneven_length_or_with_gaps_are_reported(tmp_path: Path, progress: ProgressLog) -> None:
    write_parquet(tmp_path / "test.parquet", {"x": [[1.0, 2.0]], "y": ["a"]})
    for rows, message in (
        ([[1.0, 2.0], [1.0]], "train.parquet, row 1, has 1 features in the column x, but row 0 has 2"),
        ([[1.0, 2.0], [1.0, None]], "not finite in float32 at index 1"),
        ([[1.0, 2.0], None], "train.parquet, row 1, has nothing in the column x"),
    ):
        write_parquet(tmp_path / "train.parquet", {"x": pa.array(rows, pa.list_(pa.float32())), "y": ["a", "a"]})
        with pytest.raises(DataError, match=message):
            SOURCES["parquet"](None, progress=progress, path=tmp_path)


def test_missing_files_and_rows_are_reported(tmp_path: Path, progress: ProgressLog) -> None:
    with pytest.raises(DataError, match="has no files train"):
        SOURCES["parquet"](None, progress=progress, path=tmp_path)
    file = put(tmp_path) / "test.parquet"
    write_parquet(file, {"image": image_column([]), "label": pa.array([], pa.int64())})
    with pytest.raises(DataError, match=r"test.parquet has no rows"):
        SOURCES["parquet"](None, progress=progress, path=tmp_path)
    file.unlink()
    with pytest.raises(DataError, match=r"has train.parquet, but no file test\*.parquet or valid"):
        SOURCES["parquet"](None, progress=progress, path=tmp_path)


def test_a_missing_shard_is_reported(tmp_path: Path, progress: ProgressLog) -> None:
    write_cifar_parquet(tmp_path / "cifar10", pictures(20), pictures(10), shards=3)
    (tmp_path / "cifar10" / "train-00001-of-00003.parquet").unlink()
    with pytest.raises(DataError, match=r"has 2 of the 3 files train-\*.parquet"):
        SOURCES["cifar10"](tmp_path, progress=progress)


def columns_name(columns: dict[str, Any], name: str) -> str:
    """Return the name of a column of the test file: one that nothing looks for if the training file lacks it."""
    return name if columns[name] is not None else f"no_{name}"


def test_a_single_file_is_no_data_set(tmp_path: Path, progress: ProgressLog) -> None:
    file = put(tmp_path) / "train.parquet"
    with pytest.raises(DataError, match=r"train\.parquet is a single file; give the folder"):
        SOURCES["parquet"](None, progress=progress, path=file)
