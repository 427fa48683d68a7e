"""What a launcher starts: one run of a grid, from its last checkpoint to its end."""

import os
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from evenkeel.config.own import OwnPart, own_parts, register_again
from evenkeel.errors import BusyError, RunError
from evenkeel.experiment.config import Config
from evenkeel.experiment.run import run
from evenkeel.files import keep_freed_memory
from evenkeel.grids.execution import Execution
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.run_names import run_key


@dataclass(frozen=True)
class Job:
    """A run to do. It is pickled for other processes and machines, so its config is checked once, by the sender."""

    key: str
    config: Config
    ledger: str
    data: str | None  # folder with data sets
    save_every: float
    own: tuple[OwnPart, ...] = ()  # parts of the user's own, to be imported by the names of the sender
    folder: str = ""  # where the sender looks for their modules

    @classmethod
    def of(cls, config: Config, ledger: Ledger, execution: Execution) -> "Job":
        data = None if execution.data is None else str(Path(execution.data).resolve())
        where = str(ledger.path.resolve())
        own = tuple(own_parts(config))
        return cls(run_key(config), config, where, data, execution.save_every, own, os.getcwd() if own else "")

    def prepare(self) -> None:
        """Import the user's own parts; raise RunError if they are others than those of the sender."""
        if self.folder and self.folder not in sys.path:
            sys.path.append(self.folder)
        register_again(self.own)
        if self.own and run_key(self.config) != self.key:
            names = ", ".join(part.name for part in self.own)
            raise RunError(f"The file that defines {names} is not the one that this run was planned with.")


def steps(job: Job) -> Generator[None]:
    """Do a job, record by record. Errors are recorded in the ledger, not raised, so that other runs continue."""
    ledger = Ledger(job.ledger)
    try:
        job.prepare()
        folder = ledger.folder(job.key)
        for _ in run(job.config, out=folder, root=job.data, save_every=job.save_every):
            yield
        ledger.note_finished(job.key)
    except BusyError:
        return  # another process is doing it
    except Exception as error:
        ledger.fail(job.key, error)


def work(job: Job) -> None:
    """Do a job to its end, in a process of its own."""
    keep_freed_memory()
    for _ in steps(job):
        pass
