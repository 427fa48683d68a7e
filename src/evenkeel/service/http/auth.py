"""Who may use a route: each declares with `needs` the scope that a key must have, which FastAPI documents, too."""

from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any

from fastapi import Depends, HTTPException, Request, Response, Security, params
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from evenkeel.service.http.admission import Door, Rates
from evenkeel.service.http.logs import audit
from evenkeel.service.http.schemas import require_few_marks
from evenkeel.service.store.keys import NOBODY, Key, Keyring

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
_bearer = HTTPBearer(auto_error=False, description="An API key; needed only if the service has keys")


async def _allow() -> None: ...


async def _teach() -> None: ...


OPEN = Depends(_allow)  # the declaration of a route that needs no key
TEACHES = Depends(_teach)  # the declaration of a route that adds to the queue, and so needs room in it


def needs(*scopes: str) -> Any:
    """Return the declaration of a route that needs a key with these scopes; any key will do if there are none."""
    return Security(_bearer, scopes=scopes)


class Guarded(APIRoute):
    """A route that checks the key first, then the rate and the queue, before it reads the body.

    FastAPI alone reads and parses the whole body before it solves dependencies.
    """

    def get_route_handler(self) -> Handler:
        handle, scopes, teaches = self._handler(), self._scopes(), TEACHES in self.dependencies
        changes = scopes is not None and not (self.methods or set()) <= {"GET", "HEAD"} and scopes != {"predict"}

        async def check_and_handle(request: Request) -> Response:
            if scopes is not None:
                _check(request, scopes)
            door: Door = request.app.state.door
            async with door.entered() if teaches else nullcontext():
                if self.body_field is not None:
                    require_few_marks(await request.body(), request.app.state.most_examples)
                response = await handle(request)
            if changes:
                audit(request.scope)
            return response

        return check_and_handle

    def _handler(self) -> Handler:
        """Return the endpoint itself if it takes only the request: FastAPI would solve dependencies for nothing."""
        depends = self.dependant
        declared = (depends.path_params, depends.query_params, depends.header_params, depends.cookie_params)
        if depends.request_param_name is None or any(declared) or depends.body_params:
            return super().get_route_handler()
        endpoint, name = self.endpoint, depends.request_param_name
        return lambda request: endpoint(**{name: request})

    def _scopes(self) -> set[str] | None:
        """Return the scopes that a key needs; None if no key is needed. Raise TypeError if that is not declared."""
        if OPEN in self.dependencies:
            return None
        declared = [each for each in self.dependencies if getattr(each, "dependency", None) is _bearer]
        if not declared:
            raise TypeError(f"The route {self.path} must declare its scope: dependencies=[needs(SCOPE)], or [OPEN].")
        return {scope for each in declared if isinstance(each, params.Security) for scope in each.scopes or ()}


def _check(request: Request, scopes: set[str]) -> None:
    """Raise an HTTPException if the request has no valid key, or one that lacks a scope; RateError if it must wait."""
    keyring: Keyring = request.app.state.keyring
    rates: Rates = request.app.state.rates
    key = keyring.find(request.headers.get("authorization"))
    if key is None or key.has_expired:
        raise HTTPException(401, _why_not(keyring, key), {"WWW-Authenticate": "Bearer"})
    request.scope["key"] = key.name
    for scope in scopes.difference(key.allows):
        raise HTTPException(403, f"This key lacks the scope {scope!r}.")
    rates.take(key.name)


def _why_not(keyring: Keyring, key: Key | None) -> str:
    if key is not None:
        return "This key has expired."
    return "A key is required: Authorization: Bearer KEY." if keyring.access == "by key" else NOBODY
