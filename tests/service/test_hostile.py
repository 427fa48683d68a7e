"""What comes from outside may be anything: it is refused with a sentence, and the service goes on."""

import io
import json
import random
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from PIL import Image
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.service.serving import VECTORS, Served, encoded, text

BODY, EXAMPLES, SECONDS = 2_000_000, 50, 3
LIMITS = (
    f"limits.body={BODY}",
    f"limits.examples={EXAMPLES}",
    f"limits.seconds={SECONDS}",
    "limits.label=40",
    "limits.classes=200",
    "limits.pixels=1000000",
)
PICTURES = ("input.size=[8, 8]", "input.channels=1", "memory.capacity=50", "batches.wait=0.05")
JSON = {"Content-Type": "application/json"}
X = [1.0, 0.0, 0.0, 0.0]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("vectors") / "model", (*VECTORS, *LIMITS)) as served:
        served.post("/v1/learn", {"examples": [{"x": X, "label": "ab"[at % 2]} for at in range(32)]})
        served.settled()
        yield served
        assert "Traceback" not in served.log.read_text()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("pictures") / "model", (*PICTURES, *LIMITS)) as served:
        served.post("/v1/learn", {"examples": [{"image": text(PNG), "label": "ab"[at % 2]} for at in range(32)]})
        served.settled()
        yield served
        assert "Traceback" not in served.log.read_text()


PNG = encoded(Image.radial_gradient("L").resize((20, 20)))
JPEG = encoded(Image.radial_gradient("L").resize((20, 20)).convert("RGB"), "JPEG")


def refused(answer: httpx.Response, *statuses: int) -> str:
    """The sentence with which it was refused."""
    assert answer.status_code in statuses, (answer.status_code, answer.text[:500])
    assert answer.headers["content-type"] == "application/json"
    told = answer.json()
    assert list(told) == ["error"]
    assert told["error"]
    return str(told["error"])


def accepted(served: Served) -> int:
    numbers = served.get("/v1/status")["examples"]
    assert numbers["accepted"] == sum(numbers[part] for part in ("learned", "waiting", "refused", "withdrawn"))
    return int(numbers["accepted"])


def well(served: Served) -> None:
    """It is ready, and learns."""
    status = served.settled()
    assert status["error"] is None
    assert served.get("/readyz") == {"status": "ready"}
    sample = {"x": X} if status["input"]["kind"] == "vector" else {"image": text(PNG)}
    before = accepted(served)
    served.post("/v1/learn", {"examples": [sample | {"label": "a"}] * 3}, 202)
    after = served.settled()
    assert accepted(served) == before + 3
    assert after["examples"]["learned"] == status["examples"]["learned"] + 3
    assert len(served.post("/v1/predict", sample, 200)["predictions"]) == 1


def peak(served: Served) -> int:
    """Bytes of memory it had at most."""
    found = Path(f"/proc/{served.process.pid}/status")
    if not found.exists():
        pytest.skip("Only Linux tells.")
    (line,) = (line for line in found.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


# Bodies of any kind

ONE = b'{"x": [1, 0, 0, 0], "label": "a"}'
BAD = {
    "nothing": b"",
    "no JSON": b"hello",
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
def test_a_bad_body_is_refused_and_nothing_of_it_accepted(vectors: Served, kind: str) -> None:
    before = accepted(vectors)
    assert "\n" not in refused(vectors.client.post("/v1/learn", content=BAD[kind], headers=JSON), 422)
    assert accepted(vectors) == before


def test_strange_labels_that_are_allowed_come_back_as_they_were(vectors: Served) -> None:
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


def test_numbers_near_the_end_of_the_range_do_not_stop_the_learning(vectors: Served) -> None:
    for size in (3.4e38, 1e19):
        corners = [{"x": [size * sign for sign in signs]} for signs in product((1, -1), repeat=4)]
        for corner in corners:
            answer = vectors.client.post("/v1/predict", json=corner)
            assert answer.status_code == 200 or refused(answer, 422)
        answer = vectors.client.post("/v1/learn", json={"examples": [corner | {"label": "a"} for corner in corners]})
        assert answer.status_code == 202 or refused(answer, 422)
        for _ in range(3):
            well(vectors)


@pytest.mark.parametrize("top", ["0", "-1", "1.5", "true", '"5"', "null", "1e3", "[5]"])
def test_a_top_that_is_no_number_of_labels_is_refused(vectors: Served, top: str) -> None:
    body = b'{"x": [1, 0, 0, 0], "top": ' + top.encode() + b"}"
    refused(vectors.client.post("/v1/predict", content=body, headers=JSON), 422)


@pytest.mark.parametrize("top", ["1000000000", "9" * 30, "9" * 400])
def test_a_huge_top_tells_of_all_labels(vectors: Served, top: str) -> None:
    body = b'{"x": [1, 0, 0, 0], "top": ' + top.encode() + b"}"
    answer = vectors.client.post("/v1/predict", content=body, headers=JSON)
    assert answer.status_code == 200
    assert len(answer.json()["predictions"][0]["probabilities"]) == len(vectors.settled()["classes"])


def test_more_labels_than_there_may_be_are_refused(vectors: Served) -> None:
    before = accepted(vectors)
    for start in range(0, 250, EXAMPLES):
        new = [{"x": X, "label": f"new-{start + at}"} for at in range(EXAMPLES)]
        # With one that is known by another content, so that none of these labels comes to be.
        new[-1] = {"x": X, "label": "b", "id": "doubled"}
        refused(vectors.client.post("/v1/learn", json={"examples": new}), 409)
    assert accepted(vectors) == before
    assert len(vectors.get("/v1/status")["classes"]) < 50
    vectors.post("/v1/learn", {"x": X, "label": "new-0"}, 202)
    for start in range(0, 250, EXAMPLES):
        new = [{"x": X, "label": f"more-{start + at}"} for at in range(EXAMPLES)]
        last = vectors.client.post("/v1/learn", json={"examples": new})
    assert "the limit is 200" in refused(last, 422)
    assert len(vectors.settled()["classes"]) <= 200
    vectors.post("/v1/learn", {"x": X, "label": "a"}, 202)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "", "image/png"]
)
@pytest.mark.parametrize("path", ["/v1/learn", "/v1/predict", "/v1/label"])
def test_another_type_of_content_is_refused(vectors: Served, path: str, kind: str) -> None:
    answer = vectors.client.post(path, content=ONE, headers={"Content-Type": kind} if kind else {})
    assert "application/json" in refused(answer, 415)


def test_vectors_and_images_do_not_take_each_other(vectors: Served, pictures: Served) -> None:
    refused(pictures.client.post("/v1/learn", json={"x": X, "label": "a"}), 422)
    refused(pictures.client.post("/v1/predict", json={"x": X}), 422)
    refused(vectors.client.post("/v1/predict", json={"image": text(PNG)}), 422)
    refused(vectors.client.post("/v1/learn", files={"image": PNG}, data={"label": "a"}), 415)
    refused(vectors.client.post("/v1/predict", files={"image": PNG}), 415)
    refused(pictures.client.post("/v1/label", files={"image": PNG}, data={"label": "a"}), 415)


# Too much, or too slowly


def pieces(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b" " * 100_000


@pytest.mark.parametrize("path", ["/v1/learn", "/v1/predict", "/v1/label", "/v1/checkpoint"])
def test_a_body_that_is_too_large_is_refused(vectors: Served, path: str) -> None:
    assert "larger than 2,000,000" in refused(vectors.client.post(path, content=b" " * (BODY + 1), headers=JSON), 413)
    assert "larger than 2,000,000" in refused(vectors.client.post(path, content=pieces(40), headers=JSON), 413)


class Line:
    """A connection on which anything may be said."""

    def __init__(self, served: Served, said: bytes = b"") -> None:
        address = httpx.URL(served.url)
        self.socket = socket.create_connection((address.host, address.port or 80), timeout=60)
        self.socket.sendall(said)

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def heard(self) -> bytes:
        """All until the other side closes."""
        parts = []
        try:
            while part := self.socket.recv(65536):
                parts.append(part)
        except ConnectionResetError:
            pass
        return b"".join(parts)

    def pour(self, piece: bytes, most: int) -> int:
        """Bytes that were taken until the other side had enough."""
        poured = 0
        try:
            while poured < most:
                self.socket.sendall(piece)
                poured += len(piece)
        except OSError:
            pass
        return poured


HEAD = b"POST /v1/learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def test_who_is_too_slow_is_cut_off_while_others_are_served(vectors: Served) -> None:
    before, begun = accepted(vectors), time.monotonic()
    with (
        Line(vectors) as silent,
        Line(vectors, GET) as half_headers,
        Line(vectors, GET + b"\r\n" + GET) as second_headers,
        Line(vectors, HEAD + b"Content-Length: 33\r\n\r\n" + ONE[:20]) as half_body,
        Line(vectors, HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n") as half_chunks,
        Line(vectors, HEAD.replace(b"learn", b"checkpoint") + b"Content-Length: 33\r\n\r\n{") as half_note,
        Line(vectors, HEAD + b"Content-Length: 9999\r\n\r\n") as dripping,
    ):
        for _ in range(SECONDS):
            assert vectors.get("/healthz") == {"status": "ok"}
            dripping.socket.sendall(b" ")
            time.sleep(0.5)
        assert silent.heard() == b""
        assert half_headers.heard() == b""
        assert second_headers.heard().count(b"HTTP/1.1 ") == 1
        for line in (half_body, half_chunks, half_note, dripping):
            answer = line.heard()
            assert answer.startswith(b"HTTP/1.1 408 "), answer
            assert b"was not whole after 3 s" in answer
    assert SECONDS - 1 < time.monotonic() - begun < 10 * SECONDS
    assert accepted(vectors) == before


@pytest.mark.parametrize(
    ("said", "piece"),
    [
        (GET, b"X-More: " + b"a" * 4000 + b"\r\n"),
        (GET + b"X-Long: ", b"a" * 4000),
        (b"GET /", b"a" * 4000),
        (GET + b"\r\n" + GET, b"X-More: " + b"a" * 4000 + b"\r\n"),
    ],
    ids=["headers", "one header", "path", "headers of a second request"],
)
def test_endless_headers_are_cut_off(vectors: Served, said: bytes, piece: bytes) -> None:
    before = peak(vectors)
    with Line(vectors, said) as line:
        assert line.pour(piece, 60_000_000) < 60_000_000
    assert peak(vectors) - before < 30_000_000


def test_what_follows_a_body_of_chunks_is_not_kept(vectors: Served) -> None:
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


def test_a_client_that_goes_away_is_no_error_of_ours(vectors: Served) -> None:
    before, said = accepted(vectors), len(vectors.log.read_bytes())
    for path in (b"learn", b"predict", b"label", b"checkpoint"):
        with Line(vectors, HEAD.replace(b"learn", path) + b"Content-Length: 33\r\n\r\n" + ONE[:20]):
            time.sleep(0.05)
    time.sleep(0.3)
    assert vectors.log.read_bytes()[said:] == b""
    assert accepted(vectors) == before


@pytest.mark.parametrize(
    "said",
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
def test_what_is_not_http_is_a_bad_request(vectors: Served, said: bytes) -> None:
    with Line(vectors, said) as line:
        assert line.heard().startswith(b"HTTP/1.1 400 ")


# Images


def png(width: int, height: int, data: bytes) -> bytes:
    """A gray PNG that claims to be of this size."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", data) + chunk(b"IEND", b"")


BROKEN = {
    "empty": b"",
    "text": b"hello",
    "only a signature": PNG[:8],
    "half a PNG": PNG[: len(PNG) // 2],
    "half a JPEG": JPEG[: len(JPEG) // 2],
    "no pixels": png(0, 0, b""),
    "pixels that are missing": png(20, 20, zlib.compress(b"")),
    "pixels that are no pixels": png(20, 20, b"hello"),
    "TIFF": encoded(Image.new("L", (9, 9)), "TIFF"),
    "PPM": encoded(Image.new("L", (9, 9)), "PPM"),
    "ICO": encoded(Image.new("L", (16, 16)), "ICO"),
    "PDF": b"%PDF-1.7\n",
    "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n",
    "SVG": b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_not_an_image_is_refused(pictures: Served, kind: str) -> None:
    before, data = accepted(pictures), BROKEN[kind]
    files = [("image", ("good.png", PNG)), ("image", ("bad.png", data))]
    told = refused(pictures.client.post("/v1/learn", files=files, data={"label": ["a", "a"]}), 422)
    assert "Image 1" in told
    assert "image" in refused(pictures.client.post("/v1/predict", json={"image": text(data)}), 422).lower()
    assert accepted(pictures) == before


@pytest.mark.parametrize(
    "sent", ["hello", "é", "data:", "data:image/png,", "file:///etc/passwd", text(PNG)[:-1], "=", " "]
)
def test_what_is_not_base64_is_refused(pictures: Served, sent: str) -> None:
    refused(pictures.client.post("/v1/predict", json={"image": sent}), 422)


def test_an_image_of_absurd_size_is_refused_before_it_is_decoded(pictures: Served) -> None:
    zeros = zlib.compress(bytes(9_000 * 9_001), 9)
    assert len(zeros) < BODY
    for data in (
        png(50_000, 50_000, b"x"),
        png(2**31 - 1, 2**31 - 1, b"x"),
        png(9_000, 9_000, zeros),
        png(10**6 + 1, 1, b""),
    ):
        before = peak(pictures)
        assert "pixels" in refused(pictures.client.post("/v1/predict", files={"image": data}), 422)
        assert "pixels" in refused(pictures.client.post("/v1/predict", json={"image": text(data)}), 422)
        assert peak(pictures) - before < 30_000_000
    largest = png(1000, 1000, zlib.compress(bytes(1000 * 1001), 9))
    assert pictures.client.post("/v1/predict", files={"image": largest}).status_code == 200


def test_a_form_of_thousands_of_parts_is_refused(pictures: Served) -> None:
    before = accepted(pictures)
    refused(pictures.client.post("/v1/learn", files={"image": PNG}, data={"label": ["a"] * 5_000}), 400)
    refused(pictures.client.post("/v1/predict", files=[("image", ("a", b""))] * 2_000), 400)
    refused(pictures.client.post("/v1/predict", files=[("image", ("a", PNG))] * (EXAMPLES + 1)), 400)
    assert accepted(pictures) == before


def form(*parts: tuple[str, bytes], charset: str = "", end: bytes = b"--B--\r\n") -> dict[str, Any]:
    body = b"".join(
        b"--B\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + content + b"\r\n"
        for head, content in parts
    )
    return {"content": body + end, "headers": {"Content-Type": f"multipart/form-data; boundary=B{charset}"}}


PART = ('name="image"; filename="a.png"', PNG)


@pytest.mark.parametrize(
    "sent",
    [
        form(),
        form(PART),
        form(PART, ('name="label"', b"")),
        form(PART, ('name="label"', b"a" * 41)),
        form(PART, ('name="label"', b"a" * 1_500_000)),
        form(PART, ('name="label"; filename="a"', b"a")),
        form(PART, ('name="label"', b"a"), ('name="id"', b"../x")),
        form(PART, ('name="label"', b"a"), ('name="other"', b"a")),
        form(('name="image"', PNG), ('name="label"', b"a")),
        form(("filename=a", PNG), ('name="label"', b"a")),
        form(PART, ('name="label"', b"a"), end=b""),
        form(PART, ('name="label"', b"\\ud800"), charset="; charset=unicode_escape"),
        form(PART, ('name="label"', b"+2AA-"), charset="; charset=utf-7"),
        form(PART, ('name="label"', b"a"), charset="; charset=undefined"),
        form(PART, ('name="label"', b"xn--a" * 40), charset="; charset=idna"),
        {"content": b"x", "headers": {"Content-Type": "multipart/form-data"}},
        {"content": b"x", "headers": {"Content-Type": "multipart/form-data; boundary=B"}},
        {"content": b"--B--", "headers": {"Content-Type": f"multipart/form-data; boundary={'B' * 5000}"}},
    ],
    ids=range(18),
)
def test_a_bad_form_is_refused(pictures: Served, sent: dict[str, Any]) -> None:
    before = accepted(pictures)
    refused(pictures.client.post("/v1/learn", **sent), 400, 422)
    assert accepted(pictures) == before


@pytest.mark.parametrize("top", ["0", "-1", "x", "", "1.5", "٣", "5\n"])
def test_a_form_with_a_bad_top_is_refused(pictures: Served, top: str) -> None:
    refused(pictures.client.post("/v1/predict", files={"image": PNG}, data={"top": top}), 422)


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
    for host in ("localhost", f"127.0.0.1:{port}", f"[::1]:{port}", "LOCALHOST"):
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


def test_no_page_is_told_that_it_may_ask(vectors: Served) -> None:
    for origin in ("http://evil.example", vectors.url):
        ask = {
            "Origin": origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type",
        }
        answer = vectors.client.options("/v1/learn", headers=ask)
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
        answer = line.heard()  # as it is: a client would tidy the path
    assert answer.startswith(b"HTTP/1.1 404 "), answer
    assert "error" in json.loads(answer.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize(
    "id", ["..%2f..%2fservice.toml", "%2e%2e", "a%00b", "%ff%fe", "%ed%a0%80", "x" * 5000, "%0a", "'%20OR%201=1"]
)
def test_a_strange_id_holds_nothing(vectors: Served, id: str) -> None:
    files = sorted(path.name for path in vectors.folder.iterdir())
    with Line(
        vectors, f"DELETE /v1/examples/{id} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
    ) as line:
        assert line.heard().startswith(b"HTTP/1.1 404 ")
    assert sorted(path.name for path in vectors.folder.iterdir()) == files


# By chance


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A few bytes flipped, cut out, doubled, or put in the place of others."""
    damaged = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(damaged))
        how = chance.randrange(5)
        if how == 0:
            damaged[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            damaged[at] = chance.choice(b'\0"{}[]:,-0e.\xff\\')
        elif how == 2:
            del damaged[at : at + chance.randint(1, 8)]
        elif how == 3:
            damaged[at:at] = damaged[at : at + chance.randint(1, 30)]
        else:
            damaged[at : at + 4] = struct.pack(">I", chance.choice([0, 1, 2**31 - 1, 2**32 - 1, 65535]))
        damaged = damaged or bytearray(b"\0")
    return bytes(damaged)


def survived(answer: httpx.Response) -> int:
    """Its status: a success, or a sentence."""
    if not answer.is_success:
        refused(answer, 400, 404, 409, 413, 415, 422, 429)
    return answer.status_code


def test_damaged_bodies_never_break_it(vectors: Served) -> None:
    chance, seen = random.Random(0), set[int]()
    learn = json.dumps(
        {"examples": [{"x": [0.5, 1e-3, -2, 7], "label": "a", "id": "one"}, {"x": X, "label": 3}]}
    ).encode()
    ask = json.dumps({"examples": [{"x": X}], "top": 3, "keep": True}).encode()
    for _ in range(400):
        path, body = chance.choice([("/v1/learn", learn), ("/v1/predict", ask), ("/v1/checkpoint", b'{"note": "x"}')])
        seen.add(survived(vectors.client.post(path, content=mutated(body, chance), headers=JSON)))
    assert {200, 202, 422} <= seen
    well(vectors)


def test_damaged_images_never_break_it(pictures: Served) -> None:
    chance, seen = random.Random(0), set[int]()
    whole = [PNG, JPEG, *(encoded(Image.open(io.BytesIO(PNG)), format) for format in ("GIF", "BMP", "WEBP"))]
    for _ in range(300):
        data = mutated(chance.choice(whole), chance)
        if chance.random() < 0.5:
            seen.add(survived(pictures.client.post("/v1/learn", json={"image": text(data), "label": "a"})))
        else:
            seen.add(survived(pictures.client.post("/v1/predict", files={"image": data})))
    assert {200, 202, 422} <= seen
    well(pictures)


def test_damaged_forms_never_break_it(pictures: Served) -> None:
    chance, seen = random.Random(0), set[int]()
    sent = form(PART, ('name="label"', b"a"), ('name="id"', b"one"))
    for _ in range(200):
        seen.add(survived(pictures.client.post("/v1/learn", **sent | {"content": mutated(sent["content"], chance)})))
    assert {202, 400, 422} <= seen
    well(pictures)


# By the document that says what may be sent

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def as_documented(served: Served, examples: int) -> set[str]:
    """Send what the OpenAPI document allows, and what it does not; the routes that were asked."""
    document = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    asked = set()
    for found in document.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        for mode in schemathesis.GenerationMode:
            if mode is schemathesis.GenerationMode.NEGATIVE and operation.path in ("/healthz", "/readyz"):
                continue  # which take nothing that could be wrong

            @settings(
                max_examples=examples,
                database=None,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case: schemathesis.Case[Any]) -> None:
                case.call_and_validate(checks=CHECKS)
                asked.add(case.path)

            ask()
    return asked


def test_a_vector_service_does_as_its_document_says(vectors: Served) -> None:
    assert len(as_documented(vectors, 10)) == 12
    well(vectors)


def test_an_image_service_does_as_its_document_says(pictures: Served) -> None:
    assert len(as_documented(pictures, 10)) == 12
    well(pictures)
