"""README and docs as a newcomer uses them: each block in a fresh interpreter, each command in a fresh shell."""

import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

import evenkeel as ek
from evenkeel.grids.grid_file import read_grid
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.run_names import run_key
from evenkeel.report.answer import findings
from evenkeel.report.scene import Scene
from evenkeel.results.measures import MEASURES
from tests.helpers.pages import ROOT, Block, blocks, run_block, run_command

PAGES = ("README.md", "docs/learner.md", "docs/keel.md", "docs/data.md", "docs/experiments.md")
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page, "python"), 1)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_runs_as_pasted(block: Block, tmp_path: Path) -> None:
    run_block(block, tmp_path, fresh=block in blocks("README.md", "python"))


def commands() -> list[str]:
    """Return the commands of the README's table of what one can do, except for the one that never ends."""
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## What you can do")[2].partition("\n## ")[0]
    found = re.findall(r"^\| \w+ \| `(evenkeel [^`]+)`", table, re.MULTILINE)
    assert len(found) == 7
    return [each for each in found if not each.startswith("evenkeel serve")]


@pytest.fixture
def with_files(tmp_path: Path) -> Path:
    """A folder with what the commands read: photos, and our results."""
    shutil.copytree(ROOT / "results", tmp_path / "results", ignore=shutil.ignore_patterns("digits"))
    for number, label in enumerate(["cat", "dog"] * 4):
        folder = tmp_path / "photos" / label
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 7), (30 * number, 0, 0)).save(folder / f"{number}.png")
    return tmp_path


@pytest.mark.parametrize("command", commands())
def test_a_command_runs(command: str, with_files: Path) -> None:
    run_command(command, with_files)


FRESH = [pytest.param(each, marks=[] if " data show " in each else [pytest.mark.slow]) for each in commands()]


@pytest.mark.parametrize("command", FRESH)
def test_a_command_runs_in_a_fresh_shell(command: str, with_files: Path) -> None:
    run_block(Block("sh", command, None), with_files)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


def test_the_files_of_the_docs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    tables = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    block, grid = tables[0], next(table for table in tables if "[[blocks]]" in table)
    (tmp_path / "mine.toml").write_text(block)
    (tmp_path / "grid.toml").write_text(grid)
    assert len(read_grid(tmp_path / "grid.toml")) == 2 * 2 * 2 * 5
    config = ek.load_config(tmp_path / "mine.toml")
    assert config.name == "DER++ + CBA"
    assert config.optimizer.lr == 0.03  # from the preset that it extends
    assert config.scenario is not None
    assert config.scenario["percent"] == 10


def test_the_first_gain_of_the_demo_is_significant_or_the_readme_says_that_it_is_not() -> None:
    ledger = Ledger(ROOT / "results" / "demo")
    (sentence,) = findings(Scene(ledger.results(ledger.runs())), [MEASURES["acc"]])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert sentence.endswith("(10 seeds): ACC got better.") != ("ACC is not significant" in readme)


def test_the_grid_of_the_demo_is_that_of_its_ledger() -> None:
    keys = {run_key(config) for config in read_grid(ROOT / "examples" / "digits.toml")}
    assert keys == set(Ledger(ROOT / "results" / "demo").runs())
