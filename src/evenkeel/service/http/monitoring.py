"""The routes for those who watch: status, history, metrics, health, the dashboard."""

from importlib.resources import files
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from evenkeel.service.http.auth import RouterFor
from evenkeel.service.http.prometheus import Metrics
from evenkeel.service.http.responses import answers, as_json, done
from evenkeel.service.http.schemas import Problem
from evenkeel.service.http.status import status
from evenkeel.service.service import Service
from evenkeel.service.store.journal import JournalError

PAGES = {"dashboard.css": "text/css", **dict.fromkeys(("dashboard.js", "charts.js", "words.js"), "text/javascript")}
POLICY = "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'"


def monitoring_routes(service: Service, metrics: Metrics, router_for: RouterFor) -> list[APIRouter]:
    router, everybody = router_for(""), APIRouter()

    @router.get("/v1/status", **answers(dict[str, Any]))
    async def tell_status(request: Request) -> Response:  # noqa: ARG001
        """How it is: what was accepted and learned, how well it does, what waits."""
        try:
            counts = await done(service.counts())
        except JournalError:
            counts = {}
        return as_json(status(service, counts))

    @router.get("/v1/history", **answers(dict[str, Any]))
    async def history(request: Request) -> Response:  # noqa: ARG001
        """Accuracy, recency bias, queue and throughput over time."""
        return as_json({"points": service.supervisor.history if service.supervisor else []})

    @router.get("/metrics", response_class=Response, **answers(None))
    async def tell_metrics(request: Request) -> Response:  # noqa: ARG001
        """For Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @everybody.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @everybody.get("/readyz", responses={503: {"model": Problem}})
    async def readyz() -> Response:
        """Whether it has caught up after a start, and can both answer and learn."""
        recovering = service.supervisor is not None and service.supervisor.report.recovering
        problem = "It is learning again what the last checkpoint lacks." if recovering else service.problem
        return as_json({"status": "ready"}) if problem is None else as_json({"error": problem}, 503)

    return [router, everybody]


def pages() -> APIRouter:
    """The dashboard, read once: no path of a request ever touches the file system."""
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
