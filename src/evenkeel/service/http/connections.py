"""Connections of a server: how many there may be, how slowly they may send, and how they end."""

import asyncio
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS = 64 * 1024  # bytes, at most
LINGER = 5.0  # seconds for which a client may still send what nobody reads, so that it gets its answer
TOTAL = 4_000  # connections, from all addresses together
HEALTH = (b"/healthz", b"/readyz")


class Connections:
    """The open connections by address. Beyond the limits, the one that has waited longest for its client is closed.

    So connections on which nothing is requested, or only half a request, never keep others out.
    """

    def __init__(self, per_address: int, total: int = TOTAL) -> None:
        self._per_address, self._total = per_address, total
        self._open: dict[str, dict[Connection, None]] = {}  # those that have waited longest first
        self._count = 0

    def add(self, new: "Connection") -> bool:
        """Add a connection; return False if there are too many, and all of them are busy."""
        same = self._open.setdefault(new.address, {})
        same[new] = None
        self._count += 1
        if len(same) > self._per_address:
            return self._close_one(same, new)
        return self._count <= self._total or self._close_one(max(self._open.values(), key=len), new)

    def wait_again(self, connection: "Connection") -> None:
        """Record that a connection waits for another request."""
        same = self._open.get(connection.address, {})
        if connection in same:
            del same[connection]
            same[connection] = None

    def remove(self, connection: "Connection") -> None:
        """Remove a connection, if it was not removed before."""
        same = self._open.get(connection.address, {})
        if connection in same:
            del same[connection]
            self._count -= 1
        if not same:
            self._open.pop(connection.address, None)

    def _close_one(self, candidates: "dict[Connection, None]", new: "Connection") -> bool:
        for each in candidates:
            if each is not new and each.is_waiting:
                self.remove(each)
                each.transport.abort()
                return True
        return False


class Connection(HttpToolsProtocol):
    """Uvicorn's HTTP protocol with limits on the time and size of headers, and on the number of connections.

    One that is closed before all of a request was received is read on for a while: otherwise the system would reset
    it, and the client, which is still sending, might never see the answer.
    """

    seconds = 30.0
    body = 8_000_000
    open_connections = Connections(500)
    _unread: int | None = 0  # bytes of incomplete headers; None when no headers are being received
    _body_due = False  # whether the client has yet to send the rest of a body
    _lingering: int | None = None  # bytes that are still received for nothing; None while the connection is used
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(_Transport(transport, self))  # type: ignore[arg-type]
        self.address = self.client[0] if self.client else ""
        if not self.open_connections.add(self):
            self._app, self.app = self.app, self._only_health
        self._await_headers()

    @property
    def is_waiting(self) -> bool:
        """Check whether the client has to send something before anything can be done for it."""
        return not self.pipeline and (self.cycle is None or self.cycle.response_complete or self._body_due)

    def data_received(self, data: bytes) -> None:
        if self._lingering is not None:
            self._lingering -= len(data)
            if self._lingering < 0:
                self.transport.abort()
            return
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
        self._unread, self._body_due = None, True
        self._cancel_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._body_due = False
        self._cancel_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.open_connections.wait_again(self)
        if self._body_due and self._lingering is None:  # nobody reads the rest, nor notices if it does not come
            self._start_timer(self.seconds)
        super().on_response_complete()

    def linger(self) -> bool:
        """Read on for a while if the client is still sending; return False if it is not."""
        if not self._body_due or self._lingering is not None:
            return False
        self._lingering = self.body
        self._cancel_timer()
        self._timer = self.loop.call_later(LINGER, self.transport.abort)
        self.flow.resume_reading()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        self._body_due = False
        self.open_connections.remove(self)
        super().connection_lost(exc)

    async def _only_health(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer only whether the service is healthy: other requests keep all connections of this address busy."""
        if scope.get("raw_path") in HEALTH:
            await self._app(scope, receive, send)
        else:
            headers = {"Retry-After": "1", "Connection": "close"}
            answer = {"error": "There are too many requests from your address at the same time. Retry in 1 s."}
            await JSONResponse(answer, 503, headers)(scope, receive, send)

    def _await_headers(self) -> None:
        self._unread = 0
        self._start_timer(self.seconds)

    def _start_timer(self, seconds: float) -> None:
        self._cancel_timer()
        self._timer = self.loop.call_later(seconds, self.transport.close)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Transport:
    """A transport that lingers when it is closed while the client is still sending."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport, self._connection, self._closed = transport, connection, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._closed or self._transport.is_closing()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if not self._transport.is_closing() and self._connection.linger():
            self._transport.write_eof()
        else:
            self._transport.close()
