"""Grids whose processes are killed at any moment: every run finishes once, and equals that of an undisturbed grid."""

import os
import random
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from evenkeel.experiment.config import Config
from evenkeel.experiment.run_folder import MODEL
from evenkeel.grids.grid_file import read_grid
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.run_names import run_key
from tests.helpers.grids import GRID, require_same, undisturbed
from tests.helpers.processes import start, wait_for


def children(parent: int) -> list[int]:
    """Return the children of a process, according to the kernel."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def kill(process: int) -> bool:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def finished(ledger: Ledger, configs: list[Config]) -> bool:
    return all(ledger.finished(run_key(config)) for config in configs)


def disturb(parent: BaseProcess, ledger: Ledger, planned: list[str], chance: random.Random) -> list[str]:
    """Kill as planned, from the end of the list, until the parent is gone; return what was killed."""
    assert parent.pid is not None
    top, done = parent.pid, list[str]()

    def workers() -> list[int]:
        return [each for server in children(top) for each in children(server)]

    def saving() -> bool:
        return any(ledger.path.glob(f"*/.{MODEL}.*.partial"))

    def moment() -> bool:
        """Check whether it is time to kill, or nothing is left to kill."""
        return not parent.is_alive() or (saving() if planned[-1] == "checkpoint" else bool(workers()))

    while planned and parent.is_alive():
        wait_for(moment)
        if planned[-1] != "checkpoint":
            time.sleep(chance.uniform(0, 0.8))
        victims = [top] if planned[-1] == "parent" else workers()
        if parent.is_alive() and victims and kill(chance.choice(victims)):
            done.append(planned.pop())
            if done[-1] == "parent":
                parent.join()
    return done


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="children are found in /proc")
@pytest.mark.parametrize(
    ("seeds", "planned"),
    [
        (1, ["parent", "worker"]),
        pytest.param(2, ["worker"] * 8 + ["checkpoint"] * 6 + ["parent"] * 3, marks=pytest.mark.slow),
    ],
    ids=["one of each", "many, in the middle of a checkpoint, too"],
)
def test_killed_processes_change_nothing(seeds: int, planned: list[str], tmp_path: Path) -> None:
    path, log, planned = tmp_path / "grid.toml", tmp_path / "log", planned.copy()
    path.write_text(GRID.replace("seeds = 2", f"seeds = {seeds}"))
    configs, kills = read_grid(path), len(planned)
    whole = undisturbed(configs, tmp_path / "whole")
    chance, ledgers, done = random.Random(0), list[Ledger](), list[str]()
    chance.shuffle(planned)
    while planned:  # a grid may finish before all kills are done; another one then takes the rest
        ledger = Ledger(tmp_path / f"killed {len(ledgers)}")
        ledgers.append(ledger)
        arguments = ("grid", str(path), "--out", str(ledger.path), "--workers", "2", "--save-every", "0")
        while not finished(ledger, configs):
            parent = start(arguments, log)
            done += disturb(parent, ledger, planned, chance)
            parent.join()
            assert parent.exitcode in (0, -signal.SIGKILL), log.read_text()
    assert len(done) == kills
    for ledger in ledgers:
        require_same(ledger, whole, configs)
