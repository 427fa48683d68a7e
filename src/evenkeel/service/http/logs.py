"""Lines of JSON on stderr: requests (access), changes and who made them (audit), and errors.

No line holds a sample, a label, a key, or anything of a path but its pattern: only names of keys, counts and numbers,
and hashes of ids.
"""

import hashlib
import json
import logging
import queue
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path
from typing import Any, Literal

from starlette.types import Scope

Logged = Literal["access", "audit", "error"]
ACCESS, AUDIT, ERRORS = (logging.getLogger(f"evenkeel.{kind}") for kind in ("access", "audit", "error"))
FOREIGN = ("uvicorn.error", "asyncio")  # loggers of libraries, whose warnings and errors are logged as errors
WAITING = 10_000  # lines, at most: if stderr is not read, later ones are counted, and the service continues
LONG = 300  # characters of a library's message


def access(scope: Scope, status: int, seconds: float) -> None:
    """Log a request. Those that only check its health are not logged."""
    path = route(scope)
    if ACCESS.isEnabledFor(logging.INFO) and path not in ("/healthz", "/readyz"):
        facts = {"method": scope["method"], "route": path, "status": status, "ms": round(1000 * seconds, 1)}
        ACCESS.info(facts | _who(scope))


def audit(scope: Scope) -> None:
    """Log that a request changed something: what, and whose key it was."""
    facts = {"action": f"{scope['method']} {route(scope)}"} | scope.get("facts", {})
    AUDIT.info(facts | _who(scope))


def failure(sentence: str, scope: Scope) -> None:
    """Log why the service could not answer a request."""
    ERRORS.error({"error": sentence, "route": route(scope)} | _who(scope))


def note(scope: Scope, **facts: object) -> None:
    """Add facts to what will be logged if this request changes something."""
    scope["facts"] = facts


def hash_of(id: str) -> str:
    """Return what is logged instead of an id, which may be personal: the beginning of its SHA-256."""
    return hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:16]


def route(scope: Scope) -> str:
    """Return the pattern of the route: few, whatever is requested."""
    return getattr(scope.get("route"), "path", "other")


def _who(scope: Scope) -> dict[str, Any]:
    return {"key": scope.get("key"), "address": (scope.get("client") or (None,))[0]}


@contextmanager
def logging_to_stderr(level: Logged) -> Iterator[None]:
    """Write lines until the block ends: everything, changes and errors, or only errors."""
    lines: queue.Queue[Any] = queue.Queue(WAITING)
    handler = _Handler(lines)
    handler.setFormatter(_AsJson())
    listener = QueueListener(lines, logging.StreamHandler(sys.stderr))
    for logger in (ACCESS, AUDIT, ERRORS, *map(logging.getLogger, FOREIGN)):
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
    ACCESS.setLevel(logging.INFO if level == "access" else logging.CRITICAL)
    AUDIT.setLevel(logging.INFO if level != "error" else logging.CRITICAL)
    listener.start()
    try:
        yield
    finally:
        listener.stop()


class _Handler(QueueHandler):
    """Passes lines to the thread that writes them, and never waits for it."""

    def __init__(self, lines: "queue.Queue[Any]") -> None:
        super().__init__(lines)
        self.lines, self.lost = lines, 0

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.lines.put_nowait(record)
        except queue.Full:
            self.lost += 1

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        if self.lost and isinstance(record.msg, dict) and not self.lines.full():
            record.msg["lost"], self.lost = self.lost, 0  # lines before this one
        prepared: logging.LogRecord = super().prepare(record)
        return prepared


class _AsJson(logging.Formatter):
    """One object per line, in ASCII, so that nothing in it can look like another line."""

    def format(self, record: logging.LogRecord) -> str:
        kind = record.name.removeprefix("evenkeel.") if record.name.startswith("evenkeel.") else "error"
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": time, "kind": kind} | _facts(record))


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    """Return what a record says. Of an exception, not its message: it may quote what a client sent."""
    if isinstance(record.msg, dict):
        return record.msg
    facts: dict[str, Any] = {"error": record.getMessage().strip().partition("\n")[0][:LONG], "by": record.name}
    if record.exc_info and record.exc_info[1] is not None:
        exception = record.exc_info[1]
        frames = traceback.extract_tb(exception.__traceback__)
        facts["exception"] = type(exception).__name__
        facts["traceback"] = [f"{Path(each.filename).name}:{each.lineno} {each.name}" for each in frames]
    return facts
