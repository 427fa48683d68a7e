"""A refused command leaves nothing behind."""

from pathlib import Path

import pytest

from tests.helpers.commands import call

RESULTS = str(Path(__file__).parents[2] / "results" / "demo")
GRID = 'seeds = 1\n[[blocks]]\nbase = "digits"\n'
FILES = {
    "grid.toml": GRID,
    "bad-grid.toml": GRID + 'vary = { "method.nme" = ["er"] }\n',
    "no-data.toml": 'seeds = 1\n[[blocks]]\nbase = "paper/cifar10-er"\n',
    "tune.toml": 'base = "digits"\ntrials = 1\n[space]\n"optimizer.lr" = { low = 0.1, high = 0.01 }\n',
    "no-data-tune.toml": 'base = "paper/cifar10-er"\ntrials = 1\n[space]\n"optimizer.lr" = [0.1, 0.2]\n',
    "text.npz": "no arrays",
    "rows.jsonl": '{"x": [1, 2]}\n',
    "cow.jsonl": '{"x": [1, 2], "label": "cow"}\n',
    "bad-rows.jsonl": '{"x": [1, 2, 3], "label": "cat"}\n',
    "empty.jsonl": "",
    "file": "a file, not a folder",
}
NEW = ("--set", "input.features=2")
REFUSED: dict[str, list[str]] = {
    "run: preset": ["run", "digit"],
    "run: setting": ["run", "digits", "--set", "method.alpha=1"],
    "run: value": ["run", "digits", "--set", "net.width=0"],
    "run: no data": ["run", "paper/cifar10-er"],
    "run: no data folder": ["run", "digits", "--data", "nowhere"],
    "run: text as npz": ["run", "digits", "--set", "data.name=npz", "--set", "data.path=text.npz"],
    "run: net for other data": ["run", "digits", "--set", "net.name=resnet18", "--set", "learner.normalize.mean=[1,2]"],
    "run: too many tasks": ["run", "digits", "--set", "scenario.tasks=11", "--out", "a/b"],
    "run: out is a file": ["run", "digits", "--out", "file"],
    "run: out is in a file": ["run", "digits", "--out", "file/b"],
    "grid: no file": ["grid", "nowhere.toml"],
    "grid: setting": ["grid", "bad-grid.toml", "--out", "ledger"],
    "grid: no data": ["grid", "no-data.toml", "--out", "ledger"],
    "grid: out is in a file": ["grid", "grid.toml", "--out", "file/ledger", "--workers", "0"],
    "grid: no data folder": ["grid", "grid.toml", "--data", "nowhere"],
    "grid: format": ["grid", "grid.toml", "--format", "pdf"],
    "grid: resources": ["grid", "grid.toml", "--resources", "cpus=2"],
    "grid: list": ["grid", "no-data.toml", "--list", "--format", "pdf"],
    "reproduce: what": ["reproduce", "table9"],
    "reproduce: memory": ["reproduce", "table1", "--memory", "many"],
    "reproduce: methods": ["reproduce", "table1", "--methods", "err"],
    "reproduce: no data": ["reproduce", "table1", "--data-set", "cifar10", "--seeds", "1"],
    "reproduce: figure without runs": ["reproduce", "figure1", "--show"],
    "tune: range": ["tune", "tune.toml"],
    "tune: no data": ["tune", "no-data-tune.toml", "--workers", "0"],
    "report: no runs": ["report", "nowhere", "-o", "new/page.html"],
    "table: no runs": ["table", "nowhere", "-o", "new/table.txt"],
    "table: measure": ["table", ".", "--measures", "accc", "-o", "new/table.txt"],
    "compare: no runs": ["compare", ".", "-o", "new/table.txt"],
    "list: topic": ["list", "method"],
    "list: setting": ["list", "settings", "method.erp"],
    "ledger: list": ["ledger", "list", "nowhere"],
    "ledger: no runs": ["ledger", "list", "."],
    "ledger: rebuild": ["ledger", "rebuild", "nowhere"],
    "ledger: pack": ["ledger", "pack", "nowhere"],
    "ledger: adopt": ["ledger", "adopt", "ledger", "nowhere"],
    "data: show": ["data", "show", "npz", "path=text.npz"],
    "data: get": ["data", "get", "cifar"],
    "data: clear": ["data", "clear", "mnist"],
    "serve: no config": ["serve", "model"],
    "serve: setting": ["serve", "model", "--set", "input.feature=4"],
    "serve: net": ["serve", "model", *NEW, "--set", "net.name=resnet18"],
    "serve: keys": ["serve", "model", *NEW, "--host", "0.0.0.0"],
    "serve: foreign folder": ["serve", ".", *NEW],
    "serve: rollback": ["serve", "model", *NEW, "--rollback", "7", "--port", "0"],
    "learn: no config": ["learn", "model", "rows.jsonl"],
    "learn: no source": ["learn", "model", "nowhere", *NEW],
    "learn: no label": ["learn", "model", "rows.jsonl", *NEW],
    "learn: other shape": ["learn", "model", "bad-rows.jsonl", *NEW],
    "learn: label": ["learn", "model", "cow.jsonl", *NEW, "--set", 'classes=["cat", "dog"]'],
    "learn: unwritable": ["learn", "/proc/model", "cow.jsonl", *NEW],
    "run: unwritable": ["run", "digits", "--out", "/proc/run"],
    "grid: unwritable": ["grid", "grid.toml", "--out", "/proc/ledger", "--workers", "0"],
    "report: unwritable": ["report", RESULTS, "-o", "file/page.html"],
    "table: unwritable": ["table", RESULTS, "-o", "/proc/new/table.txt"],
    "compare: unwritable": ["compare", RESULTS, "-o", "file/new/table.txt"],
    "ledger export: unwritable": ["ledger", "export", RESULTS, "-o", "/proc/new/runs.csv"],
    "serve: unwritable": ["serve", "/proc/model", *NEW, "--port", "0"],
    "learn: nothing": ["learn", "model", "empty.jsonl", *NEW],
    "learn: model in a file": ["learn", "file/model", "rows.jsonl", *NEW],
    "predict: no model": ["predict", "model", "rows.jsonl"],
    "evaluate: no model": ["evaluate", "model", "rows.jsonl"],
    "evaluate: no learner": ["evaluate", "file", "rows.jsonl"],
    "export: no model": ["export", "model", "-o", "new/model.onnx"],
    "export: no learner": ["export", "file", "-o", "new/model.onnx"],
    "keys: no model": ["keys", "add", "model", "me", "--scope", "learn"],
    "backup: no model": ["backup", "model", "new/copy"],
    "restore: no backup": ["restore", "nowhere", "new/model"],
    "restore: a folder": ["restore", ".", "new/model"],
    "restore: a file": ["restore", "file", "new/model"],
    "check: no model": ["check", "model"],
    "unknown command": ["evalute", "model", "rows.jsonl"],
    "unknown option": ["run", "digits", "--otu", "runs"],
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_command_leaves_nothing_behind(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVENKEEL_DATA", raising=False)
    for name, content in FILES.items():
        Path(name).write_text(content)
    code, _, errors = call(capsys, *REFUSED[case])
    assert code in (1, 2), errors
    assert "Traceback" not in errors
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert left == {*FILES}
    assert {name: Path(name).read_text() for name in FILES} == FILES
