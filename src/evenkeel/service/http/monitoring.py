"""Routes for monitoring: status, history, metrics, health, and the dashboard."""

from importlib.resources import files
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from evenkeel.service.http.auth import RouterFor
from evenkeel.service.http.prometheus import Metrics
from evenkeel.service.http.responses import answers, as_json, done
from evenkeel.service.http.schemas import Problem
from evenkeel.service.http.service_status import status
from evenkeel.service.service import Service
from evenkeel.service.store.journal import JournalError

PAGES = {"dashboard.css": "text/css", **dict.fromkeys(("dashboard.js", "charts.js", "words.js"), "text/javascript")}
POLICY = "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'"


def monitoring_routes(service: Service, metrics: Metrics, router_for: RouterFor) -> list[APIRouter]:
    """Return two routers: one for any key, and one that is open to everyone."""
    router, public = router_for(""), APIRouter()

    @router.get("/v1/status", summary="Status", **answers(dict[str, Any]))
    async def tell_status(request: Request) -> Response:  # noqa: ARG001
        """Report what was accepted and learned, how accurate the predictions are, and what is waiting."""
        try:
            counts = await done(service.counts())
        except JournalError:
            counts = {}
        return as_json(status(service, counts))

    @router.get("/v1/history", **answers(dict[str, Any]))
    async def history(request: Request) -> Response:  # noqa: ARG001
        """Report accuracy, recency bias, queue and throughput over time."""
        return as_json({"points": service.supervisor.history if service.supervisor else []})

    @router.get("/metrics", response_class=Response, summary="Metrics", **answers(None))
    async def tell_metrics(request: Request) -> Response:  # noqa: ARG001
        """Report metrics for Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @public.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Check whether the process responds."""
        return {"status": "ok"}

    @public.get("/readyz", responses={503: {"model": Problem}})
    async def readyz() -> Response:
        """Check whether the service has caught up after a start, and can both predict and learn."""
        recovering = service.supervisor is not None and service.supervisor.report.recovering
        problem = "Replaying the examples learned since the last checkpoint." if recovering else service.problem
        return as_json({"status": "ready"}) if problem is None else as_json({"error": problem}, 503)

    return [router, public]


def pages() -> APIRouter:
    """Return the routes of the dashboard, whose files are read once: no request path ever touches the file system."""
    router = APIRouter(include_in_schema=False)
    folder = files("evenkeel.service.http") / "pages"
    page = (folder / "dashboard.html").read_bytes()
    parts = {name: (folder / name).read_bytes() for name in PAGES}
    headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}

    @router.get("/")
    async def dashboard() -> Response:
        return Response(page, media_type="text/html", headers=headers)

    @router.get("/pages/{name}")
    async def part(name: str) -> Response:
        if name not in parts:
            raise HTTPException(404, "There is no such page.")
        return Response(parts[name], media_type=PAGES[name], headers=headers)

    return router
