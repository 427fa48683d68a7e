"""What a launcher starts: one run of a grid, from its last checkpoint to its end."""

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenkeel.errors import BusyError
from evenkeel.experiment.config import load_config
from evenkeel.experiment.run import run
from evenkeel.files import keep_freed_memory
from evenkeel.grids.ledger import Ledger


@dataclass(frozen=True)
class Job:
    """A run to do, in plain values because it is sent to other processes and machines."""

    key: str
    config: dict[str, Any]
    ledger: str
    data: str | None  # folder with data sets
    save_every: float


def steps(job: Job) -> Generator[None]:
    """Do a job, record by record. Errors are recorded in the ledger, not raised, so that other runs continue."""
    ledger = Ledger(job.ledger)
    try:
        folder = ledger.folder(job.key)
        root = None if job.data is None else Path(job.data)
        for _ in run(load_config(job.config), out=folder, root=root, save_every=job.save_every):
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
