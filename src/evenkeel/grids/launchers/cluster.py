"""Runs as tasks of an existing Ray cluster. The ledger must be on storage that all nodes share."""

import logging
import socket
from collections.abc import Mapping
from typing import Any

from evenkeel.errors import SettingsError
from evenkeel.grids.job import Job, work


class RayCluster:
    def __init__(self, address: str, resources: Mapping[str, float]) -> None:
        """Connect to a cluster; `resources`: what a run needs, by Ray's names. A run has as many threads as CPUs."""
        try:
            import ray
        except ImportError:
            raise SettingsError("--ray needs Ray: pip install 'evenkeel[ray]', here and on every node.") from None
        self._ray: Any = ray
        self._need = {"CPU": 1.0, **resources}
        self.threads = max(1, int(self._need["CPU"]))
        try:
            _reach(address)
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise SettingsError(
                f"No Ray cluster can be reached at {address!r}: {str(error).splitlines()[0]}. "
                "Start one with `ray start --head`, or omit --ray."
            ) from None
        others = {name: amount for name, amount in self._need.items() if name not in ("CPU", "GPU")}
        # The grid itself restarts a run that lost its node: it knows how far the run had come.
        self._task = ray.remote(work).options(
            num_cpus=self._need["CPU"], num_gpus=self._need.get("GPU", 0.0), resources=others, max_retries=0
        )

    @property
    def slots(self) -> int:
        """Return how many runs the cluster has room for now, plus a waiting one for an autoscaler to see."""
        available = self._ray.cluster_resources()
        return 1 + int(min(available.get(name, 0.0) // amount for name, amount in self._need.items() if amount))

    def start(self, job: Job) -> "Task":
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
