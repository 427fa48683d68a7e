"""Routes that look at the key first."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.types import Receive, Scope, Send

from evenkeel.service.store.keys import Keyring

RouterFor = Callable[
    [str], APIRouter
]  # a router whose routes are open to bearers of a scope; of any key where it is ""


def make_router_for(keyring: Keyring) -> RouterFor:
    bearer = HTTPBearer(auto_error=False, description="A key, where there are keys")

    def check(request: Request, scope: str) -> None:
        scopes = keyring.scopes(request.headers.get("authorization"))
        if scopes is None:
            raise HTTPException(401, "A key is needed: Authorization: Bearer KEY.", {"WWW-Authenticate": "Bearer"})
        if scope and scope not in scopes:
            raise HTTPException(403, f"This key has not the scope {scope!r}.")

    def router_for(scope: str) -> APIRouter:
        class Guarded(APIRoute):
            """Leaves the request to the route's function, once the key is good. FastAPI would read and look through it
            beforehand, for people who have no key too, and take as long for that as an answer takes.
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
