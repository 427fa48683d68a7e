"""Tables on a terminal: no line is wider than it, and nothing is cut off."""

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from evenkeel.cli import console
from tests.helpers.commands import call

RESULTS = Path(__file__).parents[2] / "results"
GRID = """
seeds = 2
[[blocks]]
base = "digits"
vary = { "memory.capacity" = [20, 50], "optimizer.lr" = [0.03, 0.1], "adaptor.name" = ["none", "cba"] }
[blocks.set]
"limits.train" = 10
"evaluation.every" = 0
"evaluation.alignment" = 0
"""
NAMES = [
    f"ER{cba} (memory {size}, optimizer lr {lr})" for cba in ("", " + CBA") for size in (20, 50) for lr in (0.03, 0.1)
]
COMMANDS: dict[str, tuple[list[str], list[str]]] = {  # with what it must show
    "table demo": (["table", "{results}/demo"], ["ER + CBA", "gain by CBA, paired", "ACC_AUC ↑"]),
    "table slim": (["table", "{results}/slim"], ["ER + CBA (memory 200)", "DER++ (memory 500)"]),
    "table grid": (["table", "{grid}"], NAMES),
    "compare demo": (["compare", "{results}/demo"], ["ER against ER + CBA", "* B is better", "Holm (Wilcoxon)"]),
    "compare grid": (["compare", "{grid}"], ["memory 50, optimizer lr 0.1"]),
    "reproduce": (
        ["reproduce", "table1", "--net", "slim", "--show", "--only-finished", "--out", "{results}/slim"],
        ["DER++ + CBA", "distance"],
    ),
    "ledger list": (["ledger", "list", "{grid}"], [*NAMES, "finished"]),
    "grid --list": (["grid", "{grid}.toml", "--out", "{grid}", "--list"], NAMES),
    "list": (["list"], ["fm_but_newest_two", "rand-augment"]),
    "list presets": (["list", "presets"], ["cba-joint-memory"]),
    "list presets text": (["list", "presets", "tiny-imagenet-offline"], ["paper/tiny-imagenet-offline-er-cba-64"]),
    "list methods": (["list", "methods"], ["alpha_plastic=0.999"]),
    "list settings": (["list", "settings"], ["optimizer.weight_decay"]),
    "list measures": (["list", "measures"], ["fm_classes"]),
    "data list": (["data", "list"], ["tiny-imagenet"]),
    "data show": (["data", "show", "digits"], ["5eb03e56a00e"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    from evenkeel.grids.execution import Execution
    from evenkeel.grids.grid_file import read_grid
    from evenkeel.grids.ledger import Ledger
    from evenkeel.grids.schedule import Grid

    folder = tmp_path_factory.mktemp("width") / "grid"
    file = folder.with_suffix(".toml")
    file.write_text(GRID)
    assert not Grid(Ledger(folder), read_grid(file), Execution(workers=0)).finish().failed
    return {"results": str(RESULTS), "grid": str(folder)}


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("case", COMMANDS)
def test_tables_fit_a_terminal(
    case: str,
    width: int,
    places: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments, shown = COMMANDS[case]
    monkeypatch.setattr(console.out, "_force_terminal", True)
    monkeypatch.setattr(console.out, "_width", width)
    code, out, errors = call(capsys, *(each.format(**places) for each in arguments))
    assert code == 0, errors
    plain = re.sub(r"\x1b\[[\d;]*m", "", out)
    assert [line for line in plain.splitlines() if cell_len(line) > width and not line.startswith("Searched in")] == []
    assert "…" not in plain
    assert [word for text in shown for word in text.split() if word not in plain] == []
