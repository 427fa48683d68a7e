"""Tables and help on a terminal: no line is wider than it, and nothing is cut off."""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
import typer
from rich.cells import cell_len
from rich.color import ColorSystem
from typer.core import TyperGroup

from evenkeel import cli
from evenkeel.cli import console
from tests.helpers.commands import call

RESULTS = Path(__file__).parents[2] / "results"
GRID = """
seeds = 1
[[blocks]]
base = "digits"
vary = { "memory.capacity" = [20, 50], "optimizer.lr" = [0.03, 0.1], "adaptor.name" = ["none", "cba"] }
[blocks.set]
"limits.train" = 2
"limits.test" = 2
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
        ["reproduce", "table1", "--methods=derpp", "--net=slim", "--show", "--only-finished", "--out={results}/slim"],
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


@pytest.mark.parametrize("case", COMMANDS)
def test_tables_fit_a_terminal(
    case: str, places: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, shown = COMMANDS[case]
    monkeypatch.setattr(console.out, "_force_terminal", True)
    monkeypatch.setattr(console.out, "_color_system", ColorSystem.STANDARD)  # titles are in italics

    def output(width: int) -> str:
        monkeypatch.setattr(console.out, "_width", width)
        code, out, errors = call(capsys, *(each.format(**places) for each in arguments))
        assert code == 0, errors
        return out

    wide = output(10_000)
    assert [text for text in shown if text not in plain(wide)] == []
    for width in (80, 60):
        narrow = output(width)
        lines = [line for line in plain(narrow).splitlines() if not line.startswith("Searched in")]
        assert [line for line in lines if cell_len(line) > width] == []
        assert "…" not in plain(narrow)
        assert columns(narrow) == columns(wide)


def plain(output: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", output)


def columns(output: str) -> list[str]:
    """Return what the distinct columns of all tables contain from top to bottom, without the spaces.

    So it is the same however a table is folded: columns that continue below, next to the same names, come later.
    """
    lines = ["" if "\x1b[3m" in line or "\x1b[2;3m" in line else plain(line) for line in output.splitlines()]
    tables = [list(table) for is_text, table in groupby(lines, key=bool) if is_text]
    contents = (each for table in tables if any(map(is_rule, table)) for each in columns_of(table))
    return list(dict.fromkeys(contents))


def is_rule(line: str) -> bool:
    return {*line} == {"─"}


def columns_of(table: list[str]) -> Iterator[str]:
    """Yield the contents of each column: columns are apart where no line has a letter twice in succession."""
    lines = [line for line in table if not is_rule(line)]
    ink = "".join("x" if any(line[k : k + 1].strip() for line in lines) else " " for k in range(max(map(len, lines))))
    for found in re.finditer(r"\S+( \S+)*", ink):
        yield "".join("".join(line[found.start() : found.end()].split()) for line in lines)


def commands(command: object, *names: str) -> Iterator[tuple[str, ...]]:
    """Yield the names of a command and those below it."""
    yield names
    for name, each in command.commands.items() if isinstance(command, TyperGroup) else ():
        yield from commands(each, *names, name)


ALL = list(commands(typer.main.get_command(cli.app)))


@pytest.mark.parametrize("names", ALL, ids=[" ".join(["evenkeel", *names]) for names in ALL])
def test_help_fits_a_terminal(
    names: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def output(width: int) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        code, out, errors = call(capsys, *names, "--help")
        assert code == 0, errors
        return plain(out)

    narrow = output(80)
    assert max(map(cell_len, narrow.splitlines())) <= 80
    assert "…" not in narrow
    assert "╭─ Options " in narrow  # in panels
    assert sorted(words(narrow)) == sorted(words(output(1000)))


def words(help: str) -> list[str]:
    return re.findall(r"[^\s│╭╮╰╯─]+", help)
