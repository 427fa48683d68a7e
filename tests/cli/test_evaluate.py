"""`evenkeel evaluate`: accuracy on labelled data."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenkeel as ek
from evenkeel.service.service import Service
from tests.helpers.commands import call
from tests.helpers.services import Open, examples, teach
from tests.helpers.teaching import IMAGES, VECTORS, lines, pictures


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a learner that knows cats and dogs, saved to a file."""
    rows = [json.loads(line) for line in lines(64)]
    learner = ek.Learner(ek.mlp(features=4, classes=2, hidden=[16]), ek.ER(), memory=20)
    for start in range(0, 64, 8):
        batch = rows[start : start + 8]
        learner.learn(np.array([row["x"] for row in batch], np.float32), [row["label"] for row in batch])
    path = tmp_path_factory.mktemp("saved") / "model.ek"
    learner.save(path)
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_learner_is_scored_as_by_accuracy(taught: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = lines(50, seed=7)
    (tmp_path / "rows.jsonl").write_text("\n".join([*rows, json.dumps({"x": [0, 0, 0, 0], "label": "cow"})]))
    code, out, errors = call(capsys, "evaluate", str(taught), str(tmp_path / "rows.jsonl"), "--json")
    assert code == 0, errors
    scores = json.loads(out)
    x = np.array([*(json.loads(row)["x"] for row in rows), [0, 0, 0, 0]], np.float32)
    truth = [*(json.loads(row)["label"] for row in rows), "cow"]
    predicted = ek.Learner.load(taught).predict(x).tolist()
    right = [label for label, answer in zip(truth, predicted, strict=True) if label == answer]
    assert scores["accuracy"] == pytest.approx(100 * len(right) / 51)
    by_class = {each["label"]: each for each in scores["classes"]}
    for label in ("cat", "dog"):
        assert by_class[label]["samples"] == truth.count(label)
        assert by_class[label]["predicted"] == predicted.count(label)
        assert by_class[label]["accuracy"] == pytest.approx(100 * right.count(label) / truth.count(label))
    assert [by_class["cow"]["learned"], by_class["cow"]["accuracy"]] == [False, 0]
    assert "Never learned, so never predicted: 'cow'" in errors
    code, out, _ = call(capsys, "evaluate", str(taught), str(tmp_path / "rows.jsonl"))
    assert code == 0
    assert f"{scores['accuracy']:.1f}" in next(line for line in out.splitlines() if line.startswith("all"))


def test_the_test_part_of_a_folder_is_scored_and_nothing_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures(tmp_path / "photos" / "train", 30)
    pictures(tmp_path / "photos" / "test", 5)
    model = tmp_path / "model"
    assert call(capsys, "learn", str(model), str(tmp_path / "photos"), *IMAGES)[0] == 0
    before = files_of(model)
    code, out, errors = call(capsys, "evaluate", str(model), str(tmp_path / "photos"), "--json")
    assert code == 0, errors
    assert [json.loads(out)["samples"], json.loads(out)["accuracy"] > 50] == [10, True]
    assert files_of(model) == before


def test_a_model_is_scored_while_it_is_served(opened: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    service = opened()
    teach(service, examples(64))
    version = service.save().result().number
    (tmp_path / "rows.jsonl").write_text("\n".join(lines(20)))
    arguments = ["evaluate", str(service.model_folder.path), str(tmp_path / "rows.jsonl"), "--json"]
    code, out, errors = call(capsys, *arguments)
    assert code == 0, errors
    assert [json.loads(out)["version"], json.loads(out)["samples"]] == [version, 20]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    {
        "no label": (
            ['{"x": [1, 2, 3, 4], "label": "cat"}', '{"x": [1, 2, 3, 4]}'],
            "line 2: label is missing; the line has x.",
        ),
        "no sample": (['{"y": [1, 2, 3, 4], "label": "cat"}'], "line 1: x is missing; the line has y, label."),
        "short": (['{"x": [1, 2, 3], "label": "cat"}'], "line 1: x must have 4 numbers, but has 3."),
        "no JSON": (['{"x": [1, 2'], "line 1: this is not JSON"),
        "no samples": ([], "has no samples"),
        "many": (['{"examples": [{"x": [1, 2, 3, 4], "label": "cat"}]}'], "line 1: a line holds one sample"),
    }.values(),
)
def test_bad_data_names_the_row(
    rows: list[str], sentence: str, taught: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    code, out, errors = call(capsys, "evaluate", str(taught), str(tmp_path / "rows.jsonl"))
    assert (code, out) == (1, "")
    assert sentence in errors


def test_a_file_that_is_no_text_is_refused(taught: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.jsonl").write_bytes(bytes(range(256)))
    code, _, errors = call(capsys, "evaluate", str(taught), str(tmp_path / "rows.jsonl"))
    assert code == 1
    assert "rows.jsonl' is not text in UTF-8." in errors


def test_predict_ignores_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, labelled in (("with", True), ("without", False)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines(20, labelled=labelled)))
    assert call(capsys, "learn", str(tmp_path / "model"), str(tmp_path / "with.jsonl"), *VECTORS)[0] == 0
    answers = []
    for name in ("with", "without"):
        code, out, errors = call(capsys, "predict", str(tmp_path / "model"), str(tmp_path / f"{name}.jsonl"))
        assert code == 0, errors
        answers.append([{**json.loads(line), "source": ""} for line in out.splitlines()])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("kind", ["csv", "npz", "names"])
def test_what_a_run_learned_is_scored_on_its_own_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """A run names classes by texts, where a file may have numbers."""
    y = np.arange(80) % 4
    x = (np.eye(4)[y] * 5 + np.random.default_rng(0).normal(size=(80, 4))).astype(np.float32)
    file = tmp_path / ("rows.csv" if kind == "csv" else "rows.npz")
    if kind == "csv":
        rows = [",".join([*map(str, each), str(label)]) for each, label in zip(x, y, strict=True)]
        file.write_text("\n".join(["a,b,c,d,label", *rows]))
    else:
        names: dict[str, Any] = {"classes": np.array(["ant", "bee", "cat", "dog"])} if kind == "names" else {}
        np.savez(file, x_train=x, y_train=y, x_test=x, y_test=y, **names)
    config = {"data": {"name": file.suffix[1:], "path": str(file)}, "net": {"name": "mlp", "hidden": [16]}}
    scenario = {"scenario": {"name": "disjoint", "tasks": 2}, "threads": 1, "evaluation": {"every": 0}}
    list(ek.run({**config, **scenario, "batches": {"size": 4}}, out=tmp_path / "run"))
    code, out, errors = call(capsys, "evaluate", str(tmp_path / "run" / "model.ek"), str(file), "--json")
    assert code == 0, errors
    scores = json.loads(out)
    assert scores["accuracy"] > 50
    assert [each["learned"] for each in scores["classes"]] == [True] * 4
    assert "Never learned" not in errors
    Service(tmp_path / "model", learner=tmp_path / "run" / "model.ek").close()  # and taught from them
    code, out, errors = call(capsys, "learn", str(tmp_path / "model"), str(file))
    assert code == 0, errors
    assert out.splitlines()[-1].split()[:3] == ["80", "0", "4"]  # taught, skipped, classes


@pytest.mark.parametrize("shape", [(8, 8, 3), (3, 8, 8), (8, 8)])
def test_images_in_arrays_may_have_channels_first_last_or_none_and_are_taught_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).integers(0, 256, (12, *shape), dtype=np.uint8)
    y = np.array([0, 1] * 6)
    np.savez(tmp_path / "rows.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    monkeypatch.chdir(tmp_path)
    settings = ["--set", "input.size=[8,8]", "--set", f"input.channels={3 if len(shape) == 3 else 1}"]
    code, _, errors = call(capsys, "learn", "model", "rows.npz", *settings)
    assert code == 0, errors
    code, out, errors = call(capsys, "learn", "model", str(tmp_path / "rows.npz"))
    assert code == 0, errors
    assert out.splitlines()[-1].split()[:2] == ["0", "12"]  # taught, skipped
