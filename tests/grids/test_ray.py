"""Grids on a real Ray cluster of two nodes on this machine."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import SettingsError
from evenkeel.experiment.config import load_config
from evenkeel.grids.execution import Execution
from evenkeel.grids.grid_file import read_grid
from evenkeel.grids.launchers.cluster import RayCluster
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.schedule import Grid
from tests.helpers.grids import GRID, require_same, undisturbed
from tests.helpers.own_parts import own_module

__all__ = ["own_module"]

pytest.importorskip("ray", reason="Ray is an extra: pip install 'evenkeel[ray]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="Ray's workers are found in /proc"),
]


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    made: Any = Cluster(initialize_head=True, head_node_args=node)
    made.second = made.add_node(num_cpus=1, object_store_memory=80 * 2**20, resources={"fastdisk": 1})
    made.wait_for_nodes()
    yield made
    made.shutdown()


def ray_workers() -> list[int]:
    """Return the ids of the processes that are doing a run now."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::work"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_workers_killed_and_a_node_lost_change_nothing(tmp_path: Path, cluster: Any) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    configs = read_grid(path)
    whole, ledger = undisturbed(configs, tmp_path / "whole"), Ledger(tmp_path / "cluster")
    grid = Grid(ledger, configs, Execution(ray=cluster.address, save_every=0))
    kills, lost, most = 0, False, 0
    for now in grid.go():
        most = max(most, len(ray_workers()))
        if kills < 3 and any(now.steps.values()):
            for victim in ray_workers()[:1]:
                os.kill(victim, signal.SIGKILL)
                kills += 1
        elif kills == 3 and not lost and len(now.finished) >= 2:
            cluster.remove_node(cluster.second, allow_graceful=False)
            lost = True
    assert not grid.note  # there was room from the start
    assert kills == 3
    assert lost
    assert most == 2  # both nodes were at work
    assert not grid.failed
    require_same(ledger, whole, configs)


def test_workers_import_own_parts_by_the_same_names(own_module: str, tmp_path: Path, cluster: Any) -> None:
    own = {kind: {"name": f"{own_module}:{name}"} for kind, name in (("data", "patterns"), ("method", "Cautious"))}
    net = {"name": "mlp", "hidden": [4], "encoder": {"name": f"{own_module}:encoder"}}
    tables = {**own, "net": net, "scenario": {"name": "disjoint", "tasks": 2}, "memory": {"capacity": 8}, "threads": 1}
    configs = [load_config({**tables, "seed": seed}) for seed in (0, 1)]
    whole, ledger = undisturbed(configs, tmp_path / "whole"), Ledger(tmp_path / "cluster")
    grid = Grid(ledger, configs, Execution(ray=cluster.address)).finish()
    assert not grid.failed
    require_same(ledger, whole, configs)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "auto"])
def test_a_missing_cluster_is_reported(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(SettingsError, match="No Ray cluster"):
        RayCluster(Execution(ray=address))


def test_what_no_node_has_is_waited_for_and_said(cluster: Any) -> None:
    with closing(RayCluster(Execution(ray=cluster.address, resources="CPU=2"))) as launcher:  # two nodes of one CPU
        assert (launcher.slots, launcher.threads) == (1, 2)
        assert launcher.note == "No node of the cluster has CPU=2 now; waiting for one."
    with closing(RayCluster(Execution(ray=cluster.address, resources="CPU=1,fastdisc=1"))) as launcher:
        assert launcher.slots == 1
        assert "No node of the cluster has CPU=1,fastdisc=1 now" in launcher.note
        assert "Did you mean 'fastdisk'?" in launcher.note
    with closing(RayCluster(Execution(ray=cluster.address, resources="memory=1"))) as launcher:
        assert launcher.slots > 2
        assert launcher.note == ""
