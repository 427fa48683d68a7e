"""What the grid asks of Ray, and what it says without it; `test_ray` has a real cluster, for `make test-all`."""

import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import evenkeel as ek
from evenkeel.errors import SettingsError
from evenkeel.grids.execution import Execution
from evenkeel.grids.grid_file import read_grid
from evenkeel.grids.job import Job
from evenkeel.grids.launchers.cluster import RayCluster
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.schedule import Grid
from tests.helpers.grids import GRID, require_same, undisturbed


class StandIn:
    """As much of Ray as the launcher uses: two nodes of one CPU, which do a task at once."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.shut_down = False

    def init(self, **how: Any) -> None:
        assert how["address"] == "auto"

    def remote(self, function: Any) -> Any:
        def options(**needs: Any) -> Any:
            self.options = needs
            return SimpleNamespace(remote=function)

        return SimpleNamespace(options=options)

    def nodes(self) -> list[dict[str, Any]]:
        node = {"CPU": 1.0, "memory": 1e9}
        gone = {"Alive": False, "Resources": {"CPU": 64.0}}
        return [{"Alive": True, "Resources": node}, {"Alive": True, "Resources": {**node, "fastdisk": 1.0}}, gone]

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0, "memory": 2e9, "fastdisk": 1.0, "node:127.0.0.1": 1.0}

    def wait(self, references: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        assert timeout == 0
        return references, []

    def shutdown(self) -> None:
        self.shut_down = True


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    return stand_in


def test_a_grid_on_a_cluster_gives_the_same_runs(ray: StandIn, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(GRID.replace("seeds = 2", "seeds = 1"))
    configs = read_grid(tmp_path / "grid.toml")[:2]
    whole, ledger = undisturbed(configs, tmp_path / "whole"), Ledger(tmp_path / "cluster")
    grid = Grid(ledger, configs, Execution(ray="auto")).finish()
    assert not grid.failed
    require_same(ledger, whole, configs)
    assert ray.shut_down
    assert ray.options["max_retries"] == 0


def test_room_is_counted_node_by_node_and_what_none_has_is_said(ray: StandIn) -> None:
    for resources, slots, note in (
        ("CPU=1", 3, ""),
        ("CPU=2", 1, "No node of the cluster has CPU=2 now; waiting for one."),
        ("CPU=1,fastdisk=1", 2, ""),
        ("CPU=1,fastdisc=1", 1, "Did you mean 'fastdisk'?"),
    ):
        with closing(RayCluster(Execution(ray="auto", resources=resources))) as launcher:
            assert launcher.slots == slots
            assert note in launcher.note
            assert bool(note) == bool(launcher.note)
    assert ray.options["resources"] == {"fastdisc": 1.0}


@pytest.mark.usefixtures("ray")
def test_a_missing_cluster_is_reported() -> None:
    with pytest.raises(SettingsError, match=r"No Ray cluster can be reached at '127\.0\.0\.1:1'"):
        RayCluster(Execution(ray="127.0.0.1:1"))


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingsError, match=r"--ray needs Ray: pip install 'evenkeel\[ray\]'"):
        RayCluster(Execution(ray="auto"))


def test_a_run_on_a_cluster_uses_the_share_of_a_gpu_that_it_asked_for(
    ray: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And none if it asked for none, though the node may have some."""
    for resources, chosen, expected in (("CPU=1", "auto", "cpu"), ("CPU=1,GPU=0.5", "auto", "auto")):
        jobs = list[Job]()
        with closing(RayCluster(Execution(ray="auto", resources=resources))) as launcher:
            monkeypatch.setattr(launcher, "_task", SimpleNamespace(remote=jobs.append))
            config = ek.load_config("digits", [f"device={chosen}"])
            launcher.start(Job.of(config, Ledger(tmp_path), launcher.execution))
        assert (jobs[0].config.device, ray.options["num_gpus"]) == (expected, 0.5 if "GPU" in resources else 0.0)
    with pytest.raises(SettingsError, match="add GPU=1 to --resources"):
        RayCluster(Execution(ray="auto", device="cuda"))
