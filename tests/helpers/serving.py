"""Real servers for tests: `Served` in a process of its own, `Hosted` on a thread of this one, which is cheaper.

Both learn in the process that serves; `crashes` and the docs' test start a service as users do.
"""

import base64
import io
import re
import select
import socket
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self

import httpx
from PIL import Image

from evenkeel.service.http.server import listen, make_server
from evenkeel.service.service import Service
from evenkeel.service.store.keys import Keyring
from tests.helpers.processes import LONG, start, wait_for

VECTORS = ("input.features=4", "net.hidden=[16]", "memory.capacity=50", "batches.wait=0.05")
PICTURES = ("input.size=[8, 8]", "input.channels=1", "memory.capacity=50", "batches.wait=0.05")


class Server:
    """A service that `client` reaches."""

    folder: Path
    client: httpx.Client

    @property
    def url(self) -> str:
        return str(self.client.base_url).rstrip("/")

    def get(self, path: str, **how: Any) -> Any:
        """Return the content of a successful response."""
        answer = self.client.get(path, **how)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, status: int | None = None, **how: Any) -> Any:
        """Send JSON, and return the content of a response with this status; of any success by default."""
        answer = self.client.post(path, json=body, **how)
        assert answer.is_success if status is None else answer.status_code == status, answer.text
        return answer.json()

    def settled(self) -> Any:
        """Wait until nothing is waiting any more, and return the status."""
        status = dict[str, Any]()

        def idle() -> bool:
            status.update(self.get("/v1/status"))
            return not status["queue"]["waiting"] and status["state"] == "idle"

        wait_for(idle)
        return status


class Served(Server):
    """`evenkeel serve`, which runs until it is stopped or killed. Its output is in `log`."""

    def __init__(
        self,
        folder: Path,
        settings: Sequence[str] = VECTORS,
        *options: str,
        wait: bool = True,
        kill_at: str | None = None,
    ) -> None:
        self.folder = folder
        self.log = folder.with_name(f"{folder.name}.log")
        self._begun = self.log.stat().st_size if self.log.exists() else 0
        overrides = [word for setting in settings for word in ("--set", setting)]
        port = [] if "--port" in options else ["--port", "0"]
        arguments = ["serve", str(folder), "--one-process", *port, *overrides, *options]
        self.process = start(arguments, self.log, kill_at=kill_at)
        self.client = httpx.Client(timeout=LONG)
        if wait:
            self.wait()

    @property
    def output(self) -> str:
        """Return what the service has printed so far."""
        return self.log.read_bytes()[self._begun :].decode() if self.log.exists() else ""

    def failures(self) -> list[str]:
        """Return the lines of its output that report an exception nobody expected."""
        return [line for line in self.output.splitlines() if "Traceback" in line or '"exception"' in line]

    def wait(self) -> None:
        """Wait until the service answers; fail if it has ended."""
        wait_for(lambda: self.answers() or not self.process.is_alive())
        if not self.process.is_alive():
            raise RuntimeError(f"It did not start: {self.output}")

    def answers(self) -> bool:
        """Check whether the service has printed its address and answers there."""
        match = re.search(r"Evenkeel on (http://\S+)", self.output)
        if match is None:
            return False
        self.client.base_url = httpx.URL(match[1])
        try:
            return self.client.get("/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.client.close()

    def stop(self) -> int | None:
        """Stop the service, and return its exit code."""
        self.process.terminate()
        self.process.join(LONG)
        self.client.close()
        return self.process.exitcode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.is_alive():
            self.kill()


class Hosted(Server):
    """A service on a thread of this process, until it is stopped."""

    def __init__(self, folder: Path, settings: Sequence[str] = VECTORS, learner: Path | None = None) -> None:
        self.folder = folder
        self.service = Service(folder, None, settings, learner=learner)
        self.server = make_server(self.service, Keyring(self.service.model_folder.keys, open_without=True))
        listening = listen("127.0.0.1", 0)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=LONG)
        self._thread = Thread(target=self.server.run, args=([listening],))
        self._thread.start()
        wait_for(lambda: self.server.started or not self._thread.is_alive())

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join()
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Line:
    """A connection on which any bytes may be sent."""

    def __init__(self, served: Server, data: bytes = b"") -> None:
        address = httpx.URL(served.url)
        self.socket = socket.create_connection((address.host, address.port or 80), timeout=LONG)
        self.socket.sendall(data)

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def received(self) -> bytes:
        """Return everything that is received until the other side closes."""
        parts = []
        try:
            while part := self.socket.recv(65536):
                parts.append(part)
        except ConnectionResetError:
            pass
        return b"".join(parts)

    def answered(self) -> bool:
        """Check whether anything can be received, or the other side has closed."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def pour(self, piece: bytes, most: int) -> int:
        """Send a piece again and again; return how many bytes were sent until the other side closed."""
        poured = 0
        try:
            while poured < most:
                self.socket.sendall(piece)
                poured += len(piece)
        except OSError:
            pass
        return poured


def encoded(image: Image.Image, format: str = "PNG", **how: Any) -> bytes:
    """Return an image as the bytes of a file."""
    file = io.BytesIO()
    image.save(file, format, **how)
    return file.getvalue()


def text(data: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(data).decode()
