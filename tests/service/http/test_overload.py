"""A server whose queue is full, or to which many connect who then say nothing: everyone else is served."""

import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from evenkeel.service.service import Service
from evenkeel.service.store.predictions import Predictions
from tests.helpers.processes import LONG
from tests.helpers.services import examples, teach
from tests.helpers.serving import VECTORS, Hosted, Line

CONNECTIONS, BODY = 40, 8_000_000
FULL = (
    "batches.size=8",
    "batches.wait=3600",
    "limits.queue=7",
    f"limits.connections={CONNECTIONS}",
    f"limits.seconds={LONG}",
)
GET = b"GET /v1/history HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """A service that has learned something, and waits for one more example than its queue can hold."""
    folder = tmp_path_factory.mktemp("full") / "model"
    service = Service(folder, None, VECTORS)
    service.start()
    teach(service, examples(8))
    service.close()
    with Hosted(folder, FULL) as served:
        served.post("/v1/learn", {"examples": [{"x": [1, 0, 0, 0], "label": "cat"}] * 7})
        yield served


def connection(served: Hosted) -> http.client.HTTPConnection:
    """Return a client that sends all of a request before it reads anything of the answer."""
    address = httpx.URL(served.url)
    return http.client.HTTPConnection(address.host, address.port, timeout=LONG)


def refused(client: http.client.HTTPConnection, body: object, **headers: str) -> http.client.HTTPResponse:
    """Teach, and check that the answer is a proper 429."""
    kind = {"Content-Type": "application/json"}
    client.request("POST", "/v1/learn", body, kind | headers, encode_chunked="Transfer-Encoding" in headers)  # type: ignore[arg-type]
    answer = client.getresponse()
    content = json.loads(answer.read())
    assert (answer.status, list(content)) == (429, ["error"])
    assert "7 examples are waiting" in content["error"]
    assert int(answer.headers["retry-after"]) >= 1
    return answer


@pytest.mark.parametrize("size", [0, 1_000, 250_000])
def test_a_connection_is_used_again_after_a_short_body_was_refused(full: Hosted, size: int) -> None:
    client = connection(full)
    for _ in range(3):
        refused(client, b" " * size)
    used = client.sock
    client.request("GET", "/healthz")
    assert json.loads(client.getresponse().read()) == {"status": "ok"}
    assert client.sock is used
    client.close()


def test_a_client_that_sends_eight_megabytes_first_still_gets_its_429(full: Hosted) -> None:
    client = connection(full)
    for _ in range(3):  # which opens a new connection each time
        answer = refused(client, b" " * BODY)
        assert answer.headers["connection"] == "close"
    pieces = [b" " * 100_000] * (BODY // 100_000)
    assert refused(client, iter(pieces), **{"Transfer-Encoding": "chunked"}).headers["connection"] == "close"
    client.close()
    with httpx.Client(base_url=full.url, timeout=LONG) as other:
        for size in (1_000, BODY, 1_000, BODY):
            assert other.post("/v1/learn", content=b" " * size).status_code == 429


def test_the_refusal_comes_before_the_body(full: Hosted) -> None:
    head = b"POST /v1/learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with Line(full, head + b"Content-Length: %d\r\n\r\n" % BODY) as line:
        answer = line.received()
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert b"connection: close" in answer


def test_a_client_that_waits_to_be_asked_for_its_body_is_not_misunderstood(full: Hosted) -> None:
    head = b"POST /v1/learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n"
    with Line(full, head) as line:
        answer = line.received()  # until it is closed: what comes next may be the body, or another request
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert answer.count(b"HTTP/1.1") == 1


def test_a_refused_body_that_never_comes_does_not_hold_a_connection(
    full: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full.server.config.http, "seconds", 1)
    head = b"POST /v1/learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"
    begun = time.monotonic()
    with Line(full, head + b" " * 10) as line:
        assert line.received().startswith(b"HTTP/1.1 429 ")
    assert time.monotonic() - begun > 0.9  # it waited for the rest, and then gave up


def test_predictions_and_repeats_are_served_while_the_queue_is_full(full: Hosted) -> None:
    assert full.post("/v1/predict", {"x": [1, 0, 0, 0]})["predictions"][0]["label"] == "cat"
    queue = full.get("/v1/status")["queue"]
    assert (queue["waiting"], queue["limit"]) == (7, 7)
    assert full.get("/v1/status")["queue"]["seconds"] > queue["seconds"] > 0  # the oldest one waits
    assert full.get("/readyz") == {"status": "ready"}


def flood(full: Hosted, count: int) -> None:
    """Open connections and send half a request on each; check meanwhile that others are served."""
    parts = (b"", GET, GET + b"\r\n", b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{")
    with ExitStack() as stack:
        lines = [stack.enter_context(Line(full)) for _ in range(count)]
        for place, line in enumerate(lines):
            try:
                line.socket.sendall(parts[place % len(parts)])
            except OSError:  # it was closed to make room
                continue
        for path in ("/healthz", "/readyz", "/v1/history"):
            assert httpx.get(full.url + path, timeout=LONG).status_code == 200
        assert httpx.post(f"{full.url}/v1/predict", json={"x": [1, 0, 0, 0]}, timeout=LONG).status_code == 200
        assert len(full.server.server_state.connections) <= CONNECTIONS + 1


def test_half_open_connections_keep_nobody_out(full: Hosted) -> None:
    flood(full, 2 * CONNECTIONS)


@pytest.mark.slow
def test_a_thousand_half_open_connections_keep_nobody_out(full: Hosted) -> None:
    flood(full, 1_000)


def test_the_first_connections_are_closed_when_there_are_too_many(full: Hosted) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(Line(full, GET))
        for _ in range(CONNECTIONS):
            stack.enter_context(Line(full, GET))
        assert first.received() == b""  # and not because it was slow: that would take minutes


def test_others_are_served_while_many_are_forgotten(full: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, served, forget = threading.Event(), threading.Event(), Predictions.forget

    def slowly(self: Predictions, ids: Sequence[str]) -> list[str]:
        begun.set()
        assert served.wait(LONG)
        return forget(self, ids)

    monkeypatch.setattr(Predictions, "forget", slowly)
    with ThreadPoolExecutor(1) as other, httpx.Client(base_url=full.url, timeout=LONG) as client:
        forgetting = other.submit(client.post, "/v1/forget", json={"ids": ["unknown"]})
        assert begun.wait(LONG)
        try:
            assert full.client.get("/healthz", timeout=LONG / 10).status_code == 200
        finally:
            served.set()
        assert forgetting.result().json()["unknown"] == ["unknown"]
