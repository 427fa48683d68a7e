"""Runs as tasks of an existing Ray cluster. The ledger must be on storage that all nodes share."""

import logging
import socket
from dataclasses import replace
from typing import Any

from evenkeel.errors import SettingsError, nearest, reason
from evenkeel.grids.execution import OWN, Execution
from evenkeel.grids.job import Job, work
from evenkeel.grids.launchers.base import Launcher


class RayCluster(Launcher):
    here = False

    def __init__(self, execution: Execution) -> None:
        """Connect to the cluster."""
        super().__init__(execution)
        address = execution.ray or "auto"
        try:
            import ray
        except ImportError:
            raise SettingsError("--ray needs Ray: pip install 'evenkeel[ray]', here and on every node.") from None
        self._ray: Any = ray
        self._needs = execution.needs
        if execution.device not in (None, "auto", "cpu") and not self._needs.get("GPU"):
            raise SettingsError(
                f"device={execution.device!r} needs a share of a GPU on a cluster: add GPU=1 to --resources, or "
                "GPU=0.5 for two runs on each."
            )
        try:
            _reach(address)
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise SettingsError(
                f"No Ray cluster can be reached at {address!r}: {reason(error)}. "
                "Start one with `ray start --head`, or omit --ray."
            ) from None
        # The grid itself restarts a run that lost its node: it knows how far the run had come.
        self._task = ray.remote(work).options(
            num_cpus=self._needs["CPU"],
            num_gpus=self._needs.get("GPU", 0.0),
            memory=self._needs.get("memory"),
            resources={name: amount for name, amount in self._needs.items() if name not in OWN},
            max_retries=0,
        )
        self.note = "" if self._room() else self._waiting()

    @property
    def threads(self) -> int:
        """Return as many threads as a run has CPUs."""
        return max(1, int(self._needs["CPU"]))

    @property
    def slots(self) -> int:
        """Return how many runs the cluster has room for now, plus a waiting one for an autoscaler to see."""
        return 1 + self._room()

    def _room(self) -> int:
        """Return how many runs fit on the nodes; one run cannot use the resources of two."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        needs = {name: amount for name, amount in self._needs.items() if amount}
        return sum(int(min(node.get(name, 0.0) // amount for name, amount in needs.items())) for node in nodes)

    def _waiting(self) -> str:
        """Say what the run waits for; what no node has now may be misspelt, or an autoscaler may bring it."""
        available = sorted(name for name in self._ray.cluster_resources() if ":" not in name)
        unknown = [name for name in self._needs if name not in available]
        hint = f" The cluster has {', '.join(available)}.{nearest(unknown[0], available)}" if unknown else ""
        return f"No node of the cluster has {self.execution.resources} now; waiting for one.{hint}"

    def start(self, job: Job) -> "Task":
        if not self._needs.get("GPU") and job.config.device == "auto":  # none that Ray has not given it
            job = replace(job, config=job.config.model_copy(update={"device": "cpu"}))
        return Task(self._ray, self._task.remote(job))

    def close(self) -> None:
        self._ray.shutdown()


def _reach(address: str) -> None:
    """Raise OSError if nothing listens at the address: Ray itself would keep trying for minutes."""
    host, colon, port = address.rpartition("/")[2].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


class Task:
    def __init__(self, ray: Any, reference: Any) -> None:
        self._ray, self._reference = ray, reference

    def at_work(self) -> bool:
        return not self._ray.wait([self._reference], timeout=0)[0]

    def stop(self) -> None:
        self._ray.cancel(self._reference, force=True)
