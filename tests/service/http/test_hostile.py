"""Bad requests are refused, and nothing breaks."""

import json
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import product

import httpx
import pytest

from tests.helpers.hostile import (
    BODY,
    EXAMPLES,
    PNG,
    X,
    accepted,
    check_works,
    mutated,
    peak,
    refused,
    survived,
)
from tests.helpers.openapi import as_documented
from tests.helpers.processes import LONG, wait_for
from tests.helpers.serving import VECTORS, Hosted, Line, Served, text

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """A service that waits 0.2 s for a request, and knows three classes at most."""
    with Hosted(
        tmp_path_factory.mktemp("hasty") / "model", (*VECTORS, "limits.seconds=0.2", "limits.classes=3")
    ) as one:
        yield one


# Bodies of any kind

ONE = b'{"x": [1, 0, 0, 0], "label": "a"}'
BAD = {
    "nothing": b"",
    "not JSON": b"hello",
    "half of it": ONE[:-5],
    "more after it": ONE + b"{}",
    "a number": b"5",
    "null": b"null",
    "a list": b"[" + ONE + b"]",
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"x":' * 100_000,
    "deep lists as x": ONE.replace(b"[1,", b"[" * 50_000 + b"1" + b"]" * 50_000 + b","),
    "invalid UTF-8": ONE.replace(b"a", b"\xff"),
    "UTF-16": ONE.decode().encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + ONE,
    "half a surrogate pair": ONE.replace(b'"a"', b'"\\ud800"'),
    "a label of nothing": ONE.replace(b'"a"', b'""'),
    "a long label": ONE.replace(b"a", b"a" * 41),
    "null as label": ONE.replace(b'"a"', b"null"),
    "true as label": ONE.replace(b'"a"', b"true"),
    "a fraction as label": ONE.replace(b'"a"', b"1.5"),
    "a list as label": ONE.replace(b'"a"', b'["a"]'),
    "a huge number as label": ONE.replace(b'"a"', b"9223372036854775808"),
    "a number of a thousand digits as label": ONE.replace(b'"a"', b"9" * 1000),
    "NaN": ONE.replace(b"[1", b"[NaN"),
    "Infinity": ONE.replace(b"[1", b"[-Infinity"),
    "1e400": ONE.replace(b"[1", b"[1e400"),
    "beyond 32 bits": ONE.replace(b"[1", b"[1e39"),
    "a number of 400 digits": ONE.replace(b"[1", b"[" + b"9" * 400),
    "a number of 10,000 digits": ONE.replace(b"[1", b"[" + b"9" * 10_000),
    "true as number": ONE.replace(b"[1", b"[true"),
    "text as number": ONE.replace(b"[1", b'["1"'),
    "null as number": ONE.replace(b"[1", b"[null"),
    "too few numbers": ONE.replace(b"[1, 0,", b"["),
    "too many numbers": ONE.replace(b"[1,", b"[1, 1,"),
    "no numbers": ONE.replace(b"[1, 0, 0, 0]", b"[]"),
    "an object as x": ONE.replace(b"[1, 0, 0, 0]", b'{"0": 1}'),
    "another field": ONE.replace(b'"label"', b'"weight": 1, "label"'),
    "the last of two x is wrong": ONE.replace(b'"label"', b'"x": [], "label"'),
    "an image": b'{"image": "' + text(PNG).encode() + b'", "label": "a"}',
    "both one and many": b'{"examples": [' + ONE + b'], "x": [1, 0, 0, 0], "label": "a"}',
    "no examples": b'{"examples": []}',
    "one bad of many": b'{"examples": [' + ONE + b"," + ONE.replace(b"[1", b"[true") + b"]}",
    "too many examples": b'{"examples": [' + b",".join([ONE] * (EXAMPLES + 1)) + b"]}",
    "far too many examples": b'{"examples": [' + b",".join([b"{}"] * 500_000) + b"]}",
    "a path as id": ONE.replace(b"{", b'{"id": "../../etc/passwd", '),
    "a line as id": ONE.replace(b"{", b'{"id": "a\\n", '),
    "a NUL in the id": ONE.replace(b"{", b'{"id": "a\\u0000", '),
    "an id of nothing": ONE.replace(b"{", b'{"id": "", '),
    "a number as id": ONE.replace(b"{", b'{"id": 1, '),
    "a long id": ONE.replace(b"{", b'{"id": "' + b"a" * 41 + b'", '),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_body_is_refused_and_nothing_in_it_accepted(vectors: Served, kind: str) -> None:
    before = accepted(vectors)
    assert "\n" not in refused(vectors.client.post("/v1/learn", content=BAD[kind], headers=JSON), 422)
    assert accepted(vectors) == before


def test_unusual_labels_that_are_allowed_come_back_unchanged(vectors: Served) -> None:
    strange = [
        "a\0",
        "\0",
        "\u2028",
        "🦆" * 40,
        "<script>",
        "'; DROP TABLE examples; --",
        "NaN",
        " ",
        -(2**63),
        2**63 - 1,
    ]
    vectors.post("/v1/learn", {"examples": [{"x": X, "label": label} for label in strange]}, 202)
    known = [each["label"] for each in vectors.settled()["classes"]]
    assert set(strange) <= set(known)
    assert "a" in known


def test_the_last_of_two_equal_fields_counts(vectors: Served) -> None:
    body = b'{"id": "doubled", "x": [], "x": [1, 0, 0, 0], "label": "b", "label": "a"}'
    assert vectors.client.post("/v1/learn", content=body, headers=JSON).status_code == 202
    again = vectors.post("/v1/learn", {"id": "doubled", "x": X, "label": "a"}, 202)
    assert again["repeated"] == 1


def test_numbers_near_the_end_of_the_range_do_not_stop_learning(vectors: Served) -> None:
    for size in (3.4e38, 1e19):
        corners = [{"x": [size * sign for sign in signs]} for signs in product((1, -1), repeat=4)]
        for corner in corners:
            answer = vectors.client.post("/v1/predict", json=corner)
            assert answer.status_code == 200 or refused(answer, 422)
        answer = vectors.client.post("/v1/learn", json={"examples": [corner | {"label": "a"} for corner in corners]})
        assert answer.status_code == 202 or refused(answer, 422)
        for _ in range(3):
            check_works(vectors)


@pytest.mark.parametrize("top", ["0", "-1", "1.5", "true", '"5"', "null", "1e3", "[5]"])
def test_a_top_that_is_not_a_positive_integer_is_refused(vectors: Served, top: str) -> None:
    body = b'{"x": [1, 0, 0, 0], "top": ' + top.encode() + b"}"
    refused(vectors.client.post("/v1/predict", content=body, headers=JSON), 422)


@pytest.mark.parametrize("top", ["1000000000", "9" * 30, "9" * 400])
def test_a_huge_top_reports_all_labels(vectors: Served, top: str) -> None:
    body = b'{"x": [1, 0, 0, 0], "top": ' + top.encode() + b"}"
    answer = vectors.client.post("/v1/predict", content=body, headers=JSON)
    assert answer.status_code == 200
    assert len(answer.json()["predictions"][0]["probabilities"]) == len(vectors.settled()["classes"])


def test_more_labels_than_there_may_be_are_refused(hasty: Hosted) -> None:
    hasty.post("/v1/learn", {"examples": [{"x": X, "label": "a", "id": "known"}, {"x": X, "label": "b"}]}, 202)
    for at in range(4):  # with an id that is known with other content, so that no label is added
        new = [{"x": X, "label": f"new-{at}"}, {"x": X, "label": "b", "id": "known"}]
        refused(hasty.client.post("/v1/learn", json={"examples": new}), 409)
    assert len(hasty.settled()["classes"]) == 2
    hasty.post("/v1/learn", {"x": X, "label": "c"}, 202)
    assert "the limit is 3" in refused(hasty.client.post("/v1/learn", json={"x": X, "label": "d"}), 422)
    assert [each["label"] for each in hasty.settled()["classes"]] == ["a", "b", "c"]
    hasty.post("/v1/learn", {"x": X, "label": "a"}, 202)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "", "image/png"]
)
@pytest.mark.parametrize("path", ["/v1/learn", "/v1/predict", "/v1/label"])
def test_another_content_type_is_refused(vectors: Served, path: str, kind: str) -> None:
    answer = vectors.client.post(path, content=ONE, headers={"Content-Type": kind} if kind else {})
    assert "application/json" in refused(answer, 415)


# Too much, or too slowly


def pieces(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b" " * 100_000


@pytest.mark.parametrize("path", ["/v1/learn", "/v1/predict", "/v1/label", "/v1/checkpoint"])
def test_a_body_that_is_too_large_is_refused(vectors: Served, path: str) -> None:
    assert "larger than 2,000,000" in refused(vectors.client.post(path, content=b" " * (BODY + 1), headers=JSON), 413)
    assert "larger than 2,000,000" in refused(vectors.client.post(path, content=pieces(40), headers=JSON), 413)


HEAD = b"POST /v1/learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def test_headers_that_do_not_end_are_cut_off_while_others_are_served(
    hasty: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = time.monotonic()
    with Line(hasty) as silent, Line(hasty, GET) as half:
        assert hasty.get("/healthz") == {"status": "ok"}
        assert [silent.received(), half.received()] == [b"", b""]
    assert time.monotonic() - begun >= 0.2
    with monkeypatch.context() as patience:
        patience.setattr(hasty.server.config.http, "seconds", LONG)
        second = Line(hasty, GET + b"\r\n")
        assert second.socket.recv(1000).startswith(b"HTTP/1.1 200 ")
    with second, suppress(OSError):  # a busy machine may have closed an idle connection
        second.socket.sendall(GET)
        assert second.received().count(b"HTTP/1.1 ") == 0


def test_bodies_that_do_not_end_are_cut_off_while_others_are_served(
    hasty: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hasty.server.config.http, "seconds", LONG)  # their headers are complete, however slowly
    before, begun = accepted(hasty), time.monotonic()
    with (
        Line(hasty, HEAD + b"Content-Length: 33\r\n\r\n" + ONE[:20]) as half_body,
        Line(hasty, HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n") as half_chunks,
        Line(hasty, HEAD.replace(b"learn", b"checkpoint") + b"Content-Length: 33\r\n\r\n{") as half_note,
        Line(hasty, HEAD + b"Content-Length: 999999\r\n\r\n") as dripping,
    ):
        assert hasty.get("/healthz") == {"status": "ok"}
        wait_for(lambda: dripping.answered() or dripping.pour(b" ", 1) == 0)
        for line in (half_body, half_chunks, half_note, dripping):
            answer = line.received()
            assert answer.startswith(b"HTTP/1.1 408 "), answer
            assert b"was not complete after 0.2 s" in answer
    assert time.monotonic() - begun >= 0.2
    assert accepted(hasty) == before


@pytest.mark.parametrize(
    ("data", "piece"),
    [
        (GET, b"X-More: " + b"a" * 4000 + b"\r\n"),
        (GET + b"X-Long: ", b"a" * 4000),
        (b"GET /", b"a" * 4000),
        (GET + b"\r\n" + GET, b"X-More: " + b"a" * 4000 + b"\r\n"),
    ],
    ids=["headers", "one header", "path", "headers of a second request"],
)
def test_endless_headers_are_cut_off(vectors: Served, data: bytes, piece: bytes) -> None:
    before = peak(vectors)
    with Line(vectors, data) as line:
        assert line.pour(piece, 60_000_000) < 60_000_000
    assert peak(vectors) - before < 30_000_000


def test_trailers_of_a_chunked_body_are_not_kept(vectors: Served) -> None:
    before = peak(vectors)
    with Line(vectors, HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n") as line:
        line.pour(b"X-More: " + b"a" * 4000 + b"\r\n", 80_000_000)
    assert vectors.get("/healthz") == {"status": "ok"}
    assert peak(vectors) - before < 30_000_000


def test_a_body_of_many_fields_costs_little(vectors: Served) -> None:
    many = b",".join(b'"k%d":0' % at for at in range(170_000))
    before = peak(vectors)
    for body in (b"{" + many + b"," + ONE[1:], b'{"examples": [{' + many + b"," + ONE[1:] + b"]}"):
        assert len(body) < BODY
        assert len(refused(vectors.client.post("/v1/learn", content=body, headers=JSON), 422)) < 1000
    assert peak(vectors) - before < 120_000_000


def test_a_client_that_disconnects_causes_no_error(vectors: Served) -> None:
    paths = ("learn", "predict", "label", "checkpoint")
    before, handled, begun = accepted(vectors), requests_to(vectors, paths), datetime.now(UTC).isoformat()
    for path in paths:
        with Line(vectors, HEAD.replace(b"learn", path.encode()) + b"Content-Length: 33\r\n\r\n" + ONE[:20]):
            pass
    wait_for(lambda: requests_to(vectors, paths) == handled + len(paths))
    logged = [json.loads(line) for line in vectors.log.read_text().rpartition("\n")[0].splitlines() if line[:1] == "{"]
    lines = [line for line in logged if line["time"] > begun]  # those of earlier tests may be written only now
    assert {(line["kind"], line["status"]) for line in lines if line.get("method") == "POST"} <= {("access", 499)}
    assert {line["kind"] for line in lines} <= {"access"}
    assert accepted(vectors) == before


def requests_to(served: Served, paths: Sequence[str]) -> float:
    """Return how many requests to these paths have been handled, whatever became of them."""
    lines = served.client.get("/metrics").text.splitlines()
    counts = [line for line in lines if line.startswith("evenkeel_request_seconds_count{")]
    return sum(float(line.split()[-1]) for line in counts if any(f'route="/v1/{path}"' in line for path in paths))


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_not_http_is_a_bad_request(vectors: Served, data: bytes) -> None:
    with Line(vectors, data) as line:
        assert line.received().startswith(b"HTTP/1.1 400 ")


# Foreign pages and paths


def test_another_name_for_this_machine_is_refused(vectors: Served) -> None:
    port = httpx.URL(vectors.url).port
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "",
        "[",
        "0.0.0.0",
    ):
        answer = vectors.client.get("/v1/status", headers={"Host": host})
        assert "127.0.0.1" in refused(answer, 403), host
    for host in ("localhost", f"127.0.0.1:{port}", "127.0.0.2", f"[::1]:{port}", "LOCALHOST"):
        assert vectors.client.get("/v1/status", headers={"Host": host}).status_code == 200, host


def test_a_page_of_another_site_is_refused(vectors: Served) -> None:
    port = httpx.URL(vectors.url).port
    before = accepted(vectors)
    for origin in (
        "http://evil.example",
        "null",
        f"http://127.0.0.1:{port + 1 if port else 1}",
        "http://[",
        "x",
        "http://127.0.0.1",
    ):
        answer = vectors.client.post("/v1/learn", json={"x": X, "label": "a"}, headers={"Origin": origin})
        assert "other sites" in refused(answer, 403), origin
        assert "access-control-allow-origin" not in answer.headers
    assert accepted(vectors) == before
    own = vectors.client.post("/v1/predict", json={"x": X}, headers={"Origin": vectors.url})
    assert own.status_code == 200


def test_no_page_is_allowed_by_a_preflight_request(vectors: Served) -> None:
    for origin in ("http://evil.example", vectors.url):
        preflight = {
            "Origin": origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type",
        }
        answer = vectors.client.options("/v1/learn", headers=preflight)
        assert answer.status_code in (403, 405)
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "path",
    [
        "/pages/../../service.toml",
        "/pages/..%2f..%2fkeys.json",
        "/pages/%2e%2e/%2e%2e/keys.json",
        "/pages/..%5c..%5ckeys.json",
        "/pages/%2fetc%2fpasswd",
        "/pages//etc/passwd",
        "/pages/dashboard.css%00",
        "/pages/",
        "/static-offline-docs/..%2f..%2f..%2f..%2fpyproject.toml",
        "/static-offline-docs/%2e%2e/%2e%2e/__init__.py",
        "/static-offline-docs/%2fetc%2fpasswd",
        "/static-offline-docs/",
        "//etc/passwd",
        "/../../../../etc/passwd",
        "/service.toml",
        "/%00",
        "/%ff",
    ],
)
def test_no_path_leads_to_a_file(vectors: Served, path: str) -> None:
    with Line(vectors, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()) as line:
        answer = line.received()  # sent as it is: a client would normalize the path
    assert answer.startswith(b"HTTP/1.1 404 "), answer
    assert "error" in json.loads(answer.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize(
    "id", ["..%2f..%2fservice.toml", "%2e%2e", "a%00b", "%ff%fe", "%ed%a0%80", "x" * 5000, "%0a", "'%20OR%201=1"]
)
def test_nothing_is_stored_under_a_malformed_id(vectors: Served, id: str) -> None:
    files = sorted(path.name for path in vectors.folder.iterdir())
    with Line(
        vectors, f"DELETE /v1/examples/{id} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
    ) as line:
        assert line.received().startswith(b"HTTP/1.1 404 ")
    assert sorted(path.name for path in vectors.folder.iterdir()) == files


def test_damaged_bodies_never_break_it(vectors: Served) -> None:
    rng, seen = random.Random(0), set[int]()
    learn = json.dumps(
        {"examples": [{"x": [0.5, 1e-3, -2, 7], "label": "a", "id": "one"}, {"x": X, "label": 3}]}
    ).encode()
    predict = json.dumps({"examples": [{"x": X}], "top": 3, "keep": True}).encode()
    for _ in range(400):
        path, body = rng.choice([("/v1/learn", learn), ("/v1/predict", predict), ("/v1/checkpoint", b'{"note": "x"}')])
        seen.add(survived(vectors.client.post(path, content=mutated(body, rng), headers=JSON)))
    assert {200, 202, 422} <= seen
    check_works(vectors)


@pytest.mark.slow
def test_a_vector_service_conforms_to_its_openapi_document(vectors: Served) -> None:
    assert len(as_documented(vectors, 10)) == 15
    check_works(vectors)
