"""The service over HTTP: its routes, and what stands before them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.security import HTTPBearer
from fastapi_offline import FastAPIOffline
from starlette.types import Scope

from evenkeel.service.answers import tell_errors
from evenkeel.service.guard import Guard
from evenkeel.service.keys import Keyring
from evenkeel.service.metrics import Metrics
from evenkeel.service.routes import May, admin_routes, client_routes
from evenkeel.service.service import Service
from evenkeel.service.watching import pages, watching_routes

DESCRIPTION = "A classifier that keeps learning. Teach it with `/v1/learn`, ask it with `/v1/predict`."


def make_app(service: Service, keyring: Keyring) -> FastAPI:
    """It learns from the app's start to its end."""
    metrics, may = Metrics(service), _door(keyring)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await asyncio.to_thread(service.close)

    def seen(scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")  # as the routes have it: few, whatever is asked for
        metrics.latency.labels(route, str(status)).observe(seconds)

    app = FastAPIOffline(
        title="Evenkeel", version=version("evenkeel"), description=DESCRIPTION, lifespan=lifespan, redoc_url=None
    )
    limits = service.config.limits
    app.add_middleware(Guard, body=limits.body, seconds=limits.seconds, is_open=lambda: keyring.is_open, seen=seen)
    tell_errors(app)
    app.include_router(client_routes(service, may))
    app.include_router(admin_routes(service, may))
    app.include_router(watching_routes(service, metrics, may))
    app.include_router(pages())
    return app


def _door(keyring: Keyring) -> May:
    bearer = HTTPBearer(auto_error=False, description="A key, where there are keys")

    def may(scope: str) -> list[Any]:
        async def check(request: Request) -> None:  # not a plain function: FastAPI would give it a thread
            scopes = keyring.scopes(request.headers.get("authorization"))
            if scopes is None:
                raise HTTPException(401, "A key is needed: Authorization: Bearer KEY.", {"WWW-Authenticate": "Bearer"})
            if scope and scope not in scopes:
                raise HTTPException(403, f"This key has not the scope {scope!r}.")

        return [Depends(bearer), Depends(check)]

    return may
