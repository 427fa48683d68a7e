"""Ways to send samples: numbers, base64, .npy files and images, in one piece or in parts."""

import base64
import io
import json
import threading
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from evenkeel.errors import DataError, InputError
from evenkeel.service import samples
from evenkeel.service.config import ServiceConfig, load_service
from evenkeel.service.http import schemas
from evenkeel.service.http.app import make_app
from evenkeel.service.http.requests import Reader
from evenkeel.service.http.schemas import Schemas
from evenkeel.service.service import Service
from evenkeel.service.store.keys import Keyring
from tests.helpers.hostile import png
from tests.helpers.services import examples, settle
from tests.helpers.serving import VECTORS, encoded

ROWS = np.array([[1, 2, 3, 4], [0.5, -0.5, 1e-3, 0]])


def npy(array: Any, **how: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), **how)
    return file.getvalue()


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.fixture(scope="module")
def config() -> ServiceConfig:
    return load_service({"input": {"features": 4}, "limits": {"examples": 50}})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Service]]:
    service = Service(tmp_path_factory.mktemp("bodies") / "model", None, VECTORS)
    with TestClient(make_app(service, Keyring(service.model_folder.keys, open_without=True)), "http://127.0.0.1") as it:
        service.learn(examples(32)).result()
        settle(service)
        yield it, service


# The same vectors in other forms


def test_numbers_base64_and_npy_get_the_same_predictions(served: tuple[TestClient, Service]) -> None:
    http, _ = served
    rows = ROWS.astype(np.float32)
    packed = [{"x": base64.b64encode(row.astype("<f4").tobytes()).decode()} for row in rows]
    answers = [
        http.post("/v1/predict", json={"examples": [{"x": row.tolist()} for row in rows], "top": 1}),
        http.post("/v1/predict", json={"examples": packed, "top": 1}),
        http.post("/v1/predict?top=1", content=npy(rows), headers={"Content-Type": "application/x-npy"}),
        http.post("/v1/predict", files={"x": npy(rows)}, data={"top": "1"}),
    ]
    assert [answer.status_code for answer in answers] == [200] * 4
    found = [[(each["label"], each["probabilities"]) for each in answer.json()["predictions"]] for answer in answers]
    assert found == [found[0]] * 4


def test_an_error_in_a_label_names_the_field_and_nothing_of_ours(served: tuple[TestClient, Service]) -> None:
    answer = served[0].post("/v1/learn", json={"x": [1, 2, 3, 4], "label": 1.5})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(
        "label: Input should be a valid string. label: Input should be a valid int"
    )


def test_the_same_example_in_another_form_is_a_repeat(served: tuple[TestClient, Service]) -> None:
    http, _ = served
    x = base64.b64encode(np.array([1, 2, 3, 4], "<f4").tobytes()).decode()
    first = http.post("/v1/learn", json={"x": [1, 2, 3, 4], "label": "cat", "id": "same"})
    again = http.post("/v1/learn", json={"examples": [{"x": x, "label": "cat", "id": "same"}]})
    file = http.post("/v1/learn", files={"x": npy([1, 2, 3, 4])}, data={"label": "cat", "id": "same"})
    assert [each.json()["repeated"] for each in (first, again, file)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("query", "kept"), [("", True), ("?keep=true", True), ("?keep=false", False), ("?top=2&keep=false", False)]
)
def test_a_question_of_a_file_has_its_options_in_the_query(
    served: tuple[TestClient, Service], query: str, kept: bool
) -> None:
    http, _ = served
    answer = http.post(f"/v1/predict{query}", content=npy(ROWS), headers={"Content-Type": "application/x-npy"})
    assert [each["id"] is not None for each in answer.json()["predictions"]] == [kept, kept]


@pytest.mark.parametrize("query", ["top=0", "top=x", "top=1&top=2", "keep=1", "keep=", "top=-1"])
def test_a_wrong_option_in_the_query_is_refused(served: tuple[TestClient, Service], query: str) -> None:
    http, _ = served
    answer = http.post(f"/v1/predict?{query}", content=npy(ROWS), headers={"Content-Type": "application/x-npy"})
    assert (answer.status_code, list(answer.json())) == (422, ["error"])


def test_a_form_needs_one_file_and_a_label_for_each_row(served: tuple[TestClient, Service]) -> None:
    http, _ = served
    for files, labels, expected in (
        ([("x", npy(ROWS))], ["a"], "2 vectors came with 1 labels"),
        ([("x", npy(ROWS)), ("x", npy(ROWS))], ["a"] * 4, "Send one .npy file"),
        ([("image", npy(ROWS))], ["a", "b"], "files named x"),
    ):
        answer = http.post("/v1/learn", files=files, data={"label": labels})
        assert answer.status_code == 422
        assert expected in answer.json()["error"]
    one_kind = {"examples": [{"x": [1, 2, 3, 4], "label": "a"}, {"x": "AAAA", "label": "a"}]}
    assert "examples.1.x" in http.post("/v1/learn", json=one_kind).json()["error"]
    assert http.post("/v1/learn", content=npy(ROWS), headers={"Content-Type": "application/x-npy"}).status_code == 415


# Files of numpy

FLOATS = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4)}"

GOOD = {
    "one vector": npy(ROWS[0]),
    "float16": npy(ROWS.astype(np.float16)),
    "float32": npy(ROWS.astype(np.float32)),
    "float64": npy(ROWS),
    "big-endian": npy(ROWS.astype(">f8")),
    "Fortran order": npy(np.asfortranarray(ROWS)),
    "format 2.0": npy(ROWS, version=(2, 0)),
    "integers": npy(np.array([[1, 2, 3, 4]], dtype=np.int64)),
    "small integers": npy(np.array([[1, 2, 3, 4]], dtype=np.uint8)),
    "a new line in the length": header(FLOATS.ljust(0x10A - 1) + "\n") + npy(ROWS[0].astype(np.float32))[-16:],
}


@pytest.mark.parametrize("kind", GOOD)
def test_a_file_of_numbers_is_read_as_numpy_reads_it(kind: str, config: ServiceConfig) -> None:
    expected = np.load(io.BytesIO(GOOD[kind])).astype(np.float32).reshape(-1, 4)
    packed = samples.npy_vectors(GOOD[kind], config.input, 1e6, 50)
    np.testing.assert_array_equal(samples.unpack(packed, config.input), expected)


class Trap:
    """What runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("A pickle was read.",)


BAD = {
    "nothing": b"",
    "text": b"hello",
    "a zip": b"PK\x03\x04" + bytes(100),
    "only the magic": GOOD["float32"][:6],
    "half a header": GOOD["float32"][:40],
    "half the numbers": GOOD["float32"][:-5],
    "more after it": GOOD["float32"] + b"\0",
    "objects": npy(np.array([[Trap()] * 4], dtype=object), allow_pickle=True),
    "fields": npy(np.zeros(4, dtype=[("a", "<f4")])),
    "text numbers": npy(np.array([["1", "2", "3", "4"]])),
    "complex": npy(ROWS.astype(complex)),
    "booleans": npy(ROWS > 0),
    "long double": npy(ROWS.astype(np.longdouble)),
    "dates": npy(np.zeros((1, 4), dtype="M8[s]")),
    "NaN": npy([[1, 2, 3, np.nan]]),
    "infinite halves": npy(np.array([[1, 2, np.inf, 4]], dtype=np.float16)),
    "infinity": npy([[1, 2, -np.inf, 4]]),
    "too large": npy([[1, 2, 3, 1e7]]),
    "other length": npy(np.ones((2, 5))),
    "three dimensions": npy(np.ones((1, 2, 4))),
    "a number": npy(1.0),
    "no rows": npy(np.ones((0, 4))),
    "too many rows": npy(np.ones((51, 4))),
    "a bomb": header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 4)}\n"),
    "negative": header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4)}\n"),
    "true rows": header("{'descr': '<f4', 'fortran_order': False, 'shape': (True, 4)}\n") + bytes(16),
    "code": header("{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (1, 4)}\n"),
    "deep": header("(" * 900 + "\n"),
    "a long header": header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4)}" + " " * 2000 + "\n")
    + bytes(16),
    "format 3.0": npy(ROWS, version=(3, 0)),
    "format 9.9": b"\x93NUMPY\x09\x09" + GOOD["float32"][8:],
}


@pytest.mark.parametrize("kind", BAD)
def test_any_other_file_is_refused_with_a_sentence(kind: str, config: ServiceConfig) -> None:
    with pytest.raises(InputError, match=r"\.npy file|Vector [0-9]") as raised:
        samples.npy_vectors(BAD[kind], config.input, 1e6, 50)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("sent", ["", "AAAA", "A" * 22 + "==="[:2] + "=", "é" * 24, "!" * 24, "A" * 24 + "\n"])
def test_what_is_not_the_base64_of_so_many_floats_is_refused(served: tuple[TestClient, Service], sent: str) -> None:
    http, _ = served
    assert http.post("/v1/predict", json={"x": sent}).status_code == 422
    nan = base64.b64encode(np.array([1, 2, np.nan, 4], "<f4").tobytes()).decode()
    assert "not finite" in http.post("/v1/predict", json={"x": nan}).json()["error"]


# Large bodies, in parts

ITEM = {"x": [0.5, 1, 2, -3], "label": "a"}
SPLIT = {
    "plain": {"examples": [ITEM] * 20},
    "options": {"examples": [{"x": ITEM["x"]}] * 20, "top": 3, "keep": False},
    "options first": {"top": 3, "examples": [{"x": ITEM["x"]}] * 20},
    "braces in labels": {"examples": [ITEM | {"label": label} for label in ("},{", "}, {", "{", "]}", '"}', "\\")] * 3},
    "one of them": {"examples": [*[ITEM] * 9, ITEM | {"label": '"},{"x":[9,9,9,9],"label":"b"}'}, *[ITEM] * 9]},
}


@pytest.mark.parametrize("kind", SPLIT)
@pytest.mark.parametrize("size", [1, 7, 60, 200])
@pytest.mark.parametrize("spaces", [None, 1])
def test_a_body_read_in_parts_is_what_it_is_as_a_whole(
    kind: str, size: int, spaces: int | None, config: ServiceConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, adapters = json.dumps(SPLIT[kind], indent=spaces).encode(), Schemas(config)
    name = "learn" if b"label" in body else "predict"
    whole = adapters._readers["numbers"][name][0].validate_json(body)
    monkeypatch.setattr(schemas, "PART", size)
    items, parsed = adapters.read(name, body)
    assert items == list(whole.examples)
    assert [getattr(parsed, option, None) for option in ("top", "keep")] == [
        getattr(whole, option, None) for option in ("top", "keep")
    ]


TWICE = [
    b'{"examples": [%s], "examples": [%s]}',
    b'{"examples": [%s], "ex\\u0061mples": [%s]}',
    b'{"examples": [%s], "examples": [{"x":[1,1,1,1],"label":"c"},%s]}',
]


@pytest.mark.parametrize("form", TWICE)
def test_of_two_lists_the_last_counts_in_large_bodies_too(
    form: bytes, config: ServiceConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "PART", 50)
    one, two = (b",".join([json.dumps(ITEM | {"label": label}).encode()] * 9) for label in "ab")
    items, _ = Schemas(config).read("learn", form % (one, two))
    assert {each.label for each in items} <= {"b", "c"}
    assert len(items) in (9, 10)


def test_errors_of_large_bodies_name_the_right_item(config: ServiceConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "PART", 50)
    wrong = {"examples": [*[ITEM] * 17, {"x": [1], "label": "a"}, ITEM]}
    with pytest.raises(ValueError, match=r"examples\.17\.x"):
        Schemas(config).read("learn", json.dumps(wrong).encode())
    with pytest.raises(ValueError, match="at most 50 items"):
        Schemas(config).read("learn", json.dumps({"examples": [ITEM] * 51}).encode())
    assert "Vector 70 has" in _error_of([[1, 2, 3, 4]] * 70 + [[1, 2, 3, 1e7]])


def _error_of(rows: Sequence[Sequence[float]]) -> str:
    reader = Reader(load_service({"input": {"features": 4}}))
    with pytest.raises(InputError) as raised:
        reader._unpacked([type("Item", (), {"x": row}) for row in rows])
    return str(raised.value)


def test_a_large_body_is_parsed_in_short_calls_of_another_thread(
    served: tuple[TestClient, Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    http, _ = served
    seen, vectors = list[tuple[int, str]](), samples.vectors

    def watched(rows: Any, *rest: Any) -> list[bytes]:
        seen.append((len(rows), threading.current_thread().name))
        return vectors(rows, *rest)

    monkeypatch.setattr(samples, "vectors", watched)
    many: dict[str, Any] = {
        "examples": [{"x": [0.123456789012, 1.123456789, 2.123456789, 3.123456789]}] * 1000,
        "top": 1,
        "keep": False,
    }
    body = json.dumps(many, indent=1).encode()
    assert len(body) > schemas.PART
    answer = http.post("/v1/predict", content=body, headers={"Content-Type": "application/json"})
    assert len(answer.json()["predictions"]) == 1000
    assert sum(count for count, _ in seen) == 1000
    assert max(count for count, _ in seen) <= 64
    assert all(name.startswith("reader") for _, name in seen)
    parts = list(schemas._parts(json.dumps(many | {"examples": many["examples"] * 20}).encode()))
    assert max(map(len, parts)) < 1.1 * schemas.PART


# Images


def images_of(height: int, width: int) -> ServiceConfig:
    return load_service({"input": {"size": [height, width], "channels": 1}})


@pytest.mark.parametrize(
    ("size", "most"), [((8, 8), 4_000_000), ((125, 125), 4_000_000), ((200, 200), 10_240_000), ((999, 999), 25_000_000)]
)
def test_the_limit_on_pixels_follows_from_the_input(size: tuple[int, int], most: int) -> None:
    config = images_of(*size)
    assert config.limits.most_image_pixels(config.input) == most
    own = config.limits.model_copy(update={"image_pixels": 7})
    assert own.most_image_pixels(config.input) == 7


def test_a_large_png_is_refused_before_it_is_decoded_and_a_large_jpeg_is_reduced_meanwhile() -> None:
    config, wide = images_of(8, 8), 2_100
    big = png(wide, wide, zlib.compress(bytes(wide * (wide + 1)), 1))
    with pytest.raises(DataError, match=r"2100 x 2100 pixels; the limit is 4,000,000 .* \(limits.image_pixels\)"):
        samples.cost_of(big, config.input, 4_000_000, "Image 0")
    photo = encoded(Image.radial_gradient("L").resize((wide, wide)), "JPEG")
    assert samples.cost_of(photo, config.input, 4_000_000, "Image 0") == wide * wide // 16
    exact = samples.picture(photo, config.input, 25_000_000)
    (reduced,) = samples.reduced_pictures([photo], config.input, ["Image 0"])
    difference = np.abs(np.frombuffer(exact, np.uint8).astype(int) - np.frombuffer(reduced, np.uint8))
    assert difference.max() <= 4  # of 255


def test_images_are_decoded_in_parts_between_which_others_have_their_turn() -> None:
    config = images_of(8, 8)
    reader = Reader(config)
    small, large = encoded(Image.new("L", (100, 100))), encoded(Image.new("L", (900, 900)))
    files = [small] * 50 + [large] * 3 + [small]
    parts = list(reader._parts(files, [str(at) for at in range(len(files))]))
    assert [(part.start, part.stop) for part in parts] == [(0, 50), (50, 51), (51, 52), (52, 54)]
    with pytest.raises(DataError, match=r"may have 25,000,000 pixels \(limits.pixels\)"):
        list(reader._parts([large] * 31, ["x"] * 31))
