"""The web application of a service: its routes, and the guard in front of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI, Request
from fastapi_offline import FastAPIOffline
from starlette.types import ASGIApp, Receive, Scope, Send

from evenkeel.service.http.admission import Door, Rates
from evenkeel.service.http.auth import Guarded
from evenkeel.service.http.guard import Guard
from evenkeel.service.http.logs import access, route
from evenkeel.service.http.monitoring import add_monitoring_routes, add_pages
from evenkeel.service.http.prometheus import Metrics
from evenkeel.service.http.responses import ERROR_HANDLERS, answer_error, errors
from evenkeel.service.http.routes import add_admin_routes, add_client_routes
from evenkeel.service.service import Service
from evenkeel.service.store.keys import Keyring

BUSY = ("/v1/learn", "/v1/predict")  # routes that take only the request
DESCRIPTION = "A classifier that keeps learning. Teach it with `/v1/learn`, query it with `/v1/predict`."


def make_app(service: Service, keyring: Keyring) -> FastAPI:
    """Return the application of a service, which learns from the app's startup to its shutdown."""
    metrics, limits, shortcuts = Metrics(service), service.config.limits, dict[tuple[str, str], ASGIApp]()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await asyncio.to_thread(service.close)

    def observe(scope: Scope, status: int, seconds: float) -> None:
        metrics.observe(route(scope), status, seconds)
        access(scope, status, seconds)

    app = FastAPIOffline(
        title="Evenkeel",
        version=version("evenkeel"),
        description=DESCRIPTION,
        lifespan=lifespan,
        redoc_url=None,
        exception_handlers=ERROR_HANDLERS,
        telemetry={"tracing": False, "metrics": False},  # `Metrics` has them
        responses=errors(400, 401, 403, 408, 413, 415, 422, 429, 503),
    )
    app.state.keyring, app.state.most_examples = keyring, limits.examples
    app.state.door, app.state.rates = Door(service), Rates(limits.rate)
    app.router.route_class = Guarded
    app.add_middleware(
        Guard,
        body=limits.body,
        seconds=limits.seconds,
        is_open=lambda: keyring.access == "open",
        seen=observe,
        shortcuts=shortcuts,
    )
    add_client_routes(app, service)
    add_admin_routes(app, service)
    add_monitoring_routes(app, service, metrics)
    add_pages(app)
    shortcuts.update({("POST", path): _shortcut(app, path) for path in BUSY})
    return app


def _shortcut(app: FastAPI, path: str) -> ASGIApp:
    """Return a busy route without what FastAPI does around it, none of which it needs: that takes as long as a net."""
    route = next(each for each in app.router.routes if isinstance(each, Guarded) and each.path == path)
    handle = route.get_route_handler()

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        scope.update(app=app, route=route)
        request = Request(scope, receive, send)
        try:
            response = await handle(request)
        except Exception as error:
            response = await answer_error(request, error)
        await response(scope, receive, send)

    return call
