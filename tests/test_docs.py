"""The documents: their tables equal the ledgers they are made from, and their TOML files can be read as they are."""

import re
from pathlib import Path

import pytest

from docs import fill
from evenkeel.grids.grid_file import read_grid
from evenkeel.grids.tune import Search

ROOT = Path(__file__).parents[1]


LARGE = [pytest.param("tilt", marks=pytest.mark.slow)]  # made from a thousand runs


@pytest.mark.parametrize("name", ["README", "experiments", "keel", "measures", "reproduction", "service", *LARGE])
def test_what_a_page_shows_equals_the_ledgers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (page,) = (each for each in fill.PAGES if each.stem == name)
    text = page.read_text(encoding="utf-8")
    assert text.count("<!-- end -->") >= 1
    assert fill.filled(text) == text, f"{page.name}: run `make docs`"
    figures = [each for each in fill.FIGURES if f"{each}-light.svg" in text]
    for file, svg in (image for each in figures for image in fill.image(each).items()):
        assert (fill.IMAGES / file).read_text(encoding="utf-8") == svg, f"{file}: run `make docs`"


def test_every_page_and_figure_is_compared_with_the_ledgers() -> None:
    assert [page.stem for page in fill.PAGES] == [
        "README",
        "experiments",
        "keel",
        "measures",
        "reproduction",
        "service",
        "tilt",
    ]
    shown = "".join(page.read_text(encoding="utf-8") for page in fill.PAGES)
    assert [figure for figure in fill.FIGURES if f"{figure}-light.svg" not in shown] == []


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
