"""Parsing of requests that carry samples: JSON or files, one or many."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import HTTPException, Request

from evenkeel.errors import DataError
from evenkeel.learning.texts import to_bytes
from evenkeel.service import samples
from evenkeel.service.config import ServiceConfig
from evenkeel.service.examples import Example
from evenkeel.service.http.admission import Turns
from evenkeel.service.http.forms import Form, read_form
from evenkeel.service.http.schemas import PART, Schemas

FORM, NPY = "multipart/form-data", "application/x-npy"
QUICK = PART  # bytes of a body that the event loop parses itself: handing it to a thread would take longer
ROWS = 64  # vectors converted at once
TURN = 1_000_000  # pixels of images that are decoded in one turn, unless a single one has more


@dataclass(frozen=True)
class Question:
    """The samples to predict, and how to answer."""

    samples: list[bytes]
    top: int = 5
    keep: bool = True


class Reader:
    """A parser that turns requests into what the service takes.

    By `benchmarks/body_cost.py` FastAPI would take 2.1 to 3.1 times as long for 32 vectors of 384 numbers, and 1.3
    times as long for one (three runs). For 32 labels it is 1.1 times, so that route is a plain one.
    """

    def __init__(self, config: ServiceConfig) -> None:
        self._input, self._limits = config.input, config.limits
        self._classes = config.classes or []
        self._schemas = Schemas(config)
        self._turns = Turns()

    async def examples(self, request: Request) -> list[Example]:
        """Return the labelled examples of a request."""
        if _content_type(request) == FORM:
            return await self._labelled_files(request)
        items, _, packed = await self._json(request, "learn")
        return [Example(x, each.label, each.id or "") for x, each in zip(packed, items, strict=True)]

    async def question(self, request: Request) -> Question:
        """Return the samples of a request for predictions."""
        kind = _content_type(request)
        if kind == FORM:
            packed, fields = await self._form(request)
            return Question(packed, _top(fields.get("top", ["5"])))
        if kind == NPY and self._input.kind == "vector":
            packed = await self._npy(request, await request.body())
            query = request.query_params
            return Question(packed, _top(query.getlist("top") or ["5"]), _keep(query.getlist("keep") or ["true"]))
        _, body, packed = await self._json(request, "predict")
        return Question(packed, body.top, body.keep)

    def described(self, name: str) -> dict[str, Any]:
        """Return what the OpenAPI document says about the body of a route, which FastAPI cannot know."""
        content: dict[str, Any] = {"application/json": {"schema": self._schemas.described(name)}}
        file: dict[str, Any] = {"type": "string", "format": "binary"}
        is_vector = self._input.kind == "vector"
        if self._input.text:
            return {"requestBody": {"required": True, "content": content}}
        if is_vector and name == "predict":
            content[NPY] = {"schema": file}
        files = file if is_vector else {"type": "array", "minItems": 1, "items": file}
        texts = {"type": "array", "items": {"type": "string"}}
        fields = {"label": texts, "id": texts} if name == "learn" else {"top": {"type": "integer", "minimum": 1}}
        field = "x" if is_vector else "image"
        form = {"type": "object", "required": [field], "properties": {field: files, **fields}}
        content[FORM] = {"schema": form}
        return {"requestBody": {"required": True, "content": content}}

    async def _labelled_files(self, request: Request) -> list[Example]:
        packed, fields = await self._form(request)
        labels, ids = fields.get("label", []), fields.get("id", [])
        if len(labels) != len(packed) or len(ids) not in (0, len(packed)):
            kind = "vectors" if self._input.size is None else "images"
            raise HTTPException(
                422,
                f"{len(packed)} {kind} came with {len(labels)} labels and {len(ids)} ids. Send a label for each, and "
                "an id for each or for none.",
            )
        return [
            Example(x, self._label(label), self._schemas.id.validate_python(id) if id else "")
            for x, label, id in zip(packed, labels, ids or [""] * len(packed), strict=True)
        ]

    def _label(self, text: str) -> str | int:
        """Return the label that a form's text stands for. With fixed classes it may stand for a number."""
        label: str = self._schemas.label.validate_python(text)
        if label in self._classes:
            return label
        return next((known for known in self._classes if str(known) == label), label)

    async def _json(self, request: Request, name: str) -> tuple[list[Any], Any, list[bytes]]:
        """Return the items of a JSON body, the body with its options, and the samples packed for the journal."""
        # Requiring the type keeps foreign web pages out: they may send text without a preflight request, but not this.
        if _content_type(request) != "application/json":
            raise HTTPException(415, "Send application/json, or files as multipart/form-data.")
        body = await request.body()

        def read() -> tuple[list[Any], Any, list[bytes]]:
            items, parsed = self._schemas.read(name, body)
            return items, parsed, self._unpacked(items)

        items, parsed, sent = read() if len(body) < QUICK else await self._turns.run(_key(request), read)
        return items, parsed, await self._decoded(request, sent) if self._input.kind == "image" else sent

    def _unpacked(self, items: Sequence[Any]) -> list[bytes]:
        """Return the samples of parsed items: vectors and texts packed for the journal, or images as files."""
        if self._input.text:
            return [to_bytes(each.text) for each in items]
        if self._input.size is not None:
            return [samples.from_base64(each.image, f"Image {at}") for at, each in enumerate(items)]
        packed: list[bytes] = []
        for start in range(0, len(items), ROWS):
            rows = [each.x for each in items[start : start + ROWS]]
            packed += samples.vectors(rows, self._input, self._limits.magnitude, start)
        return packed

    async def _npy(self, request: Request, data: bytes) -> list[bytes]:
        def read() -> list[bytes]:
            return samples.npy_vectors(data, self._input, self._limits.magnitude, self._limits.examples)

        return read() if len(data) < QUICK else await self._turns.run(_key(request), read)

    async def _decoded(self, request: Request, files: Sequence[bytes]) -> list[bytes]:
        """Decode images, some at a time, so that other keys and requests have their turns in between."""
        key, names = _key(request), [f"Image {at}" for at in range(len(files))]
        parts = await self._turns.run(key, lambda: list(self._parts(files, names)))
        return [
            packed
            for part in parts
            for packed in await self._turns.run(
                key, partial(samples.reduced_pictures, files[part], self._input, names[part])
            )
        ]

    def _parts(self, files: Sequence[bytes], names: Sequence[str]) -> Iterator[slice]:
        """Yield which images to decode at once; raise DataError if one or all of them are too large."""
        most, left, start, cost = self._limits.most_image_pixels(self._input), self._limits.pixels, 0, 0
        for at, (file, name) in enumerate(zip(files, names, strict=True)):
            here = samples.cost_of(file, self._input, most, name)
            left -= here
            if left < 0:
                raise DataError(f"The images of a request may have {self._limits.pixels:,} pixels (limits.pixels).")
            if cost and cost + here > TURN:
                yield slice(start, at)
                start, cost = at, 0
            cost += here
        yield slice(start, len(files))

    async def _form(self, request: Request) -> tuple[list[bytes], dict[str, list[str]]]:
        """Return the samples of a multipart body, packed for the journal, and its other fields."""
        if self._input.text:
            raise HTTPException(415, "Texts are sent as application/json.")
        most, field = self._limits.examples, "x" if self._input.size is None else "image"
        body = await request.body()

        def read() -> Form:
            return read_form(body, request.headers["content-type"], files=most, fields=2 * most + 1)

        form = read() if len(body) < QUICK else await self._turns.run(_key(request), read)
        files, fields = form.files.pop(field, []), form.fields
        if not files or form.files or fields.keys() - {"label", "id", "top"}:
            raise HTTPException(422, f"A form needs files named {field}; its other fields may be label, id or top.")
        if field == "image":
            return await self._decoded(request, files), fields
        if len(files) > 1:
            raise HTTPException(422, "Send one .npy file, with a row for each vector.")
        return await self._npy(request, files[0]), fields


def _key(request: Request) -> str:
    return str(request.scope.get("key", ""))


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _top(sent: Sequence[str]) -> int:
    if len(sent) > 1 or not re.fullmatch(r"[0-9]{1,9}", sent[0]) or not int(sent[0]):
        raise HTTPException(422, "top must be a single positive integer.")
    return int(sent[0])


def _keep(sent: Sequence[str]) -> bool:
    if len(sent) > 1 or sent[0] not in ("true", "false"):
        raise HTTPException(422, "keep must be true or false.")
    return sent[0] == "true"
