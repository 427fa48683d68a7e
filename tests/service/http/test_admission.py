"""Who is let in and when: the queue, rates, turns and connections, without a server."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from evenkeel.service.examples import FullError
from evenkeel.service.http import admission, schemas
from evenkeel.service.http.admission import Door, RateError, Rates, Turns
from evenkeel.service.http.app import make_app
from evenkeel.service.http.connections import Connection, Connections
from evenkeel.service.service import Service
from evenkeel.service.store.keys import Keyring, add_key
from tests.helpers.services import Open, examples

T = TypeVar("T")


class Clock:
    """A clock that moves when it is set, and when something waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("evenkeel.service.http.admission.time.monotonic", lambda: self.now)
        monkeypatch.setattr("evenkeel.service.http.admission.asyncio.sleep", self.wait)

    async def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, run in a thread of its own: a browser keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


# The queue


class Queue:
    """A service that only has a queue."""

    def __init__(self, limit: int, waiting: int = 0) -> None:
        self.limit, self.waiting = limit, waiting

    @property
    def room(self) -> int:
        return self.limit - self.waiting

    def full(self, count: int) -> FullError:
        return FullError(self.waiting, 1, count)


def attempt(door: Door, queue: Queue, count: int) -> str:
    """Send a request with so many examples; return where it ended."""
    return finished(enter(door, queue, count))


async def enter(door: Door, queue: Queue, count: int) -> str:
    read = False
    try:
        async with door.entered():
            read = True
            if count > queue.room:
                raise queue.full(count)
            queue.waiting += count
    except FullError:
        return "read in vain" if read else "refused"
    return "accepted"


def test_a_full_queue_refuses_before_reading() -> None:
    queue = Queue(100, waiting=100)
    door = Door(cast("Service", queue))
    assert {attempt(door, queue, 1) for _ in range(5)} == {"refused"}
    queue.waiting = 99
    assert attempt(door, queue, 1) == "accepted"


def test_a_queue_with_too_little_room_reads_few_requests_in_vain(clock: Clock) -> None:
    queue = Queue(10_000, waiting=9_984)  # there is always room for 16, and never for 32
    door = Door(cast("Service", queue))
    seen, begun = [], clock.now
    for _ in range(1_000):
        seen.append(attempt(door, queue, 32))
        clock.now += 0.001
    assert set(seen) == {"read in vain", "refused"}
    assert seen.count("read in vain") <= 2 + (clock.now - begun) / admission.PAUSE
    queue.waiting -= 32  # a batch is learned
    assert attempt(door, queue, 32) == "accepted"


def test_a_small_request_gets_in_although_a_large_one_did_not(clock: Clock) -> None:
    queue = Queue(8, waiting=5)
    door = Door(cast("Service", queue))
    assert attempt(door, queue, 8) == "read in vain"
    clock.now += admission.PAUSE
    assert attempt(door, queue, 3) == "accepted"


def test_requests_that_are_being_read_count() -> None:
    queue = Queue(64, waiting=63)
    door = Door(cast("Service", queue))
    assert attempt(door, queue, 32) == "read in vain"
    queue.waiting = 0

    async def three() -> None:
        async with door.entered(), door.entered():
            with pytest.raises(FullError):
                await door.entered().__aenter__()

    finished(three())
    assert attempt(door, queue, 32) == "accepted"


def test_who_sends_on_although_the_queue_is_full_is_kept_waiting(clock: Clock) -> None:
    queue = Queue(100, waiting=100)
    door = Door(cast("Service", queue))
    begun = clock.now
    assert {attempt(door, queue, 1) for _ in range(admission.AT_ONCE)} == {"refused"}
    assert clock.now == begun  # a few are refused at once
    assert {attempt(door, queue, 1) for _ in range(2 * admission.REFUSALS)} == {"refused"}
    assert clock.now - begun == pytest.approx(2.0, rel=0.01)
    clock.now += 1.0
    later = clock.now
    assert attempt(door, queue, 1) == "refused"
    assert clock.now == later  # it was quiet for a while


def test_nobody_is_kept_waiting_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, waits = Queue(100, waiting=100), list[float]()
    door = Door(cast("Service", queue))
    sleep = asyncio.sleep

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    async def all_at_once() -> list[str]:
        return await asyncio.gather(*(enter(door, queue, 1) for _ in range(3 * admission.REFUSALS)))

    monkeypatch.setattr("evenkeel.service.http.admission.asyncio.sleep", wait)
    assert set(finished(all_at_once())) == {"refused"}
    assert max(waits) == pytest.approx(admission.PATIENCE, rel=0.01)


@pytest.mark.usefixtures("clock")
def test_a_request_gets_in_if_there_is_room_after_its_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(100, waiting=100)
    door = Door(cast("Service", queue))
    assert {attempt(door, queue, 1) for _ in range(admission.AT_ONCE)} == {"refused"}

    async def wait(_: float) -> None:
        queue.waiting = 0

    monkeypatch.setattr("evenkeel.service.http.admission.asyncio.sleep", wait)
    assert attempt(door, queue, 1) == "accepted"


@pytest.fixture
def app(opened: Open) -> FastAPI:
    """An app whose queue of eight examples is full."""
    service = opened("limits.queue=8", "batches.size=16", "batches.wait=3600", start=False)
    service.learn(examples(8)).result()
    return make_app(service, Keyring(service.model_folder.keys, open_without=True))


@pytest.mark.parametrize("path", ["/v1/learn", "/v1/label"])
def test_a_refused_body_is_not_parsed(app: FastAPI, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas.Schemas, "read", None)
    http = TestClient(app, "http://127.0.0.1")
    for content in (b"not JSON", b'{"x": [1, 0, 0, 0], "label": "a"}', b""):
        answer = http.post(path, content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 429
        assert "8 examples are waiting" in answer.json()["error"]
        assert int(answer.headers["retry-after"]) >= 1


def test_the_key_is_checked_before_the_queue(app: FastAPI) -> None:
    path = app.state.keyring._path
    add_key(path, "camera", ["predict"])
    app.state.keyring = Keyring(path, open_without=True)
    assert TestClient(app, "http://127.0.0.1").post("/v1/learn").status_code == 401


# Rates


def test_a_key_may_send_so_many_requests_per_second_and_others_do_not_matter(clock: Clock) -> None:
    rates = Rates(5)
    for _ in range(5):
        rates.take("a")
    with pytest.raises(RateError, match=r"This key may send 5 requests per second. Retry in 1 s."):
        rates.take("a")
    rates.take("b")
    clock.now += 0.2
    rates.take("a")
    with pytest.raises(RateError):
        rates.take("a")
    clock.now += 3600  # it saves up for one second, not for an hour
    for _ in range(5):
        rates.take("a")
    with pytest.raises(RateError):
        rates.take("a")


def test_a_slow_rate_says_when_to_come_back() -> None:
    rates = Rates(0.1)
    rates.take("a")
    with pytest.raises(RateError) as raised:
        rates.take("a")
    assert raised.value.seconds == 10


def test_a_key_beyond_its_rate_gets_429(opened: Open) -> None:
    service = opened("limits.rate=0.001", start=False)
    path = service.model_folder.keys
    keys = [add_key(path, name, ["admin"]) for name in ("one", "other")]
    http = TestClient(make_app(service, Keyring(path, open_without=True)), "http://127.0.0.1")

    def status(key: str) -> int:
        return http.get("/v1/history", headers={"Authorization": f"Bearer {key}"}).status_code

    assert [status(keys[0]) for _ in range(3)] == [200, 429, 429]
    assert status(keys[1]) == 200
    assert http.get("/healthz").status_code == 200


# Turns


def in_turns(*sent: str) -> list[str]:
    """Send work of these keys at the same time, behind a piece that blocks the only thread; return the order."""
    order, free = list[str](), threading.Event()

    async def send() -> None:
        turns = Turns(1)
        blocked = asyncio.create_task(turns.run("first", free.wait))
        await asyncio.sleep(0)
        tasks = [asyncio.create_task(turns.run(key, partial(order.append, key))) for key in sent]
        await asyncio.sleep(0)
        free.set()
        await asyncio.gather(blocked, *tasks)
        assert (turns._free, turns._waiting) == (1, {})

    finished(send())
    return order


def test_keys_take_turns() -> None:
    assert "".join(in_turns(*"aaaabbc")) == "abcabaa"


def test_work_that_was_given_up_does_not_hold_a_turn() -> None:
    async def send() -> list[str]:
        turns, order, free = Turns(1), list[str](), threading.Event()
        blocked = asyncio.create_task(turns.run("a", free.wait))
        await asyncio.sleep(0)
        gone, kept = (asyncio.create_task(turns.run("b", partial(order.append, name))) for name in "xy")
        await asyncio.sleep(0)
        gone.cancel()
        free.set()
        await asyncio.gather(blocked, gone, kept, return_exceptions=True)
        await turns.run("c", lambda: order.append("z"))
        return order

    assert finished(send()) == ["y", "z"]


def test_work_that_fails_passes_its_turn_on() -> None:
    async def send() -> str:
        turns = Turns(1)
        with pytest.raises(ZeroDivisionError):
            await turns.run("a", lambda: 1 // 0)
        return await turns.run("a", lambda: "done")

    assert finished(send()) == "done"


# Connections


class Line:
    """A connection that waits for its client, or is busy."""

    def __init__(self, address: str = "a", *, is_waiting: bool = True) -> None:
        self.address, self.is_waiting, self.closed = address, is_waiting, False
        self.transport = SimpleNamespace(abort=self.abort)

    def abort(self) -> None:
        self.closed = True


def added(connections: Connections, *lines: Line) -> list[bool]:
    return [connections.add(cast("Connection", line)) for line in lines]


def closed(lines: list[Line]) -> list[int]:
    return [place for place, line in enumerate(lines) if line.closed]


def test_beyond_the_limit_of_an_address_its_longest_waiting_connection_is_closed() -> None:
    connections, lines, other = Connections(3), [Line() for _ in range(5)], Line("b")
    assert all(added(connections, other, *lines))
    assert (closed(lines), other.closed) == ([0, 1], False)
    connections.wait_again(cast("Connection", lines[2]))  # it got an answer, so it waits since then
    assert added(connections, Line()) == [True]
    assert closed(lines) == [0, 1, 3]


def test_busy_connections_are_not_closed_and_further_ones_only_get_health() -> None:
    connections, busy, more = Connections(2), [Line(is_waiting=False) for _ in range(2)], [Line() for _ in range(3)]
    assert added(connections, *busy) == [True, True]
    assert added(connections, *more) == [False, True, True]  # each closes the one before, which waits
    assert (closed(busy), closed(more)) == ([], [0, 1])


def test_all_addresses_together_have_a_limit() -> None:
    connections, many, few = Connections(10, total=4), [Line("a") for _ in range(3)], [Line("b"), Line("c")]
    assert all(added(connections, *many, *few))
    assert (closed(many), closed(few)) == ([0], [])
    for line in (*many, *few):
        connections.remove(cast("Connection", line))
        connections.remove(cast("Connection", line))
    assert (connections._count, connections._open) == (0, {})


@pytest.mark.parametrize(("path", "expected"), [(b"/healthz", "the app"), (b"/readyz", "the app"), (b"/v1/learn", 503)])
def test_a_connection_too_many_only_gets_health(path: bytes, expected: object) -> None:
    connection, seen = object.__new__(Connection), list[Any]()

    async def app(*_: object) -> None:
        seen.append("the app")

    async def send(message: Any) -> None:
        seen.append(message.get("status"))

    connection._app = app
    finished(connection._only_health({"type": "http", "raw_path": path}, cast("Any", None), send))
    assert seen[0] == expected
