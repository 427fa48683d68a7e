"""Grids whose processes are killed at any moment: every run is finished once, and equals that of a grid left alone."""

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from evenkeel.experiment.config import Config
from evenkeel.experiment.folder import MODEL
from evenkeel.grids.grid_file import read_grid
from evenkeel.grids.job import Job
from evenkeel.grids.launchers.in_process import InProcess
from evenkeel.grids.ledger import INDEX, Ledger, run_key
from evenkeel.grids.schedule import Grid
from evenkeel.results.records import RECORDS
from tests.test_kill import same_runs

GRID = """
seeds = 2
[[blocks]]
base = "digits"
set = { limits = { train = 40 }, evaluation = { every = 0, alignment = 0 }, threads = 1 }
vary = { "adaptor.name" = ["none", "cba"], "method.name" = ["er", "derpp"] }
"""


def jobs(configs: list[Config], folder: Path, save_every: float = 0.0) -> list[Job]:
    return [Job(run_key(each), each.model_dump(mode="json"), str(folder), None, save_every) for each in configs]


def undisturbed(configs: list[Config], folder: Path) -> Ledger:
    grid = Grid(Ledger(folder), jobs(configs, folder, 30.0))
    for _ in grid.go(InProcess(threads=1)):
        pass
    assert not grid.failed
    return grid.ledger


def require_same(ledger: Ledger, whole: Ledger, configs: list[Config]) -> None:
    keys = {run_key(config) for config in configs}
    assert set(ledger.runs()) == keys
    for key in keys:
        same_runs(ledger.folder(key), whole.folder(key))
        assert (ledger.folder(key) / RECORDS).read_text().count('"kind":"end"') == 1
        assert not ledger.failures(key)
    noted = [json.loads(line)["key"] for line in (ledger.path / INDEX).read_text().splitlines()]
    assert sorted(noted) == sorted(keys)


def command(*arguments: str) -> None:
    """What the installed command does, in a process that has everything imported already."""
    import sys

    from evenkeel.cli import main

    os.setsid()  # as in a terminal of its own
    sys.argv = ["evenkeel", *arguments]
    main()


def children(parent: int) -> list[int]:
    """Of one process, by the kernel's own account."""
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


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def finished(ledger: Ledger, configs: list[Config]) -> bool:
    return all(ledger.finished(run_key(config)) for config in configs)


def disturb(parent: BaseProcess, ledger: Ledger, planned: list[str], chance: random.Random) -> list[str]:
    """Kill as planned, from the end of the list, until the parent is gone; what was killed."""
    assert parent.pid is not None
    top, done = parent.pid, list[str]()

    def workers() -> list[int]:
        return [each for server in children(top) for each in children(server)]

    def saving() -> bool:
        return any(ledger.path.glob(f"*/.{MODEL}.*.partial"))

    def moment() -> bool:
        """To kill, or to see that there is nothing left to kill."""
        return not parent.is_alive() or (saving() if planned[-1] == "checkpoint" else bool(workers()))

    while planned and parent.is_alive():
        if not wait_for(moment):
            break
        if planned[-1] != "checkpoint":
            time.sleep(chance.uniform(0, 0.8))
        victims = [top] if planned[-1] == "parent" else workers()
        if parent.is_alive() and victims and kill(chance.choice(victims)):
            done.append(planned.pop())
            if done[-1] == "parent":
                parent.join()
    return done


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="children are found in /proc")
def test_kills_of_workers_of_the_parent_and_in_the_middle_of_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    configs = read_grid(path)
    whole = undisturbed(configs, tmp_path / "whole")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["evenkeel.cli", "torch._dynamo", "sklearn.datasets"])
    chance, planned, done = random.Random(0), ["worker"] * 8 + ["checkpoint"] * 6 + ["parent"] * 3, list[str]()
    chance.shuffle(planned)
    ledgers = list[Ledger]()
    while planned:  # a grid may be done before all the kills are; then another has to take the rest
        ledger = Ledger(tmp_path / f"killed {len(ledgers)}")
        ledgers.append(ledger)
        arguments = ("grid", str(path), "--out", str(ledger.path), "--workers", "2", "--save-every", "0")
        while not finished(ledger, configs):
            parent = context.Process(target=command, args=arguments)
            parent.start()
            done += disturb(parent, ledger, planned, chance)
            parent.join()
            assert parent.exitcode in (0, -signal.SIGKILL)
    assert len(done) == 17
    for ledger in ledgers:
        require_same(ledger, whole, configs)
