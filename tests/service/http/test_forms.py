"""Forms with files: what clients send is read as they meant it, and everything else is refused."""

import random

import httpx
import pytest
from starlette.exceptions import HTTPException

from evenkeel.service.http.forms import Form, read_form

KIND = "multipart/form-data; boundary=B"
FILE = b'--B\r\nContent-Disposition: form-data; name="x"; filename="x.npy"\r\n\r\nabc\r\n'
LABEL = b'--B\r\nContent-Disposition: form-data; name="label"\r\n\r\ncat\r\n'
END = b"--B--\r\n"


def read(body: bytes, kind: str = KIND, files: int = 9, fields: int = 9) -> Form:
    return read_form(body, kind, files=files, fields=fields)


def test_what_a_client_writes_is_read_with_every_byte() -> None:
    rng = random.Random(0)
    pieces = [b"\r\n", b"--", b"\r\n--", b"B", b"\0", b"\xff", b'"', b"\r\n\r\n", b"; name="]
    for _ in range(100):
        contents = [b"".join(rng.choices(pieces, k=rng.randrange(12))) for _ in range(rng.randint(1, 5))]
        labels = [rng.choice(["cat", "", 'Katze "grün"', "a\r\nb", "--B"]) for _ in range(rng.randrange(4))]
        files = [("x", (f'a; name="id"{place}.npy', each)) for place, each in enumerate(contents)]
        request = httpx.Request("POST", "http://here", files=files, data={"label": labels, "id": "one"})
        form = read(request.read(), request.headers["content-type"])
        assert form.files == {"x": contents}
        assert form.fields == ({"label": labels} if labels else {}) | {"id": ["one"]}


@pytest.mark.parametrize(
    "body",
    [
        FILE + LABEL + END,
        b"\r\n" + FILE + LABEL + END,
        FILE + LABEL + b"--B--",
        FILE + LABEL + END + b"what comes behind it",
        (FILE + LABEL + END).replace(b"--B\r\n", b"--B \t\r\n"),
        (FILE + LABEL + END).replace(b"Content-Disposition: form-data", b"content-disposition:Form-Data "),
        (FILE + LABEL + END).replace(b"\r\n\r\nabc", b"\r\nContent-Type: application/octet-stream\r\n\r\nabc"),
        (FILE + LABEL + END).replace(b'name="label"', b"name=label"),
        (FILE + LABEL + END).replace(b'filename="x.npy"', b"filename*=utf-8''x.npy"),
        (FILE + LABEL + END).replace(b'"x.npy"', rb'"a\"; name=\"label"'),
    ],
    ids=range(10),
)
def test_forms_that_mean_the_same_are_read_as_the_same(body: bytes) -> None:
    assert read(body) == Form({"x": [b"abc"]}, {"label": ["cat"]})


@pytest.mark.parametrize("kind", ['; boundary="B"', ";boundary=B", "; charset=UTF-8; boundary=B", "; Boundary=B ;a=b"])
def test_the_boundary_may_be_written_in_many_ways(kind: str) -> None:
    assert read(FILE + END, "multipart/form-data" + kind).files == {"x": [b"abc"]}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"x",
        FILE,
        FILE + LABEL,
        LABEL + b"--B",
        b"before it\r\n" + FILE + END,
        FILE.replace(b"--B", b"--C") + END,
        FILE + LABEL.replace(b"--B", b"--Bx") + END,
        b"--B\r\n\r\nabc\r\n" + END,
        b"--B\r\nabc\r\n" + END,
        FILE.replace(b'name="x"; ', b"") + END,
        FILE.replace(b'name="x"', b'name=""') + END,
        FILE.replace(b'"x.npy"', b'"x.npy') + END,
        FILE.replace(b"form-data", b"attachment") + END,
        FILE.replace(b"\r\n\r\n", b"\r\n" + b"a: b\r\n" * 200 + b"\r\n") + END,
        FILE + LABEL.replace(b"cat", b"\xff") + END,
        FILE + LABEL + END + LABEL + END,
    ],
    ids=range(17),
)
def test_what_is_not_exactly_a_form_is_refused(body: bytes) -> None:
    with pytest.raises(HTTPException) as refused:
        read(body)
    assert refused.value.status_code == 400


@pytest.mark.parametrize(
    "kind", ["", "; boundary=", '; boundary=""', f"; boundary={'B' * 71}", "; boundary=B; charset=x"]
)
def test_a_content_type_without_a_good_boundary_is_refused(kind: str) -> None:
    with pytest.raises(HTTPException, match="400"):
        read(FILE + END, "multipart/form-data" + kind)


def test_files_and_fields_have_limits_of_their_own() -> None:
    assert read(3 * FILE + 2 * LABEL + END, files=3, fields=2).fields == {"label": ["cat"] * 2}
    for files, fields in ((2, 2), (3, 1), (2, 3), (1, 1)):
        with pytest.raises(HTTPException, match="400"):
            read(3 * FILE + 2 * LABEL + END, files=files, fields=fields)
