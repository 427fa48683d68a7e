"""Routes for monitoring: status, history, metrics, health, and the dashboard."""

from importlib.resources import files
from typing import Any

from fastapi import FastAPI, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from evenkeel.service.http.auth import OPEN, needs
from evenkeel.service.http.prometheus import Metrics
from evenkeel.service.http.responses import as_json, done
from evenkeel.service.http.service_status import status
from evenkeel.service.service import Service
from evenkeel.service.store.journal import JournalError

CHARTS = ("charts.js", "live_charts.js")  # those of reports
SCRIPTS = ("classes.js", "dashboard.js", "server.js", "trial.js", "words.js")
PAGES = {"dashboard.css": "text/css", **dict.fromkeys((*CHARTS, *SCRIPTS), "text/javascript")}
POLICY = "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'"


def add_monitoring_routes(app: FastAPI, service: Service, metrics: Metrics) -> None:
    """Add the routes of the status, for any key, and of health, for everyone."""
    any_key = [needs()]

    async def journal_counts() -> dict[str, int]:
        """Return the counts of the journal; none if it cannot be read."""
        try:
            return await done(service.counts())
        except JournalError:
            return {}

    @app.get("/v1/status", dependencies=any_key, summary="Status")
    async def tell_status() -> dict[str, Any]:
        """Report what was accepted and learned, how accurate the predictions are, and what is waiting."""
        return status(service, await journal_counts())

    @app.get("/v1/history", dependencies=any_key)
    async def history() -> dict[str, Any]:
        """Report accuracy, recency bias, queue and throughput over time."""
        return {"points": service.supervisor.history if service.supervisor else []}

    @app.get("/metrics", dependencies=any_key, response_class=Response, summary="Metrics")
    async def tell_metrics() -> Response:
        """Report metrics for Prometheus."""
        metrics.counts = await journal_counts()
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/healthz", dependencies=[OPEN])
    async def healthz() -> dict[str, str]:
        """Check whether the process responds."""
        return {"status": "ok"}

    @app.get("/readyz", dependencies=[OPEN])
    async def readyz() -> Response:
        """Check whether the service has caught up after a start, and can both predict and learn."""
        recovering = service.supervisor is not None and service.supervisor.report.recovering
        problem = "Replaying the examples learned since the last checkpoint." if recovering else service.problem
        return as_json({"status": "ready"}) if problem is None else as_json({"error": problem}, 503)


def add_pages(app: FastAPI) -> None:
    """Add the pages of the dashboard, whose files are read once: no request path ever touches the file system."""
    folder = files("evenkeel.service.http") / "pages"
    page = (folder / "dashboard.html").read_bytes()
    charts = files("evenkeel.report")
    parts = {name: ((charts if name in CHARTS else folder) / name).read_bytes() for name in PAGES}
    headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}

    @app.get("/", dependencies=[OPEN], include_in_schema=False)
    async def dashboard() -> Response:
        return Response(page, media_type="text/html", headers=headers)

    @app.get("/pages/{name}", dependencies=[OPEN], include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in parts:
            raise HTTPException(404, "There is no such page.")
        return Response(parts[name], media_type=PAGES[name], headers=headers)
