"""Limits in front of the routes: who may send requests at all, how large, and how slowly."""

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
    """A refusal that is sent before the request has been read to its end."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Guard:
    """Middleware that refuses bodies that are too large or too slow, foreign web pages, and foreign host names.

    Without keys, only programs on this machine may use the service. A web page that is open on it is not one of them:
    its requests carry its own origin or, if its host name was made to point here (DNS rebinding), a foreign host.
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
        begun, received, status = time.perf_counter(), 0, 500
        deadline = begun + self.seconds

        async def receive_limited() -> Message:
            nonlocal received
            try:
                async with asyncio.timeout(max(0.001, deadline - time.perf_counter())):
                    message = await receive()
            except TimeoutError:
                raise RefusedError(408, f"The request was not complete after {self.seconds:g} s.") from None
            received += len(message.get("body", b""))
            if received > self.body:
                raise RefusedError(413, f"The body is larger than {self.body:,} bytes.")
            return message

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._check(dict(scope["headers"]))
            await self.app(scope, receive_limited, send_noting_status)
        except RefusedError as refusal:
            status = refusal.status
            await _answer(send, refusal)
        except ClientDisconnect:
            status = 499  # the client is gone
        finally:
            self.seen(scope, status, time.perf_counter() - begun)

    def _check(self, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.body:
            raise RefusedError(413, f"The body is larger than {self.body:,} bytes.")
        if self.is_open() and _name(host) not in LOOPBACK:
            raise RefusedError(403, "Without keys, this service accepts only the hosts 127.0.0.1 and localhost.")
        if origin and _netloc(origin) != host:
            raise RefusedError(403, "Web pages of other sites may not use this service.")


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
    """Uvicorn's HTTP protocol with limits on the time and size of headers, neither of which it limits itself."""

    seconds = 30.0
    _unread: int | None = 0  # bytes of incomplete headers; None when no headers are being received
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
        if self._unread is not None:  # otherwise it is a trailer, of which there may be any number
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unread = None
        self._cancel_timer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._cancel_timer()
        self._unread = 0
        self._timer = self.loop.call_later(self.seconds, self.transport.close)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
