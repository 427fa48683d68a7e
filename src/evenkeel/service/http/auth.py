"""Routes that check the API key before anything else."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.types import Receive, Scope, Send

from evenkeel.service.store.keys import Keyring

# From a scope to a router whose routes require a key with that scope; any key will do if the scope is "".
RouterFor = Callable[[str], APIRouter]


def make_router_for(keyring: Keyring) -> RouterFor:
    """Return a function that makes routers guarded by these keys."""
    bearer = HTTPBearer(auto_error=False, description="An API key; needed only if the service has keys")

    def check(request: Request, scope: str) -> None:
        scopes = keyring.scopes(request.headers.get("authorization"))
        if scopes is None:
            raise HTTPException(401, "A key is required: Authorization: Bearer KEY.", {"WWW-Authenticate": "Bearer"})
        if scope and scope not in scopes:
            raise HTTPException(403, f"This key lacks the scope {scope!r}.")

    def router_for(scope: str) -> APIRouter:
        class Guarded(APIRoute):
            """A route that checks the key, then leaves reading the request to its function.

            FastAPI would parse the request first, even for clients without a key, and take as long for that as the
            whole answer takes.
            """

            def __init__(self, *arguments: Any, **named: Any) -> None:
                super().__init__(*arguments, **named)
                self.app = self._answer

            async def _answer(self, connection: Scope, receive: Receive, send: Send) -> None:
                request = Request(connection, receive)
                check(request, scope)
                answer: Response = await self.endpoint(request, **request.path_params)
                await answer(connection, receive, send)

        return APIRouter(route_class=Guarded, dependencies=[Depends(bearer)])

    return router_for
