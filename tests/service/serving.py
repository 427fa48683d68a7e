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

    def __init__(self, folder: Path, settings: Sequence[str] = VECTORS, *options: str) -> None:
        self.folder = folder
        self.log = folder.with_name(f"{folder.name}.log")
        given = [word for setting in settings for word in ("--set", setting)]
        command = [sys.executable, "-m", "evenkeel", "serve", str(folder), "--port", "0", *given, *options]
        with self.log.open("ab") as log:
            begun = log.tell()
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "500"}
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        self.url = self._address(begun)
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def _address(self, begun: int) -> str:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            said = self.log.read_bytes()[begun:].decode()
            found = re.search(r"Evenkeel on (http://\S+)", said)
            if found is not None and self._answers(found[1]):
                return found[1]
            if self.process.poll() is not None:
                raise RuntimeError(f"It did not start: {said}")
            time.sleep(0.02)
        raise TimeoutError(self.log.read_text())

    def _answers(self, url: str) -> bool:
        try:
            return httpx.get(f"{url}/healthz", timeout=5).status_code == 200
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
