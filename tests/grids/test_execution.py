"""The options of many runs: one object for library and commands, and launchers by name."""

from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

import evenkeel as ek
from evenkeel.cli.console import EXECUTION
from evenkeel.errors import SettingsError
from evenkeel.grids.execution import Execution, cores
from evenkeel.grids.job import Job
from evenkeel.grids.launchers import LAUNCHERS, launcher_for
from evenkeel.grids.launchers.cluster import RayCluster
from evenkeel.grids.launchers.in_process import InProcess, Slices
from evenkeel.grids.launchers.processes import Processes
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.schedule import Grid
from tests.helpers.commands import call

GRID = """
[[blocks]]
base = "digits"
set = { limits = { train = 5 }, evaluation = { every = 0, alignment = 0 } }
"""


@pytest.mark.parametrize(
    ("execution", "launcher"),
    [
        (Execution(), Processes),
        (Execution(workers=3), Processes),
        (Execution(workers=0), InProcess),
        (Execution(workers=0, ray="auto"), RayCluster),
        (Execution(launcher="in-process"), InProcess),
        (Execution(workers=0, launcher="processes"), Processes),
    ],
)
def test_workers_and_ray_imply_a_launcher_unless_one_is_named(execution: Execution, launcher: type) -> None:
    assert launcher_for(execution) is launcher


def test_runs_divide_the_cores_of_this_machine() -> None:
    assert (Execution().at_once, Execution().threads) == (cores(), 1)
    assert (Execution(workers=1).at_once, Execution(workers=1).threads) == (1, cores())
    assert (Execution(workers=0).at_once, Execution(workers=0).threads) == (1, cores())
    assert Execution(workers=10 * cores()).threads == 1


def test_resources_are_read() -> None:
    assert Execution(resources="CPU=2, GPU=0.5,disk=3").needs == {"CPU": 2.0, "GPU": 0.5, "disk": 3.0}
    assert Execution(resources="GPU=1").needs == {"CPU": 1.0, "GPU": 1.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resources": "two"}, "resources='two' is not of the form CPU=2,GPU=0.5"),
        ({"resources": ""}, "is not of the form"),
        ({"resources": "CPU=0"}, "with CPU above 0"),
        ({"resources": "CPU=-1"}, "is not of the form"),
        ({"resources": "GPU=nan"}, "is not of the form"),
        ({"resources": "cpu=2"}, "'cpu'; Ray's own are 'CPU', 'GPU', 'memory'. Did you mean 'CPU'?"),
        ({"resources": "CPU=1,Gpus=1"}, "Did you mean 'GPU'?"),
        ({"workers": -1}, "workers=-1 must be a whole number of at least 0"),
        ({"save_every": -1.0}, "save_every=-1.0 must be"),
    ],
)
def test_errors_are_sentences(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Execution(**options)
    assert message in str(caught.value)


def test_commands_have_an_option_for_each_field() -> None:
    assert list(EXECUTION) == [field.name for field in fields(Execution)]


class Recorder(InProcess):
    """A launcher as a user may write one, which remembers what it was given."""

    executions: ClassVar[list[Execution]] = []
    jobs: ClassVar[list[Job]] = []

    def start(self, job: Job) -> Slices:
        self.executions.append(self.execution)
        self.jobs.append(job)
        return super().start(job)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> type[Recorder]:
    monkeypatch.setitem(LAUNCHERS, "recorder", Recorder)
    monkeypatch.setattr(Recorder, "executions", [])
    monkeypatch.setattr(Recorder, "jobs", [])
    return Recorder


def test_a_new_launcher_needs_only_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recorder: type[Recorder]
) -> None:
    """All options reach it in one object, and the job, from the command as from the library."""
    given = Execution(2, "far:1", "CPU=3,disk=1", tmp_path / "data", 7.0, "recorder", "cpu")
    config = ek.load_config("digits", ["limits.train=5", "evaluation.every=0", "evaluation.alignment=0"])
    Grid(Ledger(tmp_path / "library"), [config], given).finish()
    (tmp_path / "grid.toml").write_text(GRID)
    options = ["--workers", "2", "--ray", "far:1", "--resources", "CPU=3,disk=1", "--data", str(tmp_path / "data")]
    options += ["--save-every", "7", "--launcher", "recorder", "--out", str(tmp_path / "command")]
    options += ["--device", "cpu"]
    code, _, errors = call(capsys, "grid", str(tmp_path / "grid.toml"), *options)
    assert code == 0, errors
    assert recorder.executions == [given, given]
    for job, folder in zip(recorder.jobs, ["library", "command"], strict=True):
        assert (job.data, job.save_every) == (str(tmp_path / "data"), 7.0)
        assert job.ledger == str(tmp_path / folder)
        assert (job.config.threads, job.config.device) == (given.threads, "cpu")
        assert Ledger(tmp_path / folder).finished(job.key)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--launcher", "proceses"], "launcher='proceses' is not one of 'in-process', 'processes', 'ray'"),
        (["--launcher", "proceses"], "Did you mean 'processes'?"),
        (["--resources", "cpu=2"], "Did you mean 'CPU'?"),
        (["--device", "cdua"], "Did you mean 'cuda'?"),
        (["--device", "cuda:9"], "device='cuda:9' is not available: this machine has"),
    ],
)
def test_a_wrong_option_is_reported_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    code, _, errors = call(capsys, "grid", str(tmp_path / "grid.toml"), "--out", str(tmp_path / "ledger"), *options)
    assert code == 1
    assert message in errors.replace("\n", " ")
    assert not (tmp_path / "ledger").exists()


def test_options_are_the_same_for_all_commands_with_many_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    options = ["--workers", "--ray", "--resources", "--data", "--save-every", "--device"]
    lines = []
    for command in ("grid", "reproduce", "tune"):
        _, shown, _ = call(capsys, command, "--help")
        lines.append([line.split() for line in shown.splitlines() if any(f" {name} " in line for name in options)])
        assert "--launcher" not in shown
    assert len(lines[0]) == len(options)
    assert lines[0] == lines[1] == lines[2]


@pytest.mark.parametrize("here", [True, False])
def test_data_must_be_on_this_machine_only_if_runs_are(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    recorder: type[Recorder],
    here: bool,
) -> None:
    monkeypatch.delenv("EVENKEEL_DATA", raising=False)
    monkeypatch.setattr(recorder, "here", here)
    (tmp_path / "grid.toml").write_text("[[blocks]]\nbase = 'paper/cifar10-er'")
    options = ["--launcher", "recorder", "--data", str(tmp_path), "--out", str(tmp_path / "ledger")]
    code, _, errors = call(capsys, "grid", str(tmp_path / "grid.toml"), *options)
    assert code == 1
    assert "evenkeel data get cifar10" in errors
    assert len(recorder.jobs) == (not here)
    assert ("Failed: " in errors) == (not here)


def test_parallel_runs_share_the_gpus_they_may_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each gets the one with the fewest runs, unless its config chooses one, or none."""
    given = list[tuple[Job, str | None]]()

    class Started:
        def __init__(self, args: tuple[Job, str | None], **_: object) -> None:
            given.append(args)
            self.is_alive = lambda: len(given) != 4  # the first four have ended when the fifth starts

        def start(self) -> None: ...

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-7")
    launcher = Processes(Execution(workers=3))
    monkeypatch.setattr(launcher, "_context", SimpleNamespace(Process=Started))
    for device in ("auto", "cuda", "cuda", "cpu", "auto", "cuda:1"):
        config = ek.load_config("digits", [f"device={device}"])
        launcher.start(Job.of(config, Ledger(tmp_path), launcher.execution))
    assert [gpu for _, gpu in given] == ["5", "GPU-7", "5", None, "5", None]
