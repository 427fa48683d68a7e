"""Responses of the routes, and the HTTP status that each error gets."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from evenkeel.errors import CheckpointError, DivergenceError, EvenkeelError, NothingLearnedError
from evenkeel.service.examples import FullError
from evenkeel.service.http.admission import RateError
from evenkeel.service.http.logs import failure
from evenkeel.service.http.schemas import Problem
from evenkeel.service.store.journal import JournalError
from evenkeel.service.store.queries import ConflictError, UnknownError

T = TypeVar("T")
HTTP_STATUS: list[tuple[type[EvenkeelError], int]] = [  # the first match counts
    (UnknownError, 404),
    (ConflictError, 409),
    (NothingLearnedError, 409),
    (FullError, 429),
    (RateError, 429),
    (JournalError, 503),
    (DivergenceError, 503),
    (CheckpointError, 503),
    (EvenkeelError, 422),
]


async def done(future: "Future[T]") -> T:
    """Return the result of another thread, once it is there."""
    return await asyncio.wrap_future(future)


def as_json(content: Any, status: int = 200) -> Response:
    return Response(to_json(content), status, media_type="application/json")


def errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return what the OpenAPI document says about responses with these statuses."""
    return {code: {"model": Problem} for code in codes}


async def _ours(request: Request, error: EvenkeelError) -> Response:
    code = next(code for kind, code in HTTP_STATUS if isinstance(error, kind))
    headers = {"Retry-After": str(error.seconds)} if isinstance(error, FullError | RateError) else None
    if code >= 500:
        failure(str(error), request.scope)
    return JSONResponse({"error": str(error)}, code, headers)


async def _refused(_: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    if isinstance(error.body, bytes):  # FastAPI parses it only if it is declared to be JSON
        return JSONResponse({"error": "Send application/json."}, 415)
    return JSONResponse({"error": _first_errors(error.errors())}, 422)


async def _invalid_body(_: Request, error: ValidationError) -> Response:
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    return JSONResponse({"error": _first_errors(errors)}, 422)


ERROR_HANDLERS: dict[type[Exception], Callable[[Request, Any], Awaitable[Response]]] = {
    EvenkeelError: _ours,
    HTTPException: _refused,
    RequestValidationError: _invalid,
    ValidationError: _invalid_body,
}
"""They answer errors with a status and a message in JSON."""


async def answer_error(request: Request, error: Exception) -> Response:
    """Return the response to an error; raise it if it is a bug of ours."""
    for kind, handler in ERROR_HANDLERS.items():
        if isinstance(error, kind):
            return await handler(request, error)
    raise error


def _first_errors(errors: Sequence[Any]) -> str:
    """Return the first three errors, a sentence each, and how many more there are."""
    sentences = [f"{_place(each['loc']) or 'The body'}: {each['msg']}." for each in errors[:3]]
    more = f" There are {len(errors) - 3} more errors." if len(errors) > 3 else ""
    return " ".join(sentences) + more


def _place(loc: Sequence[str | int]) -> str:
    """Return where an error is, without the names that pydantic gives to the kinds that a label may be of."""
    return ".".join(str(part) for part in loc if not str(part).startswith("constrained-"))
