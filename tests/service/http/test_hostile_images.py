"""Bad images and forms are refused, and nothing breaks."""

import io
import random
import zlib
from typing import Any

import pytest
from PIL import Image

from tests.helpers.hostile import (
    BODY,
    EXAMPLES,
    PNG,
    X,
    accepted,
    check_works,
    form,
    mutated,
    peak,
    png,
    refused,
    survived,
)
from tests.helpers.openapi import as_documented
from tests.helpers.serving import Served, encoded, text

JPEG = encoded(Image.radial_gradient("L").resize((20, 20)).convert("RGB"), "JPEG")


def test_vector_and_image_services_refuse_the_other_kind(vectors: Served, pictures: Served) -> None:
    refused(pictures.client.post("/v1/learn", json={"x": X, "label": "a"}), 422)
    refused(pictures.client.post("/v1/predict", json={"x": X}), 422)
    refused(vectors.client.post("/v1/predict", json={"image": text(PNG)}), 422)
    refused(vectors.client.post("/v1/learn", files={"image": PNG}, data={"label": "a"}), 422)
    refused(vectors.client.post("/v1/predict", files={"image": PNG}), 422)
    refused(pictures.client.post("/v1/predict", headers={"Content-Type": "application/x-npy"}), 415)
    refused(pictures.client.post("/v1/label", files={"image": PNG}, data={"label": "a"}), 415)


BROKEN = {
    "empty": b"",
    "text": b"hello",
    "only a signature": PNG[:8],
    "half a PNG": PNG[: len(PNG) // 2],
    "half a JPEG": JPEG[: len(JPEG) // 2],
    "no pixels": png(0, 0, b""),
    "pixels that are missing": png(20, 20, zlib.compress(b"")),
    "pixels that are not pixels": png(20, 20, b"hello"),
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
    message = refused(pictures.client.post("/v1/learn", files=files, data={"label": ["a", "a"]}), 422)
    assert "Image 1" in message
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


def test_damaged_images_never_break_it(pictures: Served) -> None:
    rng, seen = random.Random(0), set[int]()
    whole = [PNG, JPEG, *(encoded(Image.open(io.BytesIO(PNG)), format) for format in ("GIF", "BMP", "WEBP"))]
    for _ in range(300):
        data = mutated(rng.choice(whole), rng)
        if rng.random() < 0.5:
            seen.add(survived(pictures.client.post("/v1/learn", json={"image": text(data), "label": "a"})))
        else:
            seen.add(survived(pictures.client.post("/v1/predict", files={"image": data})))
    assert {200, 202, 422} <= seen
    check_works(pictures)


def test_damaged_forms_never_break_it(pictures: Served) -> None:
    rng, seen = random.Random(0), set[int]()
    sent = form(PART, ('name="label"', b"a"), ('name="id"', b"one"))
    for _ in range(200):
        seen.add(survived(pictures.client.post("/v1/learn", **sent | {"content": mutated(sent["content"], rng)})))
    assert {202, 400, 422} <= seen
    check_works(pictures)


@pytest.mark.slow
def test_an_image_service_conforms_to_its_openapi_document(pictures: Served) -> None:
    assert len(as_documented(pictures, 10)) == 15
    check_works(pictures)
