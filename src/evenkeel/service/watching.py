"""The routes for those who watch: status, history, metrics, health, the dashboard."""

from importlib.resources import files
from typing import Any

from fastapi import APIRouter, HTTPException, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from evenkeel.service.answers import answers, done
from evenkeel.service.journal import JournalError
from evenkeel.service.metrics import Metrics
from evenkeel.service.routes import May
from evenkeel.service.schemas import Problem
from evenkeel.service.service import Service
from evenkeel.service.status import status

PAGES = {"dashboard.css": "text/css", "dashboard.js": "text/javascript"}
POLICY = "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'"


def watching_routes(service: Service, metrics: Metrics, may: May) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/status", dependencies=may(""), **answers(dict[str, Any]))
    async def tell_status() -> Response:
        """How it is: what was accepted and learned, how well it does, what waits."""
        try:
            counts = await done(service.counts())
        except JournalError:
            counts = {}
        return JSONResponse(status(service, counts))

    @router.get("/v1/history", dependencies=may(""), **answers(dict[str, Any]))
    async def history() -> Response:
        """Accuracy, recency bias, queue and throughput over time."""
        return JSONResponse({"points": service.learning.history if service.learning else []})

    @router.get("/metrics", dependencies=may(""), response_class=Response, **answers(None))
    async def tell_metrics() -> Response:
        """For Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @router.get("/readyz", responses={503: {"model": Problem}})
    async def readyz() -> Response:
        """Whether it has caught up after a start, and can both answer and learn."""
        recovering = service.learning is not None and service.learning.news.recovering
        problem = "It is learning again what the last checkpoint lacks." if recovering else service.problem
        return JSONResponse({"status": "ready"}) if problem is None else JSONResponse({"error": problem}, 503)

    return router


def pages() -> APIRouter:
    """The dashboard, read once: no path of a request ever touches the file system."""
    router = APIRouter(include_in_schema=False)
    folder = files("evenkeel.service") / "pages"
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
