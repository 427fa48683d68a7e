"""Grids: what is run, in which order, and what happens when runs fail, die, or belong to another grid."""

from pathlib import Path
from typing import ClassVar

import pytest

import evenkeel as ek
from evenkeel.errors import RunError, SettingsError
from evenkeel.experiment.run_folder import RunFolder
from evenkeel.grids.execution import Execution
from evenkeel.grids.grid_file import read_grid
from evenkeel.grids.job import Job
from evenkeel.grids.launchers import LAUNCHERS
from evenkeel.grids.launchers.base import Launcher, Working
from evenkeel.grids.launchers.in_process import InProcess
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.run_names import run_key
from evenkeel.grids.schedule import PATIENCE, Grid

SMALL = ["limits.train=5", "evaluation.every=0", "evaluation.alignment=0", "threads=1"]
HERE = Execution(workers=0, save_every=0)


def digits(*overrides: str) -> ek.Config:
    return ek.load_config("digits", [*SMALL, *overrides])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failed_run_is_recorded_and_the_others_continue(tmp_path: Path, workers: int) -> None:
    configs = [digits("seed=1"), digits("optimizer.lr=1e30"), digits("seed=2")]
    good, bad, other = map(run_key, configs)
    grid = Grid(Ledger(tmp_path), configs, Execution(workers)).finish()
    assert sorted(grid.finished) == sorted([good, other])
    assert list(grid.failed) == [bad]
    assert "finite" in grid.failed[bad]
    assert [failure.error for failure in grid.ledger.failures(bad)] == [grid.failed[bad]]
    before = (grid.ledger.folder(good) / "usage.jsonl").read_text()
    again = Grid(Ledger(tmp_path), configs, Execution(workers)).finish()
    assert len(again.ledger.failures(bad)) == 2  # it is tried again
    assert (grid.ledger.folder(good) / "usage.jsonl").read_text() == before  # the others are not


class Mortal(Launcher):
    """A launcher whose runs die at once without an error until they have been started `deaths` times."""

    deaths = 0
    started: ClassVar[list[str]] = []

    def start(self, job: Job) -> Working:
        self.started.append(job.key)
        return Dead() if self.started.count(job.key) <= self.deaths else InProcess(self.execution).start(job)


class Dead:
    def at_work(self) -> bool:
        return False

    def stop(self) -> None:
        pass


@pytest.mark.parametrize("deaths", [PATIENCE - 1, PATIENCE])
def test_restarts_of_killed_runs_are_limited(tmp_path: Path, deaths: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LAUNCHERS, "mortal", Mortal)
    monkeypatch.setattr(Mortal, "deaths", deaths)
    monkeypatch.setattr(Mortal, "started", [])
    grid = Grid(Ledger(tmp_path), [digits()], Execution(launcher="mortal")).finish()
    assert len(Mortal.started) == PATIENCE
    assert len(grid.finished) == (deaths < PATIENCE)
    if deaths == PATIENCE:
        assert "5 times without an error message" in grid.failed[run_key(digits())]
        assert grid.ledger.failures(run_key(digits()))


def test_a_run_that_another_process_works_on_is_left_to_it(tmp_path: Path) -> None:
    mine, theirs = digits("seed=1"), digits("seed=2")
    ledger = Ledger(tmp_path)
    held = RunFolder(ledger.folder(run_key(theirs)))
    grid, looks = Grid(ledger, [theirs, mine], HERE), 0
    for now in grid.go():
        if run_key(mine) in now.finished:  # the other one did not block it
            assert run_key(theirs) not in now.working or looks
            held.close()
            looks += 1
    assert looks
    assert sorted(grid.finished) == sorted([run_key(mine), run_key(theirs)])


def test_leaving_the_loop_stops_what_is_at_work(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    grid = Grid(ledger, [digits("limits.train=100")], Execution(workers=1, save_every=0))
    looking = grid.go()
    for now in looking:
        if any(now.steps.values()):
            break
    looking.close()  # type: ignore[attr-defined]
    (key,) = grid.runs
    assert not ledger.busy(key)
    assert not ledger.finished(key)


def test_launchers_give_equal_records(tmp_path: Path) -> None:
    configs = [digits("adaptor.name=cba", "method.name=derpp"), digits("method.name=clser")]
    for name, workers in {"here": 0, "there": 2}.items():
        Grid(Ledger(tmp_path / name), configs, Execution(workers)).finish()
    for key in map(run_key, configs):
        here, there = (Ledger(tmp_path / name).folder(key) / "records.jsonl" for name in ("here", "there"))
        assert here.read_bytes() == there.read_bytes()


@pytest.mark.parametrize("limit", ["limits.tasks=2", "limits.train=3", "limits.held_out=0.25"])
def test_finished_runs_on_a_file_that_has_changed_since_are_refused(tmp_path: Path, limit: str) -> None:
    file, ledger = tmp_path / "mine.csv", Ledger(tmp_path / "ledger")
    rows = [f"{row % 7},{row % 5},{'cat' if row % 2 else 'dog'}" for row in range(40)]
    table = {"data": {"name": "csv", "path": str(file)}, "scenario": {"name": "disjoint", "tasks": 2}}
    parts = {"net": {"name": "mlp", "hidden": [4]}, "evaluation": {"every": 0, "alignment": 0}, "threads": 1}
    runs = [ek.load_config({**table, **parts}, [f"seed={seed}", limit]) for seed in range(2)]
    file.write_text("\n".join(["a,b,kind", *rows]))
    Grid(ledger, runs, HERE).finish()
    assert len(Grid(ledger, runs, HERE).finish().finished) == 2
    file.write_text("\n".join(["a,b,kind", *rows[2:], *rows[:2]]))
    first = str(ledger.place(run_key(runs[0])))
    with pytest.raises(RunError, match=f"had other data than is in '{file}' now: '{first}'.*another folder with --out"):
        Grid(ledger, runs, HERE).finish()
    file.unlink()  # results can be shown where the data is not
    Grid(ledger, runs, HERE).finish()


def test_grid_files(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("extends = 'digits'\nseed = 9\n[memory]\ncapacity = 33\n")
    path = tmp_path / "grid.toml"
    path.write_text(
        """
        seeds = [3, 5]
        [[blocks]]
        base = "own"
        set = { "limits.train" = 5, evaluation = { every = 0 } }
        vary = { "learner.repeats" = [1, 3], "adaptor.name" = ["none", "cba"] }
        [[blocks]]
        base = "own"
        vary = { "method.name" = ["finetune"] }
        """
    )
    found = read_grid(path)
    assert [(each.name, each.seed) for each in found] == [
        (name, seed)
        for seed in (3, 5)
        for name in ("ER", "ER + CBA", "RAR(ER)", "RAR(ER) + CBA", "Finetune (lower bound)")
    ]
    assert {each.memory.capacity for each in found} == {33}
    assert found[0].limits.train == 5
    assert found[2].learner.repeats == 3
    assert found[4].limits.train is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeds = 0\n[[blocks]]\nbase = 'digits'", "seeds"),
        ("seeds = 2", r"- blocks is missing\."),
        ("[[blocks]]\nbase = 'digit'", "Did you mean 'digits'"),
        ("[[blocks]]\nbase = 'digits'\nvary = { 'method.name' = [] }", "method.name"),
        (
            "[[blocks]]\nbase = 'digits'\nvary = { 'method.name' = ['er', 'finetune'], 'adaptor.name' = ['cba'] }",
            r"With method.name = 'finetune', adaptor.name = 'cba'",
        ),
        (
            "[[blocks]]\nbase = 'digits'\nvarry = { }",
            "varry is unknown; choose from base, set, vary. Did you mean 'vary'",
        ),
        ("[[block]]\nbase = 'digits'", "- block is unknown; choose from seeds, blocks. Did you mean 'blocks'"),
        ("blocks = [3]", "- blocks.0 = 3 is not a table"),
        ("[[blocks]]\nbase = 'digits'\nvary = { 'method.nme' = ['er'] }", "Did you mean 'name'"),
        ("[[blocks]]\nbase = 'digits'\nset = { seed = 7 }", "seeds = "),
        ("[[blocks]]\nbase = 'digits'\nvary = { seed = [1, 2] }", "seeds = "),
        ("[[blocks]]\nbase = 'digits'\nvary = { '' = [1] }", "is not the name of a setting"),
        ("seeds = 'many'\n[[blocks]]\nbase = 'digits'", r"- seeds: input should be a valid integer\."),
        ("[[blocks", "not a TOML file"),
    ],
)
def test_errors_in_grid_files_are_reported(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "grid.toml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        read_grid(tmp_path / "grid.toml")
    with pytest.raises(SettingsError, match="Cannot read"):
        read_grid(tmp_path / "absent.toml")


def test_a_grid_called_like_its_base_is_not_its_base(tmp_path: Path) -> None:
    (tmp_path / "digits.toml").write_text("[[blocks]]\nbase = 'digits'")
    assert read_grid(tmp_path / "digits.toml")[0].data["name"] == "digits"


def test_an_error_of_many_combinations_is_reported_once(tmp_path: Path) -> None:
    text = "[[blocks]]\nbase = 'digits'\nvary = { 'memory.capacity' = [1, 2, 3], 'optimizer.lr' = [-1] }"
    (tmp_path / "grid.toml").write_text(text)
    with pytest.raises(SettingsError, match="and 2 other combinations") as caught:
        read_grid(tmp_path / "grid.toml")
    assert str(caught.value).count("optimizer.lr") == 2  # what was given, and what is wrong with it


def test_threads_do_not_make_another_run(tmp_path: Path) -> None:
    """A grid restarted with other workers finds its runs, and resumes them with the threads they began with."""
    records = ek.run(digits(), out=tmp_path, save_every=0)
    for record in records:
        if record.kind == "step":
            break
    records.close()  # type: ignore[attr-defined]
    done = list(ek.run(digits("threads=2"), out=tmp_path))
    assert done[0].threads == 1  # type: ignore[union-attr]
    assert done == list(ek.run(digits()))
