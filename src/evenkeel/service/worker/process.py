"""The process that the learner's process is forked from. It must not import torch here: it does so in parallel."""

import multiprocessing
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext


def learner_context() -> ForkServerContext:
    """Return the context to start the learner's process in: forked from a process that has loaded what it needs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["evenkeel.service.worker.worker"])
    return context


def prepare_process() -> None:
    """Start the process to fork from now, so that it loads torch while this process does."""
    learner_context()
    forkserver.ensure_running()
