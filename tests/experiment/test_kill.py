"""Runs that are killed at any moment: no record is lost or repeated."""

import json
import random
import signal
import time
from functools import partial
from pathlib import Path

import pytest

import evenkeel as ek
from evenkeel.results.records import to_line
from evenkeel.results.run_files import RECORDS
from tests.helpers.experiments import DATA, config
from tests.helpers.grids import same_runs
from tests.helpers.moments import Moments
from tests.helpers.processes import finish, send, start, wait_for

SMALL = ["--set", "limits.train=30", "--set", "limits.test=20", "--set", "net.width=4"]
COMMAND = ["run", "digits-cba", "--set", "method.name=derpp", *SMALL, "--save-every", "0.1"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an undisturbed run."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert finish([*COMMAND, "--out", str(folder / "run")], folder / "log") == 0, (folder / "log").read_text()
    return folder / "run"


def test_a_run_resumes_from_whatever_a_kill_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = config("evaluation.every=4", method={"name": "derpp"}, adaptor={"name": "cba", "every": 1, "hidden": [8]})
    # There are seven moments around each checkpoint; five is no divisor of seven, so all of them come.
    moments = Moments(tmp_path / "whole", tmp_path / "killed", step=5)
    with monkeypatch.context() as patch:
        moments.watch(patch)
        records = list(map(to_line, ek.run(one, data=DATA, out=tmp_path / "whole", save_every=0)))
    assert len(moments.left) > 10
    for folder, _ in moments.left:
        assert list(map(to_line, ek.run(one, data=DATA, out=folder))) == records, folder
        same_runs(folder, tmp_path / "whole")


def test_the_command_resumes_after_each_signal(whole: Path, tmp_path: Path) -> None:
    folder, log = tmp_path / "stopped", tmp_path / "log"
    command = [*COMMAND, "--out", str(folder)]
    for place, number in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGINT), 1):
        process = start(command, log, hang_after=8 * place)
        wait_for(partial(reached, folder, 8 * place))
        send(process, number)
        process.join()
        assert process.exitcode in (-number, 130, 143)
    assert "Repeat the command to resume" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert finish(command, log) == 0, log.read_text()
    assert "DER++ + CBA" in log.read_text()
    same_runs(folder, whole)
    sessions = [json.loads(line) for line in (folder / "usage.jsonl").read_text().splitlines()]
    assert len({session["started"] for session in sessions}) >= 2
    assert sessions[-1]["command"].startswith("evenkeel run digits-cba")


@pytest.mark.slow
def test_a_run_survives_twenty_kills_at_random_moments(whole: Path, tmp_path: Path) -> None:
    folder, log, chance = tmp_path / "killed", tmp_path / "log", random.Random(0)
    kills, moments = 0, set[int]()
    while kills < 20 or not finished(folder):
        begin = size(folder)
        process = start([*COMMAND, "--out", str(folder)], log)
        if kills < 20:
            # Mostly while it learns and writes, sometimes while it still reads data or the last checkpoint.
            early = chance.random() < 0.2
            while not early and process.is_alive() and size(folder) == begin:
                time.sleep(0.005)
            process.join(chance.uniform(0, 0.3))
            process.kill()
        process.join()
        if process.exitcode == 0:  # it finished; another run has to take the remaining kills
            folder = tmp_path / f"killed {kills}" if kills < 20 else folder
            continue
        assert process.exitcode == -signal.SIGKILL
        kills += 1
        moments.add(size(folder))
    runs = list(tmp_path.glob("killed*"))
    for each in runs:
        same_runs(each, whole)
    assert runs
    assert len(moments) > 5  # the kills did come at different moments


def text(folder: Path) -> bytes:
    path = folder / RECORDS
    return path.read_bytes() if path.exists() else b""


def size(folder: Path) -> int:
    return len(text(folder))


def steps(folder: Path) -> int:
    return text(folder).count(b'"kind":"step"')


def reached(folder: Path, count: int) -> bool:
    return steps(folder) == count


def finished(folder: Path) -> bool:
    return b'"kind":"end"' in text(folder)
