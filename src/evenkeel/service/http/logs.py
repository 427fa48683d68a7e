"""Lines of JSON on stderr: requests (access), changes and who made them (audit), and errors.

No line holds a sample, a label, a key, or anything of a path but its pattern: only names of keys, counts and numbers,
and hashes of ids.
"""

import hashlib
import json
import logging
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from starlette.types import Scope

Logged = Literal["access", "audit", "error"]
ACCESS, AUDIT, ERRORS = (logging.getLogger(f"evenkeel.{kind}") for kind in ("access", "audit", "error"))
FOREIGN = ("uvicorn.error", "asyncio")  # loggers of libraries, whose warnings and errors are logged, too
WAITING = 10_000  # lines, at most: if stderr is not read, later ones are counted, and the service continues
PAUSE, LAST = 0.2, 5.0  # seconds between writes, and for the last one
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
    handler = _Lines()
    for logger in (ACCESS, AUDIT, ERRORS, *map(logging.getLogger, FOREIGN)):
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
    ACCESS.setLevel(logging.INFO if level == "access" else logging.CRITICAL)
    AUDIT.setLevel(logging.INFO if level != "error" else logging.CRITICAL)
    writer = threading.Thread(target=handler.write_all, name="log", daemon=True)
    writer.start()
    try:
        yield
    finally:
        handler.ended.set()
        writer.join(LAST)


class _Lines(logging.Handler):
    """Collects records for a thread that writes them now and then: one by one they would cost several times as much."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_AsJson())
        self.ended = threading.Event()
        self._records: deque[logging.LogRecord] = deque()
        self._lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._records) < WAITING:
            self._records.append(record)
        else:
            self._lost += 1

    def write_all(self) -> None:
        """Write what was collected, until nothing more comes."""
        while not self.ended.wait(PAUSE):
            self.write()
        self.write()

    def write(self) -> None:
        """Write what was collected so far, and how many lines were lost."""
        lines = [self.format(self._records.popleft()) for _ in range(len(self._records))]
        lost, self._lost = self._lost, 0
        if lost:
            lines.append(
                json.dumps({"kind": "error", "error": "Lines were lost: they could not be written.", "lost": lost})
            )
        if lines:
            with suppress(OSError, ValueError):  # nobody reads stderr any more
                sys.stderr.write("\n".join(lines) + "\n")
                sys.stderr.flush()


class _AsJson(logging.Formatter):
    """One object per line, in ASCII, so that nothing in it can look like another line."""

    def format(self, record: logging.LogRecord) -> str:
        is_ours = record.name.startswith("evenkeel.")
        kind = record.name.removeprefix("evenkeel.") if is_ours else record.levelname.lower()
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
