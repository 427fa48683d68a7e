"""Who may use a route: each declares with `needs` the scope that a key must have, which FastAPI documents, too."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Depends, HTTPException, Request, Response, Security, params
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from evenkeel.service.http.schemas import require_few_marks
from evenkeel.service.store.keys import NOBODY, Key, Keyring

_bearer = HTTPBearer(auto_error=False, description="An API key; needed only if the service has keys")


async def _allow() -> None: ...


OPEN = Depends(_allow)  # the declaration of a route that needs no key


def needs(*scopes: str) -> Any:
    """Return the declaration of a route that needs a key with these scopes; any key will do if there are none."""
    return Security(_bearer, scopes=scopes)


class Guarded(APIRoute):
    """A route that checks the key first: FastAPI reads and parses the whole body before it solves dependencies."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle, scopes = super().get_route_handler(), self._scopes()

        async def check_and_handle(request: Request) -> Response:
            if scopes is not None:
                _check(request, scopes)
            if self.body_field is not None:
                require_few_marks(await request.body(), request.app.state.most_examples)
            return await handle(request)

        return check_and_handle

    def _scopes(self) -> set[str] | None:
        """Return the scopes that a key needs; None if no key is needed. Raise TypeError if that is not declared."""
        if OPEN in self.dependencies:
            return None
        declared = [each for each in self.dependencies if getattr(each, "dependency", None) is _bearer]
        if not declared:
            raise TypeError(f"The route {self.path} must declare its scope: dependencies=[needs(SCOPE)], or [OPEN].")
        return {scope for each in declared if isinstance(each, params.Security) for scope in each.scopes or ()}


def _check(request: Request, scopes: set[str]) -> None:
    """Raise an HTTPException if the request has no valid key, or one that lacks a scope."""
    keyring: Keyring = request.app.state.keyring
    key = keyring.find(request.headers.get("authorization"))
    if key is None or key.has_expired:
        raise HTTPException(401, _why_not(keyring, key), {"WWW-Authenticate": "Bearer"})
    for scope in scopes.difference(key.allows):
        raise HTTPException(403, f"This key lacks the scope {scope!r}.")


def _why_not(keyring: Keyring, key: Key | None) -> str:
    if key is not None:
        return "This key has expired."
    return "A key is required: Authorization: Bearer KEY." if keyring.access == "by key" else NOBODY
