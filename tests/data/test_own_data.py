"""Every way to give data: the same samples from files and from Python give the same set, and so the same run."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import evenkeel as ek
from evenkeel.errors import DataError
from tests.helpers.commands import call
from tests.helpers.data_files import as_image, encoded, pictures, write_csv, write_lines, write_parquet

RANDOM = np.random.default_rng(0)
LABELS = [["ant", "bee", "cat"][row % 3] for row in range(24)]
X = (RANDOM.normal(size=(24, 3)) + np.arange(24)[:, None] % 3).astype(np.float32)
ROWS = [
    {"a": float(x[0]), "b": float(x[1]), "c": float(x[2]), "kind": label} for x, label in zip(X, LABELS, strict=True)
]
WHOLE = ek.DataSet.of((X, LABELS))  # split by the same rule


def columns() -> dict[str, Any]:
    return {name: [row[name] for row in ROWS] for name in ROWS[0]}


class Streamed(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield from zip(X, LABELS, strict=True)


class Listed(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, place: int) -> Any:
        return {"x": torch.from_numpy(X[place]), "label": LABELS[place]}


def hugging_face(*, streaming: bool = False) -> Any:
    datasets = pytest.importorskip("datasets")
    names = ["ant", "bee", "cat"]
    features = datasets.Features(
        {"x": datasets.Sequence(datasets.Value("float32")), "label": datasets.ClassLabel(names=names)}
    )
    whole = datasets.Dataset.from_dict({"x": X.tolist(), "label": [names.index(each) for each in LABELS]}, features)
    return whole.to_iterable_dataset() if streaming else whole


def tabs(home: Path) -> ek.DataSet:
    (home / "a.tsv").write_text(write_csv(home / "a.csv", ROWS).read_text().replace(",", "\t"))
    return ek.load_data(home / "a.tsv")


VECTORS: dict[str, Callable[[Path], ek.DataSet]] = {
    "a csv file": lambda home: ek.load_data(write_csv(home / "a.csv", ROWS)),
    "a csv file, label first": lambda home: ek.load_data(
        write_csv(home / "a.csv", [{"kind": row["kind"], **row} for row in ROWS]), label="kind"
    ),
    "tabs": tabs,
    "json lines, wide": lambda home: ek.load_data(write_lines(home / "a.jsonl", ROWS)),
    "json lines, lists": lambda home: ek.load_data(
        write_lines(home / "a.jsonl", [{"x": x.tolist(), "label": y} for x, y in zip(X, LABELS, strict=True)])
    ),
    "wide parquet": lambda home: ek.load_data(write_parquet(home / "a.parquet", columns())),
    "parquet, lists": lambda home: ek.load_data(
        write_parquet(home / "a.parquet", {"x": [x.tolist() for x in X], "label": LABELS})
    ),
    "pandas": lambda _: ek.DataSet.of(pytest.importorskip("pandas").DataFrame(columns())),
    "polars": lambda _: ek.DataSet.of(pytest.importorskip("polars").DataFrame(columns())),
    "arrays": lambda _: ek.DataSet.of((torch.from_numpy(X), np.array(LABELS))),
    "a torch data set": lambda _: ek.DataSet.of(Listed()),
    "a torch stream": lambda _: ek.DataSet.of(Streamed()),
    "a loader": lambda _: ek.DataSet.of(DataLoader(Listed(), batch_size=5)),
    "dicts": lambda _: ek.DataSet.of(ROWS, label="kind"),
    "hugging face": lambda _: ek.DataSet.of(hugging_face()),
    "hugging face, streaming": lambda _: ek.DataSet.of(hugging_face(streaming=True)),
}


@pytest.mark.parametrize("way", VECTORS)
def test_vectors_are_the_same_however_they_are_given(tmp_path: Path, way: str) -> None:
    data = VECTORS[way](tmp_path)
    assert data.classes == ("ant", "bee", "cat")
    assert data.digest == WHOLE.digest


def test_two_splits_are_kept_apart(tmp_path: Path) -> None:
    for part, rows in (("train", ROWS[:15]), ("test", ROWS[15:])):
        write_csv(tmp_path / f"{part}.csv", rows)
    expected = ek.DataSet.of(X[:15], LABELS[:15], X[15:], LABELS[15:])
    assert ek.load_data(tmp_path).digest == expected.digest
    assert ek.DataSet.of((X[:15], LABELS[:15]), test=(X[15:], LABELS[15:])).digest == expected.digest
    assert ek.DataSet.of({"train": ROWS[:15], "test": ROWS[15:]}, label="kind").digest == expected.digest


def test_categories_become_columns_if_asked(tmp_path: Path) -> None:
    rows = [{"colour": ["red", "blue"][place % 2], **row} for place, row in enumerate(ROWS)]
    write_csv(tmp_path / "a.csv", rows)
    with pytest.raises(DataError, match=r"text in the column 'colour', but .* Set one_hot=true"):
        ek.load_data(tmp_path / "a.csv")
    data = ek.load_data(tmp_path / "a.csv", one_hot=True)
    assert data.train.x.shape[1] == 5
    assert (data.train.x[:, :2].sum(axis=1) == 1).all()
    for part, given in (("train", rows), ("test", [{**row, "colour": "green"} for row in rows])):
        write_csv(tmp_path / f"{part}.csv", given)
    with pytest.raises(DataError, match=r"row 0, has 'green' in the column 'colour', which no training row has"):
        ek.load_data(tmp_path, one_hot=True)


def changed(row: int, **values: object) -> list[dict[str, Any]]:
    return [{**each, **values} if place == row else each for place, each in enumerate(ROWS)]


WRONG: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "no label": (changed(4, kind=""), {}, r"row 4, has no label"),
    "a fraction": ([{**row, "kind": 0.5} for row in ROWS], {}, r"row 0, has the label 0\.5\. A label is a whole"),
    "no number": (changed(7, b=""), {}, r"row 7, has nothing in the column 'b'"),
    "no such column": (ROWS, {"label": "kinds"}, r"no column 'kinds'; it has a, b, c, kind\. Did you mean 'kind'\?"),
    "only labels": ([{"kind": row["kind"]} for row in ROWS], {}, r"has only the column 'kind'"),
    "no names": ([dict(zip("1234", row.values(), strict=True)) for row in ROWS], {}, r"but values .* header=false"),
}


@pytest.mark.parametrize(("rows", "settings", "sentence"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_table_is_said_with_the_row(
    tmp_path: Path, rows: list[dict[str, Any]], settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence):
        ek.load_data(write_csv(tmp_path / "a.csv", rows), **settings)


def test_a_table_without_names_can_be_read(tmp_path: Path) -> None:
    text = write_csv(tmp_path / "a.csv", ROWS).read_text().partition("\n")[2]
    (tmp_path / "a.csv").write_text(text)
    assert ek.load_data(tmp_path / "a.csv", header=False).digest == WHOLE.digest


OBJECTS: dict[str, tuple[object, str]] = {
    "none": (3, "is a int. Give arrays"),
    "an empty text": ([("hello", 0), (" ", 1)], "item 1 is an empty text"),
    "not only texts": ([("hello", 0), (np.zeros(3), 1)], r"item 1, has the shape \(3,\), but the first one has \(\)"),
    "shapes": ([(np.zeros(3), 0), (np.zeros(4), 1), (np.zeros(3), 0)], r"item 1, has the shape \(4,\)"),
    "three": ([(1, 2, 3)], "must be .sample, label., or a dict"),
    "nothing": ([], "has no samples"),
    "missing label": ([(np.zeros(3), 0), (np.zeros(3), None), (np.zeros(3), 1)], "row 1, has no label"),
    "columns": ([{"x": [1.0], "y": [2.0], "label": 1}], "choose one with sample="),
}


@pytest.mark.parametrize(("given", "sentence"), OBJECTS.values(), ids=OBJECTS)
def test_what_is_wrong_with_an_object_is_said(given: object, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        ek.DataSet.of(given)


PIXELS = pictures(12, (3, 6, 6))
NUMBERS = [place % 2 for place in range(12)]


def hub_images() -> Any:
    datasets = pytest.importorskip("datasets")
    rows = {"image": [as_image(each) for each in PIXELS], "label": NUMBERS}
    return datasets.Dataset.from_dict(
        rows, datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    )


IMAGES: dict[str, Callable[[Path], ek.DataSet]] = {
    "arrays": lambda _: ek.DataSet.of((PIXELS.transpose(0, 2, 3, 1), NUMBERS)),
    "tensors": lambda _: ek.DataSet.of(TensorDataset(torch.from_numpy(PIXELS), torch.tensor(NUMBERS))),
    "pillow": lambda _: ek.DataSet.of([(as_image(each), label) for each, label in zip(PIXELS, NUMBERS, strict=True)]),
    "json lines": lambda home: ek.load_data(
        write_lines(
            home / "a.jsonl",
            [
                {"image": base64.b64encode(encoded(each)).decode(), "label": label}
                for each, label in zip(PIXELS, NUMBERS, strict=True)
            ],
        )
    ),
    "hugging face": lambda _: ek.DataSet.of(hub_images()),
}


@pytest.mark.parametrize("way", IMAGES)
def test_images_are_the_same_however_they_are_given(tmp_path: Path, way: str) -> None:
    assert IMAGES[way](tmp_path).digest == IMAGES["arrays"](tmp_path).digest


def test_a_run_takes_a_table_by_name(tmp_path: Path) -> None:
    config = {
        "data": {"name": "csv", "path": str(write_csv(tmp_path / "a.csv", ROWS)), "standardize": True},
        "net": {"name": "mlp", "hidden": [4]},
        "scenario": {"name": "disjoint", "tasks": 3},
        "evaluation": {"every": 0, "alignment": 0},
    }
    first, *_, last = ek.run(config)
    assert isinstance(first, ek.Started)
    assert first.data["classes"] == ["ant", "bee", "cat"]
    assert isinstance(last, ek.Ended)


@pytest.mark.slow  # it imports datasets
def test_a_config_names_a_hugging_face_set(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    for part, rows in (("train", ROWS[:15]), ("test", ROWS[15:])):
        write_csv(tmp_path / f"{part}.csv", rows)
    data = ek.load_data("huggingface", path=str(tmp_path), label="kind", streaming=True)
    assert data.digest == ek.load_data(tmp_path).digest
    with pytest.raises(DataError, match="cannot be loaded"):
        ek.load_data("huggingface", path=str(tmp_path / "nowhere"))


# ---- the same readers for learn, predict and evaluate ----


def arrays_file(home: Path) -> Path:
    file = home / "a.npz"
    np.savez(file, x_train=X, y_train=LABELS, x_test=X, y_test=LABELS)
    return file


FILES: dict[str, Callable[[Path], Path]] = {
    "csv": lambda home: write_csv(home / "a.csv", ROWS),
    "parquet": lambda home: write_parquet(home / "a.parquet", columns()),
    "npz": arrays_file,
}


@pytest.mark.parametrize("kind", FILES)
def test_commands_read_what_runs_read(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, model = str(FILES[kind](tmp_path)), str(tmp_path / "model")
    code, out, err = call(capsys, "learn", model, file, "--set", "input.features=3", "--set", "net.hidden=[4]")
    assert code == 0, err
    assert "24" in out
    code, out, err = call(capsys, "predict", model, file)
    assert code == 0, err
    assert {json.loads(line)["label"] for line in out.splitlines()} <= {"ant", "bee", "cat"}
    assert len(out.splitlines()) == 24
    code, out, err = call(capsys, "evaluate", model, file, "--json")
    assert code == 0, err
    assert json.loads(out)["samples"] == 24


def test_a_table_of_samples_alone_is_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(tmp_path / "model")
    assert call(capsys, "learn", model, str(write_csv(tmp_path / "a.csv", ROWS)), "--set", "input.features=3")[0] == 0
    write_csv(tmp_path / "b.csv", [{name: row[name] for name in "abc"} for row in ROWS])
    code, out, _ = call(capsys, "predict", model, str(tmp_path / "b.csv"))
    assert (code, len(out.splitlines())) == (0, 24)
    write_csv(tmp_path / "c.csv", changed(3, kind=""))
    code, _, err = call(capsys, "learn", model, str(tmp_path / "c.csv"))
    assert (code, "row 3, has no label" in err) == (1, True)


def test_samples_and_labels_that_differ_in_number_are_refused() -> None:
    for x, y in ((X, LABELS[:20]), (X[:20], LABELS), (["a text"] * 4, [0, 1, 0])):
        with pytest.raises(DataError, match=rf"has {len(x)} samples, but {len(y)} labels"):
            ek.DataSet.of((x, y))


def test_the_label_is_the_column_called_so_or_the_last(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    for name in ("label", "labels", "target", "class"):
        rows = [{name: row["kind"], "a": row["a"], "kind": row["b"]} for row in ROWS]
        table = pa.table({key: [row[key] for row in rows] for key in rows[0]})
        found = [ek.DataSet.of(table), ek.load_data(write_csv(tmp_path / f"{name}.csv", rows))]
        found.append(ek.load_data(write_lines(tmp_path / f"{name}.jsonl", rows)))
        assert [(each.classes, each.train.x.shape[1]) for each in found] == [(("ant", "bee", "cat"), 2)] * 3


def test_names_of_classes_are_those_of_the_column_that_is_read() -> None:
    class Named(list[Any]):
        features: ClassVar = {"x": None, "intent": type("ClassLabel", (), {"names": ["no", "yes"]})()}

    data = ek.DataSet.of(Named([{"x": [float(row)], "intent": row % 2} for row in range(8)]))
    assert data.classes == ("no", "yes")


def test_the_id_of_a_json_line_is_no_feature(tmp_path: Path) -> None:
    rows = [{"id": place, "a": row["a"], "label": row["kind"]} for place, row in enumerate(ROWS)]
    assert ek.load_data(write_lines(tmp_path / "rows.jsonl", rows)).train.x.shape[1:] == (1,)


@pytest.mark.parametrize(
    ("row", "refused"), [("5.1,3.5,a", 1), ("7,7,b", 1), ("3,a", 1), ("0,1,label", 0), ("2,3,4,y", 0)]
)
def test_a_first_line_of_values_is_no_header(tmp_path: Path, row: str, refused: bool) -> None:
    others = [",".join(["1.5"] * row.count(",") + ["ab"[place % 2]]) for place in range(8)]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join([row, *others]))
    if refused:
        with pytest.raises(DataError, match=r"seems to have no names in its first line, but values .* header=false"):
            ek.load_data(file)
    else:
        assert len(ek.load_data(file).train) + len(ek.load_data(file).test) == 8


def test_arrays_of_pixels_are_resized() -> None:
    gray, colour = pictures(12, (1, 6, 4)), pictures(12, (3, 6, 4))
    y = [0, 1, 2] * 4
    for x, channels in ((gray[:, 0], 1), (gray, 1), (colour, 3), (colour.transpose(0, 2, 3, 1), 3)):
        ways = [(x, y), [*zip(x, y, strict=True)], DataLoader(TensorDataset(torch.from_numpy(x), torch.tensor(y)))]
        shapes = [ek.DataSet.of(each, size=8).train.x.shape[1:] for each in ways]
        assert shapes == [(channels, 8, 8)] * 3
    assert np.array_equal(ek.DataSet.of((colour, y), size=(6, 4)).train.x, ek.DataSet.of((colour, y)).train.x)
    with pytest.raises(DataError, match="item 0 is no image of uint8 pixels, so it cannot be resized"):
        ek.DataSet.of((X, LABELS), size=8)


def test_gray_and_colour_images_are_one_set() -> None:
    from PIL import Image

    colour = [as_image(each) for each in pictures(6, (3, 5, 5))]
    mixed = [image.convert("L") if place % 2 else image for place, image in enumerate(colour)]
    data = ek.DataSet.of([*zip(mixed, [0, 0, 1, 1, 2, 2], strict=True)], test_share=0.5)
    assert data.train.x.shape == (3, 3, 5, 5)
    values = np.arange(16, dtype=np.int32).reshape(4, 4)
    wide = ek.DataSet.of([(Image.fromarray(values), label) for label in (0, 0, 1, 1)], test_share=0.5)
    assert np.array_equal(wide.train.x[0, 0], values)
    with pytest.raises(DataError, match="mode F of Pillow"):
        ek.DataSet.of([(Image.fromarray(values.astype(np.float32)), 0)] * 4)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "give x_test and y_test too"),
        ({"test": (X, LABELS)}, "give x_test and y_test too"),
        ({"x_test": X, "y_test": LABELS, "size": 8}, "size cannot be used with four arrays"),
        ({"x_test": X, "y_test": LABELS, "label": "a", "sample": "b"}, "label, sample cannot be used"),
    ],
)
def test_what_four_arrays_do_not_take_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        ek.DataSet.of(X, LABELS, **given)


def test_an_empty_text_is_refused_wherever_it_is() -> None:
    for given in (((["a b", " "] * 5, [0, 1] * 5),), (["a b", " "] * 5, [0, 1] * 5, ["x", "y"], [0, 1])):
        with pytest.raises(DataError, match="empty text at index"):
            ek.DataSet.of(*given)
