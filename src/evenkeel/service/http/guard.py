"""Limits in front of the routes: who may send requests at all, how large, and how slowly."""

import asyncio
import ipaddress
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import inf
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SHORT = 256 * 1024  # bytes of an unread body that are still received, so that the connection can be used again


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
        shortcuts: Mapping[tuple[str, str], ASGIApp],
    ) -> None:
        self.app, self.body, self.seconds, self.is_open, self.seen = app, body, seconds, is_open, seen
        self.shortcuts = shortcuts  # by method and path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        begun, status, unread = time.perf_counter(), 500, _length(headers)
        deadline, most = begun + self.seconds, self.body

        async def receive_limited() -> Message:
            nonlocal most, unread
            try:
                async with asyncio.timeout(max(0.001, deadline - time.perf_counter())):
                    message = await receive()
            except TimeoutError:
                raise _refusal(408, f"The request was not complete after {self.seconds:g} s.") from None
            size = len(message.get("body", b""))
            most, unread = most - size, unread - size if message.get("more_body") else 0
            if most < 0:
                raise self._too_large()
            return message

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # Rather than receive much for nothing. A client that waits for 100 may never send its body.
                if unread > (0 if b"expect" in headers else SHORT):
                    message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        try:
            self._check(headers)
            app = self.shortcuts.get((scope["method"], scope["path"]), self.app)
            await app(scope, receive_limited, send_noting_status)
        except HTTPException as refusal:
            status = refusal.status_code
            await JSONResponse({"error": refusal.detail}, status, refusal.headers)(scope, receive, send)
        except ClientDisconnect:
            status = 499  # the client is gone
        finally:
            self.seen(scope, status, time.perf_counter() - begun)

    def _check(self, headers: dict[bytes, bytes]) -> None:
        """Raise an HTTPException if these headers are reason enough to refuse the request."""
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if b"content-length" in headers and _length(headers) > self.body:
            raise self._too_large()
        if self.is_open() and not is_loopback(_name(host)):
            raise _refusal(403, "Without keys, this service accepts only the hosts 127.0.0.1 and localhost.")
        if origin and _netloc(origin) != host:
            raise _refusal(403, "Web pages of other sites may not use this service.")

    def _too_large(self) -> HTTPException:
        return _refusal(413, f"The body is larger than {self.body:,} bytes.")


def _refusal(status: int, message: str) -> HTTPException:
    """Return the refusal of a request that is not read to its end. (FastAPI lets only HTTPExceptions pass.)"""
    return HTTPException(status, message, {"Connection": "close"})


def _length(headers: dict[bytes, bytes]) -> float:
    """Return how long the body is; infinite if only its end will tell."""
    return inf if b"transfer-encoding" in headers else int(headers.get(b"content-length", 0))


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


@lru_cache(1_000)
def is_loopback(host: str) -> bool:
    """Check whether only this machine can reach the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
