"""Where runs are executed: in this process, in processes of their own, or on a Ray cluster.

A launcher starts jobs and reports whether they are still running. How they ended is recorded in the ledger.
"""

from typing import Protocol

from evenkeel.grids.job import Job


class Working(Protocol):
    def at_work(self) -> bool: ...

    def stop(self) -> None:
        """Stop at once. What was learned up to the last checkpoint is kept."""


class Launcher(Protocol):
    threads: int
    """Threads of torch per run."""

    @property
    def slots(self) -> int:
        """Return the number of parallel runs."""

    def start(self, job: Job) -> Working: ...

    def close(self) -> None: ...
