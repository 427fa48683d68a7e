"""`--budget`: the commands with many runs do what fits into the time."""

from pathlib import Path

import pytest

from evenkeel.grids.ledger import Ledger
from tests.helpers.commands import call
from tests.helpers.grids import GRID


def test_a_grid_does_what_fits_into_its_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text(GRID.replace("train = 40", "train = 5").replace("seeds = 2", "seeds = 1"))
    grid = ("grid", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "ledger"), "--workers", "0")
    code, listed, err = call(capsys, *grid, "--list", "--budget", "0.001s")
    assert code == 0, err
    assert listed.count("beyond the budget") == 4
    code, _, err = call(capsys, *grid, "--budget", "0.001s")
    assert code == 0, err
    assert "4 of 4 runs did not fit into 0.001s" in err
    assert Ledger(tmp_path / "ledger").runs() == []
    code, _, err = call(capsys, *grid, "--budget", "5h")
    assert code == 0, err
    assert len(Ledger(tmp_path / "ledger").entries()) == 4


def test_a_budget_that_is_no_time_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "reproduce", "figure1", "--budget", "soon", "--out", str(tmp_path / "ledger"))
    assert code != 0
    assert "such as 3h" in err
    assert not (tmp_path / "ledger").exists()
