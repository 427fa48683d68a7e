"""Estimates of the time of runs, by a clock that stands still and batches that take a fixed time."""

import json
from pathlib import Path

import pytest
import torch

import evenkeel as ek
from evenkeel.data.dataset import Progress
from evenkeel.errors import SettingsError
from evenkeel.experiment.setup import Setup, planned
from evenkeel.grids import estimate
from evenkeel.grids.estimate import Estimator
from evenkeel.grids.execution import Execution
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.run_names import run_key
from evenkeel.grids.schedule import Grid
from evenkeel.results.run_files import USAGE

HERE = Execution(workers=0)
SMALL = ["limits.train=2", "limits.test=2", "evaluation.every=0", "evaluation.alignment=0"]

TIME = estimate._time


def digits(*overrides: str) -> ek.Config:
    return ek.load_config("digits", [*SMALL, *overrides])


@pytest.fixture(autouse=True)
def _still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_time", lambda *_: (0.01, 0.002))
    monkeypatch.setattr(estimate, "perf_counter", lambda: 0.0)


def finished(folder: Path, *runs: tuple[ek.Config, float]) -> Ledger:
    """Return a ledger in which these runs are finished and took so many seconds."""
    ledger = Ledger(folder)
    assert not Grid(ledger, [config for config, _ in runs], HERE).finish().failed
    for config, seconds in runs:
        usage = ledger.folder(run_key(config)) / USAGE
        lines = [json.loads(line) for line in usage.read_text().splitlines()]
        usage.write_text("".join(json.dumps({**line, "seconds": seconds}) + "\n" for line in lines))
    return ledger


def test_estimates_grow_with_the_work(tmp_path: Path) -> None:
    estimator = Estimator(Ledger(tmp_path), HERE)
    er, more, often = digits(), digits("limits.train=30"), digits("learner.repeats=7")
    assert estimator.steps(more) == 6 * estimator.steps(er) > 0
    assert estimator.seconds(more) > 3 * estimator.seconds(er) > 0
    assert estimator.seconds(often) > 3 * estimator.seconds(er)
    assert estimator.seconds(digits("seed=5")) == estimator.seconds(er)
    assert estimator.seconds(digits("net.name=mlp", "net.hidden=[4]")) > 0  # settings may be lists
    with pytest.raises(SettingsError, match="boundaries"):
        estimator.seconds(digits("method.name=ss_il", "scenario.name=gradual", "scenario.tasks=5"))


def test_batches_are_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_time", TIME)
    ticks = iter(range(10**6))
    monkeypatch.setattr(estimate, "perf_counter", lambda: float(next(ticks)))
    assert Estimator(Ledger(tmp_path), HERE).seconds(digits()) > 1 + 2 * 5


def test_threads_that_wait_for_each_other_are_not_taken_at_their_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "_time", TIME)
    before = torch.get_num_threads()

    def fastest(_: object) -> float:
        return 0.01 if torch.get_num_threads() == 1 else 5.0  # as on a machine whose cores are busy

    monkeypatch.setattr(estimate, "_fastest", fastest)
    one, two = (Estimator(Ledger(tmp_path), HERE).seconds(digits(f"threads={threads}")) for threads in (1, 2))
    assert one == two > 0
    assert torch.get_num_threads() == before


def test_other_seeds_take_as_long_as_the_median_of_the_finished_ones(tmp_path: Path) -> None:
    seeds = [(digits(f"seed={seed}"), seconds) for seed, seconds in enumerate((100.0, 700.0, 200.0))]
    assert Estimator(finished(tmp_path, *seeds), HERE).seconds(digits("seed=9")) == 200


def test_of_two_finished_seeds_the_faster_counts_and_lost_usage_does_not(tmp_path: Path) -> None:
    runs = [(digits(f"seed={seed}"), seconds) for seed, seconds in enumerate((5000.0, 1200.0, 1.0))]
    ledger = finished(tmp_path, *runs)
    (ledger.folder(run_key(runs[2][0])) / USAGE).unlink()
    assert Estimator(ledger, HERE).seconds(digits("seed=9")) == 1200


def test_more_threads_take_at_most_as_long(tmp_path: Path) -> None:
    slower = (digits("limits.train=3"), 500.0)  # by its ratio the others would take longer
    one = Estimator(finished(tmp_path / "one", (digits("threads=1"), 0.001), slower), HERE)
    assert one.seconds(digits("threads=2")) == one.seconds(digits("threads=1", "seed=3")) == 0.001
    two = Estimator(finished(tmp_path / "two", (digits("threads=2"), 0.001), slower), HERE)
    assert two.seconds(digits("threads=1")) > 0.001  # fewer threads may take longer


@pytest.mark.parametrize("other", ["another kind", None])
def test_runs_on_another_or_an_unknown_kind_of_machine_say_nothing(other: str | None, tmp_path: Path) -> None:
    runs = [(digits(f"seed={seed}"), seconds) for seed, seconds in enumerate((5000.0, 5001.0, 70.0))]
    ledger = finished(tmp_path, *runs)
    assert Estimator(ledger, HERE).seconds(digits("seed=9")) == 5000
    for config, _ in runs[:2]:
        usage = ledger.folder(run_key(config)) / USAGE
        lines = [json.loads(line) for line in usage.read_text().splitlines()]
        usage.write_text("".join(json.dumps({**line, "machine": other}) + "\n" for line in lines))
    assert Estimator(ledger, HERE).seconds(digits("seed=9")) == 70


def test_other_settings_are_estimated_by_the_ratio_of_real_to_computed_seconds(tmp_path: Path) -> None:
    new, on_another_net = digits("learner.repeats=5"), digits("net.name=mlp", "net.hidden=[4]")
    alone = Estimator(Ledger(tmp_path / "none"), HERE)
    known = [digits(), digits("method.name=derpp"), digits("limits.train=4")]
    runs = [(each, alone.seconds(each) * ratio) for each, ratio in zip(known, (2, 30, 4), strict=True)]
    learned = Estimator(finished(tmp_path / "some", *runs), HERE)
    assert learned.seconds(new) == pytest.approx(4 * alone.seconds(new))
    assert learned.seconds(on_another_net) == alone.seconds(on_another_net)
    assert [learned.seconds(each) for each in known] == [pytest.approx(seconds) for _, seconds in runs]


@pytest.mark.parametrize("decoded", [True, False])
def test_data_is_read_once_and_once_more_only_if_it_had_to_be_decoded(
    decoded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    def read(config: ek.Config, own: None, root: Path | None, progress: Progress) -> Setup:
        reads.append(config)
        if not decoded and len(reads) == 1:
            progress("Decoding", 1, 2)
        return planned(config, own, root, progress)

    monkeypatch.setattr(estimate, "planned", read)
    seconds = iter(range(0, 1000, 7))
    monkeypatch.setattr(estimate, "perf_counter", lambda: float(next(seconds)))
    estimator = Estimator(Ledger(tmp_path), HERE)
    one, other = estimator.seconds(digits()), estimator.seconds(digits("method.name=finetune"))
    assert len(reads) == (1 if decoded else 2)
    assert [one > 7, other > 7] == [True, True]  # the seconds of one reading are part of each run
