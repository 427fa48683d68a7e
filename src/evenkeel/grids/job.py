"""What a launcher starts: one run of a grid, from its last checkpoint to its end."""

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from evenkeel.errors import BusyError
from evenkeel.experiment.config import Config
from evenkeel.experiment.run import run
from evenkeel.files import keep_freed_memory
from evenkeel.grids.execution import Execution
from evenkeel.grids.ledger import Ledger, run_key


@dataclass(frozen=True)
class Job:
    """A run to do. It is pickled for other processes and machines, so its config is checked once, by the sender."""

    key: str
    config: Config
    ledger: str
    data: str | None  # folder with data sets
    save_every: float

    @classmethod
    def of(cls, config: Config, ledger: Ledger, execution: Execution) -> "Job":
        data = None if execution.data is None else str(Path(execution.data).resolve())
        where = str(ledger.path.resolve())
        return cls(run_key(config), config, where, data, execution.save_every)


def steps(job: Job) -> Generator[None]:
    """Do a job, record by record. Errors are recorded in the ledger, not raised, so that other runs continue."""
    ledger = Ledger(job.ledger)
    try:
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
