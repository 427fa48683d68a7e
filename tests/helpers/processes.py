"""`evenkeel` in processes of their own, forked from one that has already imported everything, which takes longest."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce, wraps
from importlib import import_module
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any

from evenkeel.cli import main

LONG = 300  # seconds that nothing takes, however busy the machine is
IMPORTED = ["evenkeel.cli", "evenkeel.service.http.server", "torch._dynamo", "sklearn.datasets"]


def fork_server_from_here() -> None:
    """Fork the server of all processes from this one, before the first test, so that it need not import torch again.

    The processes of grids and services that tests start in this process come from it, too.
    """
    for module in IMPORTED:
        import_module(module)
    resource_tracker.ensure_running()  # a process of its own, which is started in the same way
    spawn, util.spawnv_passfds = util.spawnv_passfds, _fork_instead  # type: ignore[assignment]
    try:
        forkserver.ensure_running()
    finally:
        util.spawnv_passfds = spawn


def fork_server() -> ForkServerContext:
    """Return the context whose processes have everything imported. There is one such server for all tests."""
    return multiprocessing.get_context("forkserver")


def start(
    arguments: Sequence[str], log: Path, *, hang_after: int | None = None, kill_at: str | None = None
) -> BaseProcess:
    """Start a command as in a terminal of its own, with its output in a file.

    `hang_after`: its learner does so many steps and no more, so that a signal comes in time on any machine. `kill_at`:
    the process is killed when it calls a function, "package.module:function" or "package.module:Class.function", for
    the first time; with "*2" after it, for the second.
    """
    process = fork_server().Process(target=_evenkeel, args=(list(arguments), str(log), hang_after, kill_at))
    process.start()
    return process


def finish(arguments: Sequence[str], log: Path) -> int:
    """Run a command to its end, and return its exit code; negative if a signal ended it."""
    process = start(arguments, log)
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def run_python(code: str, folder: Path, log: Path) -> int:
    """Run a program in a folder as `python -c` does, but with everything imported before; return its exit code."""
    process = fork_server().Process(target=_program, args=(code, str(folder), str(log)))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def send(process: BaseProcess, number: int) -> None:
    """Send a signal to a process."""
    assert process.pid is not None
    os.kill(process.pid, number)


def wait_for(condition: Callable[[], object], seconds: float = LONG) -> None:
    """Wait until the condition holds; fail if that takes longer than anything can."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "It did not happen."
        time.sleep(0.005)


def _evenkeel(arguments: list[str], log: str, hang_after: int | None, kill_at: str | None) -> None:
    """Do what the installed command does."""
    if hang_after is not None:
        _hang_after(hang_after)
    if kill_at is not None:
        _kill_at(*kill_at.partition("*")[::2])
    _start_children_in_no_time()
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a shell ignore Ctrl-C
    _print_to(log)
    sys.argv = ["evenkeel", *arguments]
    os.environ["COLUMNS"] = "500"
    main()


def _start_children_in_no_time() -> None:
    """Fork learners and runs from this process instead of one that imports torch again; let no learner give way."""
    from evenkeel.service.worker import worker

    worker.NICE = 0
    util.spawnv_passfds = _fork_instead  # type: ignore[assignment]


def _fork_instead(_: str, command: Sequence[str], files: Sequence[int]) -> int:
    """Do what the process does that learners and runs are forked from."""
    assert "forkserver" in command[-1]
    child = os.fork()
    if child == 0:
        for file in map(int, os.listdir("/proc/self/fd")):
            if file > 2 and file not in files:
                with suppress(OSError):  # that of the list itself
                    os.close(file)
        try:
            forkserver._forkserver.__init__()  # type: ignore[misc]  # it is just starting one: locked
            listening, alive = files
            forkserver.main(listening, alive, [])
        finally:
            os._exit(0)
    return child


def _program(code: str, folder: str, log: str) -> None:
    os.chdir(folder)
    _start_children_in_no_time()
    _print_to(log)
    sys.path.insert(0, "")
    main_module = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), main_module.__dict__)


def _print_to(log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)


def _kill_at(place: str, calls: str) -> None:
    """Kill this process with SIGKILL at a call of a function; nothing that it has to do then is done."""
    module, _, name = place.partition(":")
    *owners, last = name.split(".")
    owner: Any = reduce(getattr, owners, import_module(module))
    function, left = getattr(owner, last), int(calls or 1)

    @wraps(function)  # so that it can be sent through a pipe
    def killed(*arguments: Any, **settings: Any) -> Any:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **settings)

    setattr(owner, last, killed)


def _hang_after(steps: int) -> None:
    """Let learners stop in the middle of a stream, until a signal comes."""
    from evenkeel.learning.learner import Learner

    learn = Learner.learn

    def learn_or_hang(learner: Learner, *arguments: Any, **settings: Any) -> Any:
        if learner.step >= steps:
            time.sleep(LONG)
        return learn(learner, *arguments, **settings)

    Learner.learn = learn_or_hang  # type: ignore[method-assign,assignment]
