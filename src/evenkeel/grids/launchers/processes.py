"""A fresh process for each run, several at once. One that dies takes nothing with it."""

import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess

from evenkeel.grids.job import Job, work


class Processes:
    def __init__(self, workers: int, threads: int) -> None:
        self.slots, self.threads = workers, threads
        self._context = _context()

    def start(self, job: Job) -> "Child":
        # Daemons, so that an interpreter that ends normally takes them with it.
        process = self._context.Process(target=_child, args=(job,), name=f"evenkeel run {job.key}", daemon=True)
        process.start()
        return Child(process)

    def close(self) -> None:
        pass


def _context() -> ForkServerContext | SpawnContext:
    """Forked from a server that has everything imported, a run begins at once; where nothing forks, it starts anew."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # torch imports its compiler, half of all its modules, when the first optimizer is made.
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
    """A parent that was killed cannot stop its children, and they would hold the runs that the next one wants."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
