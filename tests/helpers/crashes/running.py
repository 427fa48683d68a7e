"""The service that is killed: a process with HTTP, and another one that learns."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx

from tests.helpers.crashes.clients import FEATURES
from tests.helpers.processes import LONG, send, start, wait_for

SETTINGS = [f"input.features={FEATURES}", "net.hidden=[32]", "memory.capacity=100", "batches.size=16"]
SETTINGS += ["batches.wait=0.05", "checkpoints.batches=40", "checkpoints.seconds=2", "checkpoints.keep=3"]
SETTINGS += ["limits.queue=2000"]


@dataclass
class Kills:
    """How often each process was killed."""

    service: int = 0
    early: int = 0  # of the service, before it was ready
    learner: int = 0
    commands: int = 0  # backups, restores and checks

    @property
    def all(self) -> int:
        return self.service + self.learner + self.commands


class Running:
    """A service in `folder` that is started again whenever it is killed or stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kills, self.stops = folder, Kills(), 0
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._client = httpx.Client(base_url=self.url, timeout=60, verify=False)  # certificates take long to load
        self._process: BaseProcess | None = None

    def start(self) -> None:
        log = self.folder.with_name("service.log")
        self._process = start(["serve", str(self.folder), "--port", str(self.port)], log)

    @property
    def process(self) -> BaseProcess:
        assert self._process is not None
        return self._process

    def fetch(self, path: str) -> Any:
        """Return the content of a response; None if there is no response, or it is an error."""
        with suppress(httpx.TransportError):
            answer = self._client.get(path)
            return answer.json() if answer.is_success else None
        return None

    def wait_ready(self) -> None:
        """Wait until it has caught up; fail if it has ended."""
        deadline = time.monotonic() + LONG
        while self.fetch("/readyz") is None:
            assert self.process.is_alive(), "It did not start again."
            assert time.monotonic() < deadline, self.fetch("/v1/status")
            time.sleep(0.1)

    def kill(self, *, restart: bool = True) -> None:
        """Kill the service, at whatever it is doing. Without a restart, kill its learner as well.

        Otherwise the learner notices and ends; as the last one that reads the journal, it leaves no log to be damaged.
        """
        learner = None if restart else self._learner()
        self.kills.early += self.fetch("/readyz") is None
        if learner is not None:
            send(self.process, signal.SIGSTOP)  # or it might start another one
            with suppress(ProcessLookupError):
                os.kill(learner, signal.SIGKILL)
                self.kills.learner += 1
        self.process.kill()
        self.process.join()
        self.kills.service += 1
        if restart:
            self.start()
        elif learner is not None:
            wait_for(lambda: not is_running(learner))

    def _learner(self) -> int | None:
        """Return the id of the learner's process, if there is one."""
        learner: int | None = (self.fetch("/v1/status") or {}).get("processes", {}).get("learner")
        return learner

    def kill_learner(self) -> None:
        """Kill the learner; it is the service that must start another one. If there is none yet, wait for it."""
        learners = list[int]()

        def is_there() -> bool:
            time.sleep(0.1)
            learners.extend(filter(None, [self._learner()]))
            return bool(learners)

        wait_for(is_there)
        with suppress(ProcessLookupError):  # it died with a service that was killed
            os.kill(learners[0], signal.SIGKILL)
            self.kills.learner += 1

    def stop(self, *, restart: bool = True) -> None:
        """Stop it as an operator does."""
        send(self.process, signal.SIGTERM)
        self.process.join()
        assert self.process.exitcode in (0, -signal.SIGTERM), self.process.exitcode
        self.stops += 1
        if restart:
            self.start()
        else:
            self._client.close()

    def settled(self) -> Any:
        """Wait until nothing is waiting any more, and return the status."""
        statuses = list[Any]()

        def is_idle() -> bool:
            time.sleep(0.1)
            statuses.append(self.fetch("/v1/status"))
            return statuses[-1] is not None and statuses[-1]["state"] == "idle"

        wait_for(is_idle)
        return statuses[-1]


def is_running(process: int) -> bool:
    """Check whether a process of someone else is running, and not only waiting for its parent to notice its end."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    return False


@contextmanager
def in_the_background(work: Callable[[], object]) -> Iterator[None]:
    """Do something meanwhile; wait for its end, and raise what it raised."""
    errors = list[BaseException]()

    def catch() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=catch, daemon=True)
    thread.start()
    yield
    thread.join()
    if errors:
        raise errors[0]
