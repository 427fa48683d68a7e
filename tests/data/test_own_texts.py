"""Every way to give texts: from files and from Python they are the same set, and commands read the same files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

import evenkeel as ek
from evenkeel.errors import DataError, SettingsError
from tests.helpers.commands import call
from tests.helpers.data_files import write_csv, write_lines, write_parquet
from tests.helpers.own_parts import own_module

__all__ = ["own_module"]

SAID = {"card": "My card, please: “lost” 💳 {0}", "time": "what time is it in zürich {0}", "play": "play song {0}"}
LABELS = [list(SAID)[row % 3] for row in range(12)]
TEXTS = [SAID[label].format(row) for row, label in enumerate(LABELS)]
ROWS = [{"text": text, "intent": label} for text, label in zip(TEXTS, LABELS, strict=True)]
WHOLE = ek.DataSet.of((TEXTS, LABELS))


def columns() -> dict[str, Any]:
    return {name: [row[name] for row in ROWS] for name in ROWS[0]}


def arrays_file(home: Path) -> Path:
    train, test = WHOLE.train, WHOLE.test
    np.savez(home / "a.npz", x_train=train.texts, y_train=train.labels, x_test=test.texts, y_test=test.labels)
    return home / "a.npz"


def frame(package: str) -> Any:
    return pytest.importorskip(package).DataFrame(columns())


def hugging_face() -> Any:
    return pytest.importorskip("datasets").Dataset.from_list(ROWS)


WAYS: dict[str, Callable[[Path], ek.DataSet]] = {
    "arrays": lambda home: ek.load_data(arrays_file(home)),
    "objects": lambda _: ek.DataSet.of((np.array(TEXTS, dtype=object), LABELS)),
    "pairs": lambda _: ek.DataSet.of(list(zip(TEXTS, LABELS, strict=True))),
    "dicts": lambda _: ek.DataSet.of([{**row, "number": 1} for row in ROWS], sample="text", label="intent"),
    "loader": lambda _: ek.DataSet.of(DataLoader(list(zip(TEXTS, LABELS, strict=True)), batch_size=5)),  # type: ignore[arg-type]
    "csv": lambda home: ek.load_data(write_csv(home / "a.csv", ROWS)),
    "tsv": lambda home: ek.load_data(write_csv(home / "a.tsv", ROWS, "\t")),
    "csv with other columns": lambda home: ek.load_data(
        write_csv(home / "a.csv", [{"id": "x", **row, "score": 0.5} for row in ROWS]), sample="text", label="intent"
    ),
    "json lines": lambda home: ek.load_data(write_lines(home / "a.jsonl", ROWS)),
    "json lines by name": lambda home: ek.load_data(
        write_lines(home / "a.jsonl", [{"said": row["text"], "label": row["intent"]} for row in ROWS]), sample="said"
    ),
    "parquet": lambda home: ek.load_data(write_parquet(home / "a.parquet", columns())),
    "parquet by name": lambda home: ek.load_data(
        write_parquet(home / "a.parquet", {"other": list(range(12)), **columns()}), image="text", label="intent"
    ),
    "pandas": lambda _: ek.DataSet.of(frame("pandas"), label="intent"),
    "polars": lambda _: ek.DataSet.of(frame("polars"), sample="text"),
    "hugging face": lambda _: ek.DataSet.of(hugging_face(), label="intent"),
}
HEAVY = ("pandas", "polars", "hugging face")


@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.slow] * (way in HEAVY)) for way in WAYS])
def test_texts_are_the_same_however_they_are_given(tmp_path: Path, way: str) -> None:
    data = WAYS[way](tmp_path)
    assert data.digest == WHOLE.digest
    assert set(data.train.texts) | set(data.test.texts) == set(TEXTS)


def changed(row: int, **values: object) -> list[dict[str, Any]]:
    return [{**each, **values} if place == row else each for place, each in enumerate(ROWS)]


WRONG: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "empty": (changed(4, text=""), {}, "row 4, has an empty text in the column 'text'"),
    "no label": (changed(4, intent=""), {}, "row 4, has no label"),
    "not named": ([{**row, "channel": "phone"} for row in ROWS], {"label": "intent"}, "or name the one .* sample="),
    "no such": (ROWS, {"sample": "txet"}, "no column 'txet'; it has text, intent. Did you mean 'text'?"),
    "numbers": (
        [{**row, "n": 1} for row in ROWS],
        {"sample": "n", "label": "intent"},
        "'n' .* holds numbers, not texts",
    ),
    "standardize": (ROWS, {"standardize": True}, "are texts, in the column 'text'; leave out standardize"),
}


@pytest.mark.parametrize(("rows", "settings", "sentence"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_table_of_texts_is_said(
    tmp_path: Path, rows: list[dict[str, Any]], settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence):
        ek.load_data(write_csv(tmp_path / "a.csv", rows), **settings)


def test_a_text_can_be_a_category_if_asked(tmp_path: Path) -> None:
    data = ek.load_data(write_csv(tmp_path / "a.csv", [{**row, "text": row["text"][:4]} for row in ROWS]), one_hot=True)
    assert data.train.x.shape[1] == 3
    with pytest.raises(DataError, match="These samples are no texts"):
        assert data.train.texts


CONFIG: dict[str, Any] = {"scenario": {"name": "disjoint", "tasks": 3}, "evaluation": {"every": 0, "alignment": 0}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no encoder": ({"net": {"name": "mlp"}}, "Texts need an encoder"),
    "an image net": ({"net": {"name": "convnet"}}, "Texts need an encoder"),
    "an own net": ({"net": {"name": "{module}:build"}}, "Texts need an encoder"),
    "permuted": (
        {"net": {"name": "{module}:of_texts"}, "scenario": {"name": "permuted", "tasks": 2}},
        "changes images or vectors; 'a' has texts",
    ),
    "normalize": (
        {"net": {"name": "{module}:of_texts"}, "learner": {"normalize": {"mean": [0.5], "std": [0.5]}}},
        "normalize is for numbers",
    ),
    "digits": (
        {
            "net": {"name": "{module}:of_texts"},
            "data": {"name": "digits"},
            "scenario": {"name": "disjoint", "tasks": 2},
        },
        "takes texts, but a sample has",
    ),
}


@pytest.mark.parametrize(("change", "sentence"), REFUSED.values(), ids=REFUSED)
def test_texts_need_an_encoder_and_only_they_fit_it(
    own_module: str, tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    data = {"name": "csv", "path": str(write_csv(tmp_path / "a.csv", ROWS))}
    config = json.loads(json.dumps({**CONFIG, "data": data, **change}).replace("{module}", own_module))
    with pytest.raises(SettingsError, match=sentence):
        [*ek.run(config)]


FILES: dict[str, Callable[[Path], Path]] = {
    "csv": lambda home: write_csv(home / "a.csv", ROWS),
    "parquet": lambda home: write_parquet(home / "a.parquet", columns()),
    "json lines": lambda home: write_lines(
        home / "a.jsonl", [{"text": row["text"], "label": row["intent"]} for row in ROWS]
    ),
    "npz": arrays_file,
}


@pytest.mark.parametrize("kind", FILES)
def test_commands_read_texts(own_module: str, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, known = str(FILES[kind](tmp_path)), ["--import", f"{own_module}:words"]
    net = f'net={{name="mlp", hidden=[4], encoder={{name="{own_module}:words"}}}}'
    code, _, err = call(capsys, "learn", "model", file, "--set", "input.text=true", "--set", net)
    assert code == 0, err
    count = 9 if kind == "npz" else 12  # of which it reads the part for training
    code, out, err = call(capsys, "predict", "model", file, *known)
    assert (code, len(out.splitlines())) == (0, count), err
    assert json.loads(out.splitlines()[0])["label"] in SAID
    code, out, err = call(capsys, "evaluate", "model", file, "--json", *known)
    assert (code, json.loads(out)["samples"]) == (0, 3 if kind == "npz" else 12), err
    code, _, err = call(capsys, "learn", "model", file, *known)
    assert code == 0, err


def test_texts_alone_are_predicted_and_other_samples_refused(
    own_module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = f'net={{name="mlp", hidden=[4], encoder={{name="{own_module}:words"}}}}'
    code, _, err = call(capsys, "learn", "model", str(FILES["csv"](tmp_path)), "--set", "input.text=true", "--set", net)
    assert code == 0, err
    known = ["--import", f"{own_module}:words"]
    alone = write_csv(tmp_path / "b.csv", [{"text": text} for text in TEXTS])
    code, out, err = call(capsys, "predict", "model", str(alone), *known)
    assert (code, len(out.splitlines())) == (0, 12), err
    numbers = write_csv(tmp_path / "c.csv", [{"a": 1.0, "kind": "card"}])
    code, _, err = call(capsys, "learn", "model", str(numbers), *known)
    assert (code, "is a vector, but this service takes texts" in err) == (1, True), err
    lines = write_lines(tmp_path / "d.jsonl", [{"text": "play it", "label": "play"}, {"text": "  ", "label": "play"}])
    code, _, err = call(capsys, "learn", "model", str(lines), *known)
    assert (code, "line 2: text:" in err) == (1, True), err
