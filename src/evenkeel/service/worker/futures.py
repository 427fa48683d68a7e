"""Results that other threads will have."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def after(future: "Future[T]", change: "Callable[[T], U]") -> "Future[U]":
    """Return a future of the changed result, or of the error."""
    changed: Future[U] = Future()
    changed.set_running_or_notify_cancel()

    def pass_on(done: "Future[T]") -> None:
        try:
            changed.set_result(change(done.result()))
        except Exception as error:
            changed.set_exception(error)

    future.add_done_callback(pass_on)
    return changed
