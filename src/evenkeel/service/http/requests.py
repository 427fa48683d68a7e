"""Parsing of requests that carry samples: JSON or files, one or many."""

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException, Request
from starlette.datastructures import UploadFile

from evenkeel.service import samples
from evenkeel.service.config import ServiceConfig
from evenkeel.service.examples import Example
from evenkeel.service.http.schemas import Schemas


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
        # One thread, because Pillow's warnings are turned on and off for the whole process.
        self._decoder = ThreadPoolExecutor(1, "decoder")

    async def examples(self, request: Request) -> list[Example]:
        """Return the labelled examples of a request."""
        if not _is_form(request):
            sent = _listed(self._schemas.read("learn", await _json(request)))
            packed = zip(await self._samples(sent), sent, strict=True)
            return [Example(x, each.label, each.id or "") for x, each in packed]
        images, fields = await self._form(request)
        labels, ids = fields.get("label", []), fields.get("id", [])
        if len(labels) != len(images) or len(ids) not in (0, len(images)):
            raise HTTPException(
                422,
                f"{len(images)} images came with {len(labels)} labels and {len(ids)} ids. Send a label for each image, "
                "and an id for each or for none.",
            )
        return [
            Example(x, self._label(label), self._schemas.id.validate_python(id) if id else "")
            for x, label, id in zip(images, labels, ids or [""] * len(images), strict=True)
        ]

    async def question(self, request: Request) -> Question:
        """Return the samples of a request for predictions."""
        if not _is_form(request):
            body = self._schemas.read("predict", await _json(request))
            return Question(await self._samples(_listed(body)), body.top, body.keep)
        images, fields = await self._form(request)
        top = fields.get("top", ["5"])
        if len(top) > 1 or not re.fullmatch(r"[0-9]{1,9}", top[0]) or not int(top[0]):
            raise HTTPException(422, "top must be a single positive integer.")
        return Question(images, int(top[0]))

    def described(self, name: str) -> dict[str, Any]:
        """Return what the OpenAPI document says about the body of a route, which FastAPI cannot know."""
        content: dict[str, Any] = {"application/json": {"schema": self._schemas.described(name)}}
        if self._input.size is not None:
            file = {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}}
            texts = {"type": "array", "items": {"type": "string"}}
            fields = {"label": texts, "id": texts} if name == "learn" else {"top": {"type": "integer", "minimum": 1}}
            form = {"type": "object", "required": ["image"], "properties": {"image": file, **fields}}
            content["multipart/form-data"] = {"schema": form}
        return {"requestBody": {"required": True, "content": content}}

    def _label(self, text: str) -> str | int:
        """Return the label that a form's text stands for. With fixed classes it may stand for a number."""
        label: str = self._schemas.label.validate_python(text)
        if label in self._classes:
            return label
        return next((known for known in self._classes if str(known) == label), label)

    async def _samples(self, sent: Sequence[Any]) -> list[bytes]:
        """Return the samples of a JSON body, packed for the journal."""
        if self._input.size is None:
            return samples.vectors([each.x for each in sent], self._input, self._limits.magnitude)
        return await self._decoded([samples.from_base64(each.image, f"Image {at}") for at, each in enumerate(sent)])

    async def _decoded(self, files: Sequence[bytes]) -> list[bytes]:
        def decode() -> list[bytes]:
            return samples.pictures(
                files, self._input, self._limits.pixels, [f"Image {at}" for at in range(len(files))]
            )

        return await asyncio.get_running_loop().run_in_executor(self._decoder, decode)

    async def _form(self, request: Request) -> tuple[list[bytes], dict[str, list[str]]]:
        """Return the images of a multipart body, decoded, and its other fields."""
        if self._input.size is None:
            raise HTTPException(415, "This service takes vectors; send them as application/json.")
        most = self._limits.examples
        try:
            async with request.form(max_files=most, max_fields=2 * most + 1) as sent:
                images = [await each.read() for each in sent.getlist("image") if isinstance(each, UploadFile)]
                fields = {name: [each for each in sent.getlist(name) if isinstance(each, str)] for name in sent}
        except (UnicodeError, LookupError):
            raise HTTPException(400, "The form's text cannot be decoded; send it as UTF-8.") from None
        if not images or fields.keys() - {"image", "label", "id", "top"}:
            raise HTTPException(422, "A form needs files named image; its other fields may be label, id or top.")
        return await self._decoded(images), fields


def _listed(body: Any) -> list[Any]:
    """Return the items of a body that holds many, or the body itself as the only one."""
    return list(body.examples) if "examples" in body.model_fields_set else [body]


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _is_form(request: Request) -> bool:
    return _content_type(request) == "multipart/form-data"


async def _json(request: Request) -> bytes:
    """Return the body of a JSON request; raise an HTTPException if it is of another type."""
    # Requiring the type keeps foreign web pages out: they may send text without a preflight request, but not this.
    if _content_type(request) != "application/json":
        raise HTTPException(415, "Send application/json, or images as multipart/form-data.")
    return await request.body()
