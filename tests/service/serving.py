"""Real servers for tests: `evenkeel serve` in a process of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

VECTORS = ("input.features=4", "net.hidden=[16]", "memory.capacity=50", "batches.wait=0.05")


class Served:
    """A service that runs until it is stopped, or killed. What it printed is in `log`."""

    def __init__(self, folder: Path, settings: Sequence[str] = VECTORS, *options: str, wait: bool = True) -> None:
        self.folder = folder
        self.log = folder.with_name(f"{folder.name}.log")
        given = [word for setting in settings for word in ("--set", setting)]
        anywhere = [] if "--port" in options else ["--port", "0"]
        command = [sys.executable, "-m", "evenkeel", "serve", str(folder), *anywhere, *given, *options]
        with self.log.open("ab") as log:
            self._begun = log.tell()
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "500"}
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        self.client = httpx.Client(timeout=60)
        if wait:
            self.wait()

    @property
    def said(self) -> str:
        return self.log.read_bytes()[self._begun :].decode()

    @property
    def url(self) -> str:
        return str(self.client.base_url).rstrip("/")

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self.answers():
                return
            if self.process.poll() is not None:
                raise RuntimeError(f"It did not start: {self.said}")
            time.sleep(0.02)
        raise TimeoutError(self.said)

    def answers(self) -> bool:
        found = re.search(r"Evenkeel on (http://\S+)", self.said)
        if found is None:
            return False
        self.client.base_url = httpx.URL(found[1])
        try:
            return self.client.get("/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def get(self, path: str, **how: Any) -> Any:
        answer = self.client.get(path, **how)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, status: int | None = None, **how: Any) -> Any:
        answer = self.client.post(path, json=body, **how)
        assert answer.is_success if status is None else answer.status_code == status, answer.text
        return answer.json()

    def settled(self) -> Any:
        """The status once nothing waits any more."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            status = self.get("/v1/status")
            if not status["queue"]["waiting"] and status["state"] == "idle":
                return status
            time.sleep(0.02)
        raise TimeoutError(str(self.get("/v1/status")))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.client.close()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.client.close()
        return code

    def __enter__(self) -> "Served":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
