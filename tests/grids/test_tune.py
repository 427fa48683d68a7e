"""Search: seeded, exact when resumed, blind to the test data and to the later tasks."""

import tomllib
from pathlib import Path

import pytest

from evenkeel.errors import SettingsError
from evenkeel.experiment.config import load_config
from evenkeel.grids.execution import Execution
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.schedule import Grid
from evenkeel.grids.tune import FIRST_SEED, Search, Tried
from tests.helpers.commands import call

pytest.importorskip("optuna", reason="Optuna is an extra: pip install 'evenkeel[tune]'")

FILE = """
base = "digits"
tasks = 2
trials = 5
together = 2
seeds = 2
[set]
threads = 1
"limits.train" = 10
"limits.test" = 20
"net.width" = 4
evaluation = { every = 0, alignment = 0 }
[space]
"optimizer.lr" = { low = 0.001, high = 1.0, log = true }
"memory.capacity" = { low = 5, high = 50 }
"adaptor" = [{ name = "none" }, { name = "cba", hidden = [8] }]
"""


def search(folder: Path, text: str = FILE, stop: int | None = None) -> list[Tried]:
    """Run a search, interrupted before round number `stop`, as by a kill."""
    path = folder.with_suffix(".toml")
    path.write_text(text)
    rounds: list[str] = []

    def do(what: str, grid: Grid) -> None:
        if len(rounds) == stop:
            raise KeyboardInterrupt
        rounds.append(what)
        grid.finish()

    return Search(path).go(Ledger(folder), Execution(workers=0), do)


def test_an_interrupted_search_finds_the_same_as_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = search(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "stopped", stop=2)
    done = len(Ledger(tmp_path / "stopped").entries())
    assert 0 < done < 10
    assert search(tmp_path / "stopped") == whole
    assert len(Ledger(tmp_path / "stopped").entries()) == len(Ledger(tmp_path / "whole").entries())
    assert [each.value for each in whole] == sorted((each.value or 0 for each in whole), reverse=True)
    assert len({str(each.settings) for each in whole}) == 5
    other = search(tmp_path / "other", FILE.replace("trials = 5", "trials = 2\nseed = 1"))
    assert other[0].settings != whole[0].settings


def test_only_first_tasks_held_out_samples_and_seeds_of_its_own(tmp_path: Path) -> None:
    for tried in search(tmp_path / "one", FILE.replace("trials = 5", "trials = 2")):
        assert [config.seed for config in tried.configs] == [FIRST_SEED, FIRST_SEED + 1]
        for config in tried.configs:
            assert (config.limits.tasks, config.limits.held_out) == (2, 0.1)
            assert 5 <= int(config.memory.capacity) <= 50
            assert 0.001 <= config.optimizer.lr <= 1.0
            assert (config.adaptor or {"hidden": [8]})["hidden"] == [8]


def test_runs_that_fail_do_not_end_the_search(tmp_path: Path) -> None:
    text = FILE.replace("{ low = 0.001, high = 1.0, log = true }", "[0.05, 1e30]").replace("seeds = 2", "seeds = 1")
    tried = search(tmp_path / "failing", text)
    values = {each.settings["optimizer.lr"]: each.value for each in tried}
    assert values[1e30] is None
    assert values[0.05] is not None
    assert tried[0].settings["optimizer.lr"] == 0.05
    assert tried[-1].value is None


def test_the_command_writes_a_config_for_the_whole_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, folder = tmp_path / "tune.toml", tmp_path / "ledger"
    path.write_text(FILE.replace("trials = 5", "trials = 2").replace("seeds = 2", "seeds = 1"))
    code, shown, errors = call(capsys, "tune", str(path), "--out", str(folder), "--workers", "0")
    assert code == 0, errors
    assert "Best first: 2 trials" in shown
    assert "{" not in shown  # parts are named
    config = load_config(folder / "best.toml")
    assert config.limits.tasks is None
    assert config.limits.held_out is None
    assert config.seed == 0
    assert tomllib.loads((folder / "best.toml").read_text())["optimizer"]["lr"] == config.optimizer.lr


def test_a_measure_that_is_not_measured_is_reported(tmp_path: Path) -> None:
    text = FILE.replace("seeds = 2", 'seeds = 1\nmeasure = "acc_auc"').replace("trials = 5", "trials = 1")
    with pytest.raises(SettingsError, match="'acc_auc' is not measured in these runs"):
        search(tmp_path / "one", text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("low = 0.001", "low = 2.0", "is not a valid range"),
        ('"optimizer.lr"', '"optimizer.rate"', "optimizer.rate is unknown"),
        ("seeds = 2", 'seeds = 2\nmeasure = "acc_au"', "Did you mean 'acc_auc'"),
        ("seeds = 2", 'seeds = 2\nmeasure = "recency_bias"', "neither higher nor lower is better"),
        ("trials = 5", "trials = 0", "trials"),
        ("high = 1.0", "high = inf", "is not a valid range"),
        ("low = 0.001", "low = true", "space.optimizer.lr"),
        ("seeds = 2", "seeds = 2\nseed = -1", "seed"),
        ("tasks = 2", 'tasks = 1\nmeasure = "fm"', "needs at least two tasks"),
        ('"memory.capacity"', '"seed"', "seeds = "),
        ('"memory.capacity"', '"limits.tasks"', "use tasks and held_out instead"),
        ('{ name = "cba", hidden = [8] }', '{ name = "cba", hiden = [8] }', "Did you mean 'hidden'"),
        ("low = 5, high = 50", "low = 0, high = 50", "memory.capacity = 0"),
        ("tasks = 2", "task = 2", "task"),
        ('base = "digits"', 'base = "digitz"', "Did you mean 'digits'"),
    ],
)
def test_errors_are_reported_before_any_work(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        search(tmp_path / "faulty", FILE.replace(old, new), stop=0)
