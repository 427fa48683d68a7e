"""The service over HTTP: its routes, and what stands before them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.types import Scope

from evenkeel.service.http.auth import make_router_for
from evenkeel.service.http.limits import Guard
from evenkeel.service.http.monitoring import monitoring_routes, pages
from evenkeel.service.http.prometheus import Metrics
from evenkeel.service.http.responses import handle_errors
from evenkeel.service.http.routes import admin_routes, client_routes
from evenkeel.service.service import Service
from evenkeel.service.store.keys import Keyring

DESCRIPTION = "A classifier that keeps learning. Teach it with `/v1/learn`, ask it with `/v1/predict`."


def make_app(service: Service, keyring: Keyring) -> FastAPI:
    """It learns from the app's start to its end."""
    metrics, router_for = Metrics(service), make_router_for(keyring)

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
    handle_errors(app)
    watching = monitoring_routes(service, metrics, router_for)
    for router in (*client_routes(service, router_for), *admin_routes(service, router_for), *watching, pages()):
        app.router.routes.extend(router.routes)  # not include_router, which would look for the route twice
    return app
