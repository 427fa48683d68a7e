"""What stands before the routes: who may speak to us at all, how much, and how slowly."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = 64 * 1024  # bytes, at most


class RefusedError(Exception):
    """An answer that is given before a request is read to its end."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Guard:
    """Refuses bodies that are too large or too slow, foreign web pages, and names that are not ours.

    Without keys only programs of this machine may speak to us. A web page that is open on it is none of them: its
    requests carry its own origin, or, where it has made its name point here, a foreign host.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        body: int,
        seconds: float,
        is_open: Callable[[], bool],
        seen: Callable[[Scope, int, float], None],
    ) -> None:
        self.app, self.body, self.seconds, self.is_open, self.seen = app, body, seconds, is_open, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, taken, status = time.perf_counter(), 0, 500
        deadline = begun + self.seconds

        async def limited() -> Message:
            nonlocal taken
            try:
                async with asyncio.timeout(max(0.001, deadline - time.perf_counter())):
                    message = await receive()
            except TimeoutError:
                raise RefusedError(408, f"The request was not whole after {self.seconds:g} s.") from None
            taken += len(message.get("body", b""))
            if taken > self.body:
                raise RefusedError(413, f"The body is larger than {self.body:,} bytes.")
            return message

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._check(dict(scope["headers"]))
            await self.app(scope, limited, noted)
        except RefusedError as refusal:
            status = refusal.status
            await _answer(send, refusal)
        except ClientDisconnect:
            status = 499  # nobody is there to be answered
        finally:
            self.seen(scope, status, time.perf_counter() - begun)

    def _check(self, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.body:
            raise RefusedError(413, f"The body is larger than {self.body:,} bytes.")
        if self.is_open() and _name(host) not in LOOPBACK:
            raise RefusedError(403, "Without keys this service answers only to the names 127.0.0.1 and localhost.")
        if origin and _netloc(origin) != host:
            raise RefusedError(403, "Pages of other sites may not use this service.")


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


async def _answer(send: Send, refusal: RefusedError) -> None:
    content = json.dumps({"error": str(refusal)}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


class PatientProtocol(HttpToolsProtocol):
    """Uvicorn's own, which would wait for ever for the end of the headers, and take any number of them."""

    seconds = 30.0
    _unread: int | None = 0  # bytes of headers that are not whole yet; None outside of them
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._unread is not None:
            self._unread += len(data)
            if self._unread > HEADERS:
                self.transport.close()

    def on_message_begin(self) -> None:
        self._await_headers()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._unread is not None:  # else it is a trailer, of which there may be any number
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unread = None
        self._forget_timer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timer()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._forget_timer()
        self._unread = 0
        self._timer = self.loop.call_later(self.seconds, self.transport.close)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
