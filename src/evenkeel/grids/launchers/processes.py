"""A fresh process for each run, several in parallel. If one dies, the others are unaffected."""

import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess

from evenkeel.grids.execution import Execution
from evenkeel.grids.job import Job, work
from evenkeel.grids.launchers.base import Launcher


class Processes(Launcher):
    def __init__(self, execution: Execution) -> None:
        super().__init__(execution)
        self._context = _context()

    @property
    def slots(self) -> int:
        return self.execution.at_once

    def start(self, job: Job) -> "Child":
        # Daemons, so that they end with an interpreter that exits normally.
        process = self._context.Process(target=_child, args=(job,), name=f"evenkeel run {job.key}", daemon=True)
        process.start()
        return Child(process)


def _context() -> ForkServerContext | SpawnContext:
    """Return a context that forks from a server with everything imported, so that runs start fast; spawn on Windows."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # torch imports its compiler, half of all its modules, when the first optimizer is created.
    context.set_forkserver_preload(["__main__", __name__, "torch._dynamo", "sklearn.datasets"])
    return context


class Child:
    def __init__(self, process: BaseProcess) -> None:
        self._process = process

    def at_work(self) -> bool:
        return self._process.is_alive()

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


def _child(job: Job) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches the whole group; the parent decides
    threading.Thread(target=_die_with_parent, daemon=True).start()
    work(job)


def _die_with_parent() -> None:
    """Exit when the parent dies: it can no longer stop its children, which would block the runs of the next grid."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
