"""`evenkeel learn`, `predict`, `export`, `keys`: the service on the command line."""

import errno
import io
import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenkeel.learning.export import described
from evenkeel.service.store.keys import LOOK, Keyring
from tests.helpers.commands import call
from tests.helpers.services import Open, examples
from tests.helpers.teaching import IMAGES, VECTORS, lines, pictures


def test_a_folder_of_images_is_taught_and_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pictures(tmp_path / "photos", 30)
    model, photos = str(tmp_path / "model"), str(tmp_path / "photos")
    code, shown, errors = call(capsys, "learn", model, photos, *IMAGES)
    assert code == 0, errors
    assert [word for word in ("60", "2") if word not in shown] == []
    code, shown, errors = call(capsys, "learn", model, photos)  # repeated, it teaches nothing twice
    assert code == 0, errors
    assert shown.splitlines()[-1].split()[:2] == ["0", "60"]
    code, shown, errors = call(capsys, "predict", model, str(tmp_path / "photos" / "light"), "--top", "1")
    assert code == 0, errors
    predictions = [json.loads(line) for line in shown.splitlines()]
    assert [len(predictions), predictions[0]["source"]] == [30, str(tmp_path / "photos" / "light" / "0.png")]
    assert [each["label"] for each in predictions].count("light") >= 25
    assert len(predictions[0]["probabilities"]) == 1
    code, shown, _ = call(capsys, "predict", model, str(tmp_path / "photos" / "dark" / "3.png"))
    assert (code, json.loads(shown)["label"]) == (0, "dark")


def test_json_lines_come_from_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = str(tmp_path / "model")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines(64)) + "\n\n"))
    code, _, errors = call(capsys, "learn", model, "-", *VECTORS)
    assert code == 0, errors
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines(3, labelled=False))))
    code, shown, errors = call(capsys, "predict", model, "-")
    assert code == 0, errors
    assert [json.loads(line)["label"] for line in shown.splitlines()] == ["cat", "dog", "cat"]
    bad = [*lines(2, seed=3), '{"x": [1, 2], "label": "cat"}']
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(bad)))
    code, _, errors = call(capsys, "learn", model, "-")
    assert code == 1
    assert "line 3: x must have 4 numbers, but has 2" in errors


def test_a_file_of_lines_is_taught_once_through_a_small_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.dumps({name: value for name, value in json.loads(line).items() if name != "id"}) for line in lines(64)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    arguments = ["learn", str(tmp_path / "model"), str(tmp_path / "rows.jsonl")]
    code, shown, errors = call(capsys, *arguments, *VECTORS, "--set", "limits.queue=10")
    assert code == 0, errors
    assert shown.splitlines()[-1].split()[0] == "64"
    code, shown, errors = call(capsys, *arguments)
    assert code == 0, errors
    assert shown.splitlines()[-1].split()[0] == "0"


@pytest.mark.parametrize("kind", ["vectors", "images"])
def test_parquet_is_taught(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "data.parquet"
    if kind == "vectors":
        given = examples(64)
        x = pa.array([np.frombuffer(each.x, dtype=np.float32).tolist() for each in given], pa.list_(pa.float32()))
        pq.write_table(pa.table({"x": x, "label": [each.label for each in given]}), file)
    else:
        pictures(tmp_path / "photos", 32)
        files = sorted((tmp_path / "photos").rglob("*.png"), key=lambda path: path.name)
        cells = [{"bytes": path.read_bytes(), "path": path.name} for path in files]
        names = json.dumps({"info": {"features": {"label": {"names": ["cat", "dog"]}}}})
        table = pa.table({"image": cells, "label": [int(path.parent.name == "light") for path in files]})
        pq.write_table(table.replace_schema_metadata({"huggingface": names}), file)
    settings = VECTORS if kind == "vectors" else IMAGES
    code, shown, errors = call(capsys, "learn", str(tmp_path / "model"), str(file), *settings)
    assert code == 0, errors
    assert shown.splitlines()[-1].split()[0] == "64"
    code, shown, errors = call(capsys, "predict", str(tmp_path / "model"), str(file))
    assert code == 0, errors
    assert {json.loads(line)["label"] for line in shown.splitlines()} == {"cat", "dog"}


WRONG: dict[str, tuple[list[str], str]] = {
    "no such source": (["learn", "{model}", "nowhere"], "There is no 'nowhere'. Give a folder"),
    "no samples": (["learn", "{model}", __file__], "Cannot read samples from .*py'. Give a folder"),
    "no folder yet": (["learn", "{empty}", "nowhere"], "Give --config FILE"),
    "images for vectors": (["learn", "{model}", "{photos}"], "this service takes vectors of 4 numbers"),
    "no labels": (["learn", "{model}", "{photos}/dark"], "has no subfolders; it needs one for each class"),
    "predict nothing": (["predict", "{empty}", "nowhere"], "not the folder of a service"),
    "export nothing": (["export", "{model}", "-o", "{model}.onnx"], "[Nn]othing has been learned"),
    "export to text": (["export", "{model}", "-o", "{model}.txt"], "must end in .onnx or .pt2"),
    "no such version": (
        ["export", "{model}", "-o", "{model}.pt2", "--version", "7"],
        "has no version 7; available: 0",
    ),
    "no such scope": (["keys", "add", "{model}", "me", "--scope", "lern"], "Did you mean 'learn'"),
    "no such key": (["keys", "remove", "{model}", "me"], "no key named 'me'; there are: none"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_one_sentence(case: str, tmp_path: Path, opened: Open, capsys: pytest.CaptureFixture[str]) -> None:
    opened().close()
    pictures(tmp_path / "photos", 1)
    arguments, expected = WRONG[case]
    places = {name: str(tmp_path / name) for name in ("model", "empty", "photos")}
    code, _, errors = call(capsys, *(word.format(**places) for word in arguments))
    assert code == 1
    assert re.search(expected, errors), errors
    assert "Traceback" not in errors


def test_what_came_before_a_bad_row_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, file = lines(16), tmp_path / "rows.jsonl"
    file.write_text("\n".join([*good[:12], '{"x": [1], "label": "cat"}', *good[12:]]))
    arguments = ["learn", str(tmp_path / "model"), str(file), *VECTORS, "--set", "limits.examples=5"]
    code, _, errors = call(capsys, *arguments)
    assert (code, "rows.jsonl, line 13: x must have 4 numbers, but has 1" in errors) == (1, True)
    file.write_text("\n".join(good))
    code, shown, errors = call(capsys, *arguments)
    assert code == 0, errors
    assert shown.splitlines()[-1].split()[:2] == ["6", "10"]  # taught, skipped


def test_serving_without_its_packages_is_refused_before_slow_imports() -> None:
    code = "import sys; sys.modules['uvicorn'] = None; sys.argv[1:] = ['serve', 'model']; from evenkeel import cli\n"
    code += "try: cli.main()\nfinally: print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "False\n")
    assert "Not installed: uvicorn. Run: pip install 'evenkeel[serve]', or in a clone" in done.stderr


def test_a_folder_that_is_served_is_not_taught_by_a_command(opened: Open, capsys: pytest.CaptureFixture[str]) -> None:
    service = opened()
    code, _, errors = call(capsys, "learn", str(service.model_folder.path), "-")
    assert code == 1
    assert "Another service or command is using" in errors


def test_the_classifier_is_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines(64))))
    assert call(capsys, "learn", str(tmp_path / "model"), "-", *VECTORS)[0] == 0
    code, shown, errors = call(capsys, "export", str(tmp_path / "model"), "-o", str(tmp_path / "model.pt2"))
    assert code == 0, errors
    assert "2 classes" in shown
    assert described(tmp_path / "model.pt2")["labels"] == ["cat", "dog"]


def test_keys_are_added_listed_and_removed(opened: Open, capsys: pytest.CaptureFixture[str]) -> None:
    model_folder = opened(start=False).model_folder
    code, secret, _ = call(capsys, "keys", "add", str(model_folder.path), "camera", "--scope", "predict,learn")
    assert code == 0
    keyring = Keyring(model_folder.keys, open_without=False)
    key = keyring.find(f"Bearer {secret.strip()}")
    assert key is not None
    assert key.allows == ["predict", "learn"]
    assert secret.strip() not in model_folder.keys.read_text()
    assert model_folder.keys.stat().st_mode & 0o777 == 0o600
    assert "camera" in call(capsys, "keys", "list", str(model_folder.path))[1]
    assert "already" in call(capsys, "keys", "add", str(model_folder.path), "camera", "--scope", "admin")[2]
    assert call(capsys, "keys", "remove", str(model_folder.path), "camera")[0] == 0
    time.sleep(LOOK)
    assert keyring.find(f"Bearer {secret.strip()}") is None


def test_an_expiry_is_given_in_days_and_listed(opened: Open, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(opened(start=False).model_folder.path)
    assert call(capsys, "keys", "add", model, "short", "--scope", "predict", "--days", "30")[0] == 0
    assert call(capsys, "keys", "add", model, "long", "--scope", "predict")[0] == 0
    shown = " ".join(call(capsys, "keys", "list", model)[1].split())
    until = (datetime.now(UTC) + timedelta(days=30)).date().isoformat()
    assert re.search(rf"short predict \S+ {until}T\S+ long predict \S+ never", shown), shown


def test_removing_the_last_key_says_that_nobody_is_left(opened: Open, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(opened(start=False).model_folder.path)
    call(capsys, "keys", "add", model, "only", "--scope", "predict")
    code, _, errors = call(capsys, "keys", "remove", model, "only")
    assert (code, "nobody may use the service until you add one" in " ".join(errors.split())) == (0, True)


def test_only_the_owner_can_read_what_a_command_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.jsonl").write_text("\n".join(lines(40)))
    model = tmp_path / "model"
    before = os.umask(0o022)
    try:
        assert call(capsys, "learn", str(model), str(tmp_path / "rows.jsonl"), *VECTORS)[0] == 0
        assert call(capsys, "backup", str(model), str(tmp_path / "copy.tar"))[0] == 0
        assert call(capsys, "restore", str(tmp_path / "copy.tar"), str(tmp_path / "again"))[0] == 0
    finally:
        os.umask(before)
    made = [model, *model.rglob("*"), tmp_path / "copy.tar", tmp_path / "again", *(tmp_path / "again").rglob("*")]
    assert {path.name: oct(path.stat().st_mode & 0o077) for path in made if path.stat().st_mode & 0o077} == {}


def test_errors_of_a_disk_are_sentences(
    opened: Open, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = opened(start=False)
    model = str(service.model_folder.path)
    code, _, errors = call(capsys, "backup", model, "/proc/copy")
    assert (code, "Cannot use /proc/.copy.partial" in errors) == (1, True), errors
    monkeypatch.setattr("shutil.copy", full_disk)
    code, _, errors = call(capsys, "backup", model, str(service.model_folder.path.with_name("copy")))
    assert (code, errors) == (1, "Cannot use the disk: No space left on device.\n")
    assert {path.name for path in service.model_folder.path.parent.iterdir()} == {"model"}


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
