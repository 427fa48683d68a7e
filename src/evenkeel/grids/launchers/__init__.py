"""Where runs are done: in this process, in processes of their own, or on a Ray cluster.

A launcher starts jobs and says whether they are still at work. How they ended is in the ledger.
"""

from typing import Protocol

from evenkeel.grids.job import Job


class Working(Protocol):
    def at_work(self) -> bool: ...

    def stop(self) -> None:
        """At once. What was learned until the last checkpoint stays."""


class Launcher(Protocol):
    threads: int
    """Of torch, for each run."""

    @property
    def slots(self) -> int:
        """Runs at once."""

    def start(self, job: Job) -> Working: ...

    def close(self) -> None: ...
