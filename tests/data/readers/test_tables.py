"""Tables: labels as they are written, several files of one set, large lines, other encodings."""

import base64
from pathlib import Path

import numpy as np
import pytest

import evenkeel as ek
from evenkeel.cli.feed import Feed
from evenkeel.errors import DataError
from evenkeel.service.config import load_service
from tests.helpers.data_files import encoded, pictures, write_csv, write_lines, write_parquet

AS_WRITTEN: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "leading zeros": (["007", "07", "7"], ("007", "07", "7")),
    "no integers": (["10000000000000000000", "10000000000000000001"], ("10000000000000000000", "10000000000000000001")),
    "times": (["12:30", "13:30"], ("12:30", "13:30")),
    "dates": (["2020-01-02", "2020-01-03"], ("2020-01-02", "2020-01-03")),
    "truth": (["True", "False"], ("False", "True")),
    "numbers": (["2", "10", "-1"], ("-1", "2", "10")),  # in the order of numbers
    "floats": (["2.0", "10.0"], ("2", "10")),
    "not available": (["NA", "yes"], ("NA", "yes")),
}


@pytest.mark.parametrize(("labels", "classes"), AS_WRITTEN.values(), ids=AS_WRITTEN)
def test_labels_of_a_csv_file_are_kept_as_they_are_written(
    tmp_path: Path, labels: list[str], classes: tuple[str, ...]
) -> None:
    rows = [{"a": row, "label": labels[row % len(labels)]} for row in range(24)]
    assert ek.load_data(write_csv(tmp_path / "a.csv", rows)).classes == classes


def test_commands_read_labels_as_runs_do(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "a.csv", [{"a": row, "label": label} for row, label in enumerate(["007", "07", "7"])])
    feed = Feed(str(file), load_service({"input": {"features": 1}}))
    assert [item.label for item in feed.items(labelled=True)] == ["007", "07", "7"]


def test_a_missing_label_among_numbers_is_no_class(tmp_path: Path) -> None:
    rows = [{"a": row, "label": "NA" if row == 5 else row % 2} for row in range(24)]
    with pytest.raises(DataError, match="row 5, has no label"):
        ek.load_data(write_csv(tmp_path / "a.csv", rows))


def test_labels_are_numbers_only_if_they_are_in_all_files(tmp_path: Path) -> None:
    rows = [{"a": row, "label": 1 + row % 2} for row in range(8)]
    write_csv(tmp_path / "train-1.csv", rows)
    write_csv(tmp_path / "train-2.csv", [{"a": row["a"], "label": "x"} for row in rows])
    write_csv(tmp_path / "test.csv", [*rows, {"a": 1, "label": "x"}])
    assert ek.load_data("csv", path=tmp_path).classes == ("1", "2", "x")


def test_dates_in_json_lines_are_texts(tmp_path: Path) -> None:
    rows = [{"a": row, "label": f"2020-01-0{1 + row % 2}"} for row in range(24)]
    assert ek.load_data(write_lines(tmp_path / "a.jsonl", rows)).classes == ("2020-01-01", "2020-01-02")


def test_a_large_image_fits_into_a_json_line(tmp_path: Path) -> None:
    text = base64.b64encode(encoded(pictures(1, (3, 700, 700))[0])).decode()
    assert len(text) > 2**20  # the size of a block
    rows = [{"image": text, "label": label} for label in 4 * "ab"]
    assert ek.load_data(write_lines(tmp_path / "a.jsonl", rows), size=8).train.x.shape == (6, 3, 8, 8)


def test_files_of_one_set_may_differ_in_the_kind_of_numbers_but_not_of_values(tmp_path: Path) -> None:
    label = ["u", "v", "u", "v"]
    for part, a in {"train-0": [1, 2, 3, 4], "train-1": [0.5, 1.5, 2.5, 3.5], "test": [1, 2, 3, 4]}.items():
        write_parquet(tmp_path / f"{part}.parquet", {"a": a, "label": label})
    data = ek.load_data("parquet", path=tmp_path)
    assert data.train.x.ravel().tolist() == [1, 2, 3, 4, 0.5, 1.5, 2.5, 3.5]
    write_parquet(tmp_path / "train-1.parquet", {"a": ["x", "y", "x", "y"], "label": label})
    with pytest.raises(DataError, match=r"do not fit together .*same kind of values in all of them"):
        ek.load_data("parquet", path=tmp_path)


@pytest.mark.parametrize("column", ["label", "text"])
def test_a_table_in_another_encoding_is_refused(tmp_path: Path, column: str) -> None:
    rows = [{"text": f"tea {row}", "label": "tea", column: f"caf\u00e9 {row % 2}"} for row in range(24)]
    file = write_csv(tmp_path / "a.csv", rows)
    file.write_bytes(file.read_text(encoding="utf-8").encode("latin-1"))
    with pytest.raises(DataError, match=f"is not UTF-8 in the column '{column}'; save it as UTF-8"):
        ek.load_data(file)
    with pytest.raises(DataError, match=r"has the label b'caf.*in UTF-8"):
        ek.DataSet.of([(np.zeros(3), b"caf\xe9")] * 4)
