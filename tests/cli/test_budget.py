"""`--budget`: the commands with many runs do what fits into the time."""

from pathlib import Path

import pytest

from evenkeel.grids.ledger import Ledger
from tests.helpers.commands import call
from tests.helpers.grids import GRID

SLIM = Path(__file__).parents[2] / "results" / "slim"


def test_a_grid_does_what_fits_into_its_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text(GRID.replace("train = 40", "train = 5").replace("seeds = 2", "seeds = 1"))
    grid = ("grid", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "ledger"), "--workers", "0")
    code, listed, err = call(capsys, *grid, "--list", "--budget", "0.001s")
    assert code == 0, err
    assert listed.count("beyond the budget") == 4
    assert "4 runs, 0 finished. None of them fits into 0.001s." in listed
    code, _, err = call(capsys, *grid, "--budget", "0.001s")
    assert code == 0, err
    assert "4 of 4 runs did not fit into 0.001s. The shortest would take about 0:00:0" in err
    assert Ledger(tmp_path / "ledger").runs() == []
    code, _, err = call(capsys, *grid, "--budget", "5h")
    assert code == 0, err
    assert len(Ledger(tmp_path / "ledger").entries()) == 4


def test_a_single_run_is_spoken_of_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = tmp_path / "ledger"
    (tmp_path / "mine.toml").write_text('[[blocks]]\nbase = "digits"\nset = { "limits.train" = 5 }\n')
    grid = ("grid", str(tmp_path / "mine.toml"), "--out", str(ledger), "--workers", "0")
    for budget in ((), ("--budget", "1h")):
        code, listed, err = call(capsys, *grid, "--list", *budget)
        assert code == 0, err
        assert "1 run, 0 finished. The only one" in listed
        assert f"{'that fits into 1h' if budget else 'left'} will take about 0:0" in listed
    code, _, err = call(capsys, *grid, "--budget", "0.001s")
    assert code == 0, err
    assert "1 of 1 run did not fit into 0.001s" in err
    code, _, err = call(capsys, *grid)
    assert code == 0, err
    for command, expected in (
        (("ledger", "rebuild", str(ledger)), "The index has 1 finished run."),
        (("ledger", "export", str(ledger), "-o", str(tmp_path / "runs.csv")), "runs.csv has 1 run."),
    ):
        code, out, err = call(capsys, *command)
        assert code == 0, err
        assert expected in out


def test_runs_without_data_are_listed_last_and_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EVENKEEL_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    small = '[[blocks]]\nbase = "digits"\nset = { "limits.train" = 5 }\n'
    (tmp_path / "mine.toml").write_text(f'[[blocks]]\nbase = "paper/cifar10-er"\n{small}')
    grid = ("grid", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "ledger"), "--workers", "0")
    code, listed, err = call(capsys, *grid, "--list", "--budget", "1h")
    assert code == 0, err
    fits, lacks = (line for line in listed.splitlines() if "to do" in line)
    assert "data missing" not in fits
    assert "to do, data missing" in lacks
    assert "2 runs, 0 finished, 1 without data. The only one that fits into 1h will" in " ".join(listed.split())


def test_a_budget_that_is_no_time_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "reproduce", "figure1", "--budget", "soon", "--out", str(tmp_path / "ledger"))
    assert code != 0
    assert "such as 3h" in err
    assert not (tmp_path / "ledger").exists()


def test_a_budget_alone_is_for_the_whole_paper(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = call(capsys, "reproduce", "--out", str(tmp_path / "ledger"))
    assert code != 0
    assert "Say what to reproduce: table1, table2" in err
    assert "give only a --budget" in err
    for name in ("EVENKEEL_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    options = ("--seeds", "1", "--methods", "er", "--data-set", "cifar10", "--out", str(tmp_path / "ledger"))
    code, listed, err = call(capsys, "reproduce", "--list", *options)
    assert code == 0, err
    assert "evaluation every 5" in listed  # of figures, which have curves
    assert "scenario blurry" in listed  # of Table 3
    code, _, err = call(capsys, "reproduce", "--budget", "1h", *options)
    assert code != 0
    assert "The data set cifar10 is not in" in err
    assert "None of the runs has its data here." in err


def test_what_does_not_apply_is_refused_not_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slim = ("--net", "slim", "--out", str(SLIM))
    for options, expected in [
        (("claims", *slim, "--methods", "er", "--seeds", "1"), "--methods and --seeds cannot be given"),
        (("claims", *slim, "--format", "csv"), "--format cannot be given"),
        (("claims", *slim, "--list"), "--list cannot be given"),
        (("figure3", *slim, "--show", "--format", "csv"), "--format cannot be given"),
        (("table1", *slim, "--show", "--budget", "foo"), "--show runs nothing: --budget cannot be given"),
        (("claims", "--out", str(SLIM)), "net full; with --net slim there is"),
        (("claims", "--net", "slim", "--out", str(tmp_path)), "no method of the paper is finished"),
    ]:
        code, out, err = call(capsys, "reproduce", *options)
        assert (code, out) == (1, ""), options
        assert expected in err


def test_claims_are_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slim = ("reproduce", "claims", "--net", "slim", "--out", str(SLIM))
    _, printed, _ = call(capsys, *slim)
    code, _, err = call(capsys, *slim, "-o", str(tmp_path / "claims.md"))
    assert code == 0, err
    assert (tmp_path / "claims.md").read_text(encoding="utf-8") == printed
