"""What a launcher is: it starts jobs and reports whether they are still running. How they ended is in the ledger."""

from abc import ABC, abstractmethod
from typing import Protocol

from evenkeel.grids.execution import Execution
from evenkeel.grids.job import Job


class Working(Protocol):
    """A job that was started."""

    def at_work(self) -> bool: ...

    def stop(self) -> None:
        """Stop at once. What was learned up to the last checkpoint is kept."""


class Launcher(ABC):
    here = True
    """Whether runs are executed on this machine, so that its cores count and the data must be on it."""
    elsewhere = True
    """Whether runs go on while the grid pauses; otherwise they only go on when it looks at them."""
    note = ""
    """A sentence for the user once the launcher is ready, such as why no run can start yet."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution

    @property
    def threads(self) -> int:
        """Return the number of torch's threads per run."""
        return self.execution.threads

    @property
    def slots(self) -> int:
        """Return the number of parallel runs."""
        return 1

    @abstractmethod
    def start(self, job: Job) -> Working:
        """Start a job, in a process that does no other at the same time: building a net seeds torch's generator."""

    def close(self) -> None:
        """Release what the launcher holds."""
