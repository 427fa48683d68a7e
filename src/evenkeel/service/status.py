"""How a service is, for people and the dashboard."""

import time
from typing import Any

from evenkeel.experiment.loading import title_of
from evenkeel.service.service import Service
from evenkeel.service.tally import share


def status(service: Service, counts: dict[str, int]) -> dict[str, Any]:
    """`counts` are those of the journal; empty where it cannot be read."""
    published, engine, config = service.published, service.engine, service.config
    told = {
        "version": published.version,
        "state": _state(service),
        "error": service.problem,
        "title": title_of(config.method, config.adaptor),
        "input": {"kind": "vector", "features": config.input.features}
        if config.input.size is None
        else {"kind": "image", "channels": config.input.channels, "size": config.input.size},
        "memory": {"samples": sum(published.stored.values()), "bytes": published.bytes},
        "uptime": time.monotonic() - service.started_at,
    }
    if engine is None:
        return told
    tally = engine.tally
    learned = dict(tally.counts)
    return told | {
        "refusal": engine.refusal,
        "classes": [
            {"label": label, "learned": learned.get(label, 0), "memory": published.stored.get(label, 0)}
            for label in dict.fromkeys([*published.classifier.classes, *learned])
        ],
        "examples": {
            "accepted": counts.get("accepted"),
            "learned": tally.learned,
            "waiting": engine.waiting,
            "refused": tally.refused,
            "withdrawn": counts.get("withdrawn"),
        },
        "accuracy": {
            "answered": {
                "labelled": counts.get("labelled"),
                "right": counts.get("right"),
                "recent": share(engine.answered),
            },
            "before_learning": {"tested": tally.tested, "right": tally.right, "recent": share(tally.tested_lately)},
        },
        "recency_bias": engine.recency_bias,
        "queue": {"waiting": engine.waiting, "limit": config.limits.queue},
        "throughput": engine.rate,
        "checkpoint": {"version": engine.saved, "seconds": time.monotonic() - engine.saved_at},
    }


def _state(service: Service) -> str:
    engine = service.engine
    if engine is None or not engine.alive:
        return "stopped"
    if engine.recovering:
        return "recovering"
    return "learning" if engine.waiting else "idle"
