"""Small grids, and checks that two of them hold the same runs."""

import json
from pathlib import Path

import evenkeel as ek
from evenkeel.experiment.config import Config
from evenkeel.experiment.run_folder import MODEL
from evenkeel.grids.execution import Execution
from evenkeel.grids.ledger import INDEX, Ledger
from evenkeel.grids.run_names import run_key
from evenkeel.grids.schedule import Grid
from evenkeel.results.run_files import RECORDS


def same_runs(a: Path, b: Path) -> None:
    assert (a / RECORDS).read_bytes() == (b / RECORDS).read_bytes()
    one, other = (ek.Learner.load(folder / MODEL) for folder in (a, b))
    for name, weight in one.net.state_dict().items():
        assert weight.equal(other.net.state_dict()[name]), name
    assert one.memory.column("x").equal(other.memory.column("x"))


GRID = """
seeds = 2
[[blocks]]
base = "digits"
set = { limits = { train = 40, test = 20 }, "net.width" = 4, evaluation = { every = 0, alignment = 0 }, threads = 1 }
vary = { "adaptor.name" = ["none", "cba"], "method.name" = ["er", "derpp"] }
"""


def undisturbed(configs: list[Config], folder: Path) -> Ledger:
    grid = Grid(Ledger(folder), configs, Execution(workers=0)).finish()
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
