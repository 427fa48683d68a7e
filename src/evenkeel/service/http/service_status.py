"""The status of a service, for people and the dashboard."""

import os
import time
from typing import Any

from evenkeel.config.build import title_of
from evenkeel.service.config import Input
from evenkeel.service.service import Service
from evenkeel.service.store.counters import percent_right


def status(service: Service, counts: dict[str, int]) -> dict[str, Any]:
    """Return the status of a service. `counts` are those of the journal, or empty if it cannot be read."""
    published, supervisor, config = service.published, service.supervisor, service.config
    common = {
        "version": published.version,
        "state": _state(service),
        "error": service.problem,
        "notice": service.notice,
        "title": title_of(config),
        "input": {"kind": config.input.kind, **_described(config.input)},
        "memory": {"samples": sum(published.stored.values()), "bytes": published.bytes},
        "processes": {"service": os.getpid(), "learner": supervisor and supervisor.process},
        "uptime": time.monotonic() - service.started_at,
    }
    if supervisor is None:
        return common
    report = supervisor.report
    learned = report.counts or {}
    return common | {
        "refusal": report.refusal,
        "classes": [
            {"label": label, "learned": learned.get(label, 0), "memory": published.stored.get(label, 0)}
            for label in dict.fromkeys([*published.classifier.classes, *learned])
        ],
        "examples": {
            "accepted": counts.get("accepted"),
            "learned": report.learned,
            "waiting": supervisor.waiting,
            "refused": report.refused,
            "withdrawn": counts.get("withdrawn"),
        },
        "accuracy": {
            "answered": {
                "labelled": counts.get("labelled"),
                "right": counts.get("right"),
                "recent": percent_right(supervisor.answered),
            },
            "before_learning": {"tested": report.tested, "right": report.right, "recent": report.lately},
        },
        "recency_bias": report.recency_bias,
        "queue": {
            "waiting": supervisor.waiting,
            "limit": config.most_waiting,
            "seconds": supervisor.queue.seconds,
        },
        "throughput": supervisor.rate,
        "checkpoint": {"version": report.saved, "seconds": time.monotonic() - supervisor.saved_at},
    }


def _described(input: Input) -> dict[str, Any]:
    if input.kind == "image":
        return {"channels": input.channels, "size": input.size}
    return {"features": input.features} if input.kind == "vector" else {}


def _state(service: Service) -> str:
    """Return the state of learning: stopped, recovering, learning or idle."""
    supervisor = service.supervisor
    if supervisor is None or not supervisor.alive:
        return "stopped"
    if supervisor.report.recovering:
        return "recovering"
    return "learning" if supervisor.waiting else "idle"
