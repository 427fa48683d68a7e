"""Standardised samples: by the training samples, however they are given, and floats only."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import evenkeel as ek
from evenkeel.errors import DataError
from tests.helpers.commands import call
from tests.helpers.data_files import encoded, pictures, write_csv, write_parquet

LABELS = [["ant", "bee", "cat"][row % 3] for row in range(24)]
X = (np.random.default_rng(0).normal(size=(24, 3)) + np.arange(24)[:, None] % 3).astype(np.float32)
ROWS = [dict(zip("abc", x.tolist(), strict=True)) | {"kind": label} for x, label in zip(X, LABELS, strict=True)]


def test_numbers_are_standardised_by_the_training_rows(tmp_path: Path) -> None:
    rows = [{**row, "constant": 7} for row in ROWS]
    data = ek.load_data(write_csv(tmp_path / "a.csv", rows), label="kind", standardize=True)
    np.testing.assert_allclose(data.train.x.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(data.train.x.std(axis=0), [1, 1, 1, 0], atol=1e-6)
    plain = ek.load_data(tmp_path / "a.csv", label="kind")
    mean, spread = plain.train.x.mean(axis=0), plain.train.x.std(axis=0)
    np.testing.assert_allclose(data.test.x[:, :3], ((plain.test.x - mean) / (spread + 1e-12))[:, :3], atol=1e-5)


def arrays(x: Any = X) -> tuple[Any, Any, Any, Any]:
    return x[:18], LABELS[:18], x[18:], LABELS[18:]


def lists(rows: slice) -> dict[str, Any]:
    return {"x": X[rows].tolist(), "label": LABELS[rows]}


def two_files_of_lists(home: Path) -> ek.DataSet:
    write_parquet(home / "train.parquet", lists(slice(18)))
    write_parquet(home / "test.parquet", lists(slice(18, None)))
    return ek.load_data("parquet", path=home, standardize=True)


STANDARDISED: dict[str, Callable[[Path], ek.DataSet]] = {
    "four arrays": lambda _: ek.DataSet.of(*arrays(), standardize=True),
    "pairs": lambda _: ek.DataSet.of((X[:18], LABELS[:18]), test=(X[18:], LABELS[18:]), standardize=True),
    "parquet, lists": two_files_of_lists,
}


@pytest.mark.parametrize("way", STANDARDISED)
def test_samples_are_standardised_however_they_are_given(tmp_path: Path, way: str) -> None:
    data, mean, spread = STANDARDISED[way](tmp_path), X[:18].mean(axis=0), X[:18].std(axis=0)
    np.testing.assert_allclose(data.train.x, (X[:18] - mean) / spread, atol=1e-5)
    np.testing.assert_allclose(data.test.x, (X[18:] - mean) / spread, atol=1e-5)


def test_a_parquet_file_of_lists_is_standardised_by_its_training_rows(tmp_path: Path) -> None:
    data = ek.load_data(write_parquet(tmp_path / "a.parquet", lists(slice(None))), standardize=True)
    np.testing.assert_allclose(data.train.x.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(data.train.x.std(axis=0), 1, atol=1e-6)


@pytest.mark.parametrize("x", [pictures(24), np.array(["a text"] * 24)], ids=["images", "texts"])
def test_only_numbers_are_standardised(tmp_path: Path, x: Any) -> None:
    with pytest.raises(DataError, match="images or texts; leave out standardize"):
        ek.DataSet.of(*arrays(x), standardize=True)
    with pytest.raises(DataError, match="images or texts; leave out standardize"):
        ek.DataSet.of((x, LABELS), standardize=True)
    for part in ("train", "test"):
        cells = [encoded(image) for image in pictures(24)]
        write_parquet(tmp_path / f"{part}.parquet", {"image": cells, "label": LABELS})
    with pytest.raises(DataError, match="are images; leave out standardize"):
        ek.load_data("parquet", path=tmp_path, standardize=True)


def test_a_learner_standardises_as_the_data_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_csv(tmp_path / "a.csv", ROWS)
    code, out, _ = call(capsys, "data", "show", "csv", f"path={file}", "label=kind")
    assert code == 0
    plain = ek.load_data(file)
    mean, std = plain.train.x.mean(axis=0), plain.train.x.std(axis=0)
    shown = ", ".join(f"{number:.4f}" for number in mean)
    assert f"{{ mean = [{shown}], std = [" in out
    one = ek.Learner(ek.mlp(features=3, classes=3), ek.ER(), normalize=(mean, std))
    other = ek.Learner(ek.mlp(features=3, classes=3), ek.ER())
    data = ek.load_data(file, standardize=True)
    one.learn(plain.train.x, plain.train.labels)
    other.learn(data.train.x, data.train.labels)
    assert torch.allclose(one.logits(plain.test.x), other.logits(data.test.x), atol=1e-4)
