"""A fresh process for each run, several in parallel. If one dies, the others are unaffected."""

import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess

import torch

from evenkeel.grids.execution import Execution
from evenkeel.grids.job import Job, work
from evenkeel.grids.launchers.base import Launcher

VISIBLE = "CUDA_VISIBLE_DEVICES"
ANY_GPU = ("auto", "cuda")  # devices that leave open which GPU


class Processes(Launcher):
    def __init__(self, execution: Execution) -> None:
        super().__init__(execution)
        self._context = _context()
        self._gpus = _visible_gpus()
        self._children: list[Child] = []

    @property
    def slots(self) -> int:
        return self.execution.at_once

    def start(self, job: Job) -> "Child":
        # Daemons, so that they end with an interpreter that exits normally.
        gpu = self._free_gpu() if job.config.device in ANY_GPU else None
        process = self._context.Process(target=_child, args=(job, gpu), name=f"evenkeel run {job.key}", daemon=True)
        process.start()
        self._children.append(Child(process, gpu))
        return self._children[-1]

    def _free_gpu(self) -> str | None:
        """Return the GPU with the fewest runs, for one that did not choose any; None if there is no GPU."""
        self._children = [child for child in self._children if child.at_work()]
        used = Counter(child.gpu for child in self._children)
        return min(self._gpus, key=lambda gpu: used[gpu], default=None)


def _visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, by the names that CUDA_VISIBLE_DEVICES has for them."""
    chosen = os.environ.get(VISIBLE)
    names = [str(number) for number in range(torch.cuda.device_count())]
    return names if chosen is None else [name.strip() for name in chosen.split(",")][: len(names)]


def _context() -> ForkServerContext | SpawnContext:
    """Return a context that forks from a server with everything imported, so that runs start fast; spawn on Windows."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # torch imports its compiler, half of all its modules, when the first optimizer is created.
    context.set_forkserver_preload(["__main__", __name__, "torch._dynamo", "sklearn.datasets"])
    return context


class Child:
    def __init__(self, process: BaseProcess, gpu: str | None = None) -> None:
        self._process, self.gpu = process, gpu

    def at_work(self) -> bool:
        return self._process.is_alive()

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


def _child(job: Job, gpu: str | None) -> None:
    if gpu is not None:
        os.environ[VISIBLE] = gpu
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches the whole group; the parent decides
    threading.Thread(target=_die_with_parent, daemon=True).start()
    work(job)


def _die_with_parent() -> None:
    """Exit when the parent dies: it can no longer stop its children, which would block the runs of the next grid."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
