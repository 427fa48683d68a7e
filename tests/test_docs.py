"""The documents: their tables equal the ledgers they are made from, and their TOML files can be read as they are."""

import importlib.util
import re
from pathlib import Path

import pytest

from evenkeel.grids.grid_file import read_grid
from evenkeel.grids.tune import Search

ROOT = Path(__file__).parents[1]


def test_the_tables_of_the_reproduction_equal_the_ledgers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    spec = importlib.util.spec_from_file_location("fill", ROOT / "docs" / "fill.py")
    assert spec is not None
    assert spec.loader is not None
    fill = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fill)
    pages = {page: page.read_text(encoding="utf-8") for page in fill.PAGES}
    assert sum(text.count("<!-- end -->") for text in pages.values()) >= 10
    for page, text in pages.items():
        assert fill.filled(text) == text, f"{page.name}: run `make docs`"
    for name, svg in fill.images().items():
        assert (fill.IMAGES / name).read_text(encoding="utf-8") == svg, f"{name}: run `make docs`"


def test_the_search_in_the_docs_is_valid(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    (block,) = (each for each in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[space]" in each)
    (tmp_path / "space.toml").write_text(block)
    assert Search(tmp_path / "space.toml").file.trials == 20


@pytest.mark.parametrize(
    ("name", "runs"), [("prior-digits", 2 * 3 * 7 * 10), ("prior-clinc150", 2 * 7 * 5), ("streams-digits", 7 * 4 * 10)]
)
def test_the_grids_of_tilt_are_valid(name: str, runs: int) -> None:
    assert len(read_grid(ROOT / "examples" / "tilt" / f"{name}.toml")) == runs


def test_the_grid_of_the_digits_is_valid() -> None:
    assert len(read_grid(ROOT / "results" / "digits.toml")) == 2 * 7 * 10
