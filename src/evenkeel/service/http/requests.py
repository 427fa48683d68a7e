"""Requests that carry samples, read: JSON or files, one or many."""

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
from evenkeel.service.examples import Given
from evenkeel.service.http.responses import answers
from evenkeel.service.http.schemas import Schemas


@dataclass(frozen=True)
class Question:
    samples: list[bytes]
    top: int = 5
    keep: bool = True


class Reader:
    """Makes of a request what the service takes."""

    def __init__(self, config: ServiceConfig) -> None:
        self._input, self._limits = config.input, config.limits
        self._classes = config.classes or []
        self._schemas = Schemas(config)
        # One thread, because Pillow's warnings are switched for the whole process.
        self._decoder = ThreadPoolExecutor(1, "decoder")

    async def examples(self, request: Request) -> list[Given]:
        if not _is_form(request):
            sent = _listed(self._schemas.read("learn", await read_json(request)), "examples")
            return [Given(x, each.label, each.id) for x, each in zip(await self._samples(sent), sent, strict=True)]
        images, fields = await self._form(request)
        labels, ids = fields.get("label", []), fields.get("id", [])
        if len(labels) != len(images) or len(ids) not in (0, len(images)):
            raise HTTPException(422, f"{len(images)} images came with {len(labels)} labels and {len(ids)} ids.")
        return [
            Given(x, self._label(label), self._schemas.id.validate_python(id) if id else None)
            for x, label, id in zip(images, labels, ids or [""] * len(images), strict=True)
        ]

    async def truths(self, request: Request) -> list[tuple[str, str | int]]:
        sent = _listed(self._schemas.read("label", await read_json(request)), "labels")
        return [(each.id, each.label) for each in sent]

    async def question(self, request: Request) -> Question:
        if not _is_form(request):
            body = self._schemas.read("predict", await read_json(request))
            return Question(await self._samples(_listed(body, "examples")), body.top, body.keep)
        images, fields = await self._form(request)
        top = fields.get("top", ["5"])
        if len(top) > 1 or not re.fullmatch(r"[0-9]{1,9}", top[0]) or not int(top[0]):
            raise HTTPException(422, "top is one whole number above 0.")
        return Question(images, int(top[0]))

    def documented(self, name: str, model: Any, ok: int) -> dict[str, Any]:
        """For the OpenAPI document: what such a route takes and gives."""
        content: dict[str, Any] = {"application/json": {"schema": self._schemas.described(name)}}
        if self._input.size is not None and name != "label":
            file = {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}}
            texts = {"type": "array", "items": {"type": "string"}}
            fields = {"label": texts, "id": texts} if name == "learn" else {"top": {"type": "integer", "minimum": 1}}
            form = {"type": "object", "required": ["image"], "properties": {"image": file, **fields}}
            content["multipart/form-data"] = {"schema": form}
        others = {"learn": (409, 415, 429), "label": (404, 409, 415, 429), "predict": (409, 415)}[name]
        body = {"requestBody": {"required": True, "content": content}}
        return {**answers(model, *others, ok=ok), "openapi_extra": body}

    def _label(self, text: str) -> str | int:
        """A form has only text: of classes that are fixed it may mean a number."""
        label: str = self._schemas.label.validate_python(text)
        if label in self._classes:
            return label
        return next((known for known in self._classes if str(known) == label), label)

    async def _samples(self, sent: Sequence[Any]) -> list[bytes]:
        """Of a JSON body, ready for the journal."""
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
        """The images of a multipart body, decoded, and its other fields."""
        if self._input.size is None:
            raise HTTPException(415, "This service takes vectors, as application/json.")
        most = self._limits.examples
        try:
            async with request.form(max_files=most, max_fields=2 * most + 1) as sent:
                images = [await each.read() for each in sent.getlist("image") if isinstance(each, UploadFile)]
                fields = {name: [each for each in sent.getlist(name) if isinstance(each, str)] for name in sent}
        except (UnicodeError, LookupError):
            raise HTTPException(400, "The form's text cannot be decoded; send it as UTF-8.") from None
        if not images or fields.keys() - {"image", "label", "id", "top"}:
            raise HTTPException(422, "A form has files named image, beside them label and id, or top; nothing else.")
        return await self._decoded(images), fields


def _listed(body: Any, name: str) -> list[Any]:
    """Many, or one as a list of one."""
    return list(getattr(body, name)) if name in body.model_fields_set else [body]


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _is_form(request: Request) -> bool:
    return _kind(request) == "multipart/form-data"


async def read_json(request: Request) -> bytes:
    # Insisting on the type keeps foreign web pages out: they may send text without asking, but not this.
    if _kind(request) != "application/json":
        raise HTTPException(415, "Send application/json, or images as multipart/form-data.")
    return await request.body()
