"""How a service is, for people and the dashboard."""

import os
import time
from typing import Any

from evenkeel.experiment.loading import title_of
from evenkeel.service.service import Service
from evenkeel.service.tally import share


def status(service: Service, counts: dict[str, int]) -> dict[str, Any]:
    """`counts` are those of the journal; empty where it cannot be read."""
    published, learning, config = service.published, service.learning, service.config
    told = {
        "version": published.version,
        "state": _state(service),
        "error": service.problem,
        "title": title_of(config.method, config.adaptor),
        "input": {"kind": "vector", "features": config.input.features}
        if config.input.size is None
        else {"kind": "image", "channels": config.input.channels, "size": config.input.size},
        "memory": {"samples": sum(published.stored.values()), "bytes": published.bytes},
        "processes": {"service": os.getpid(), "learner": learning and learning.process},
        "uptime": time.monotonic() - service.started_at,
    }
    if learning is None:
        return told
    news = learning.news
    learned = news.counts or {}
    return told | {
        "refusal": news.refusal,
        "classes": [
            {"label": label, "learned": learned.get(label, 0), "memory": published.stored.get(label, 0)}
            for label in dict.fromkeys([*published.classifier.classes, *learned])
        ],
        "examples": {
            "accepted": counts.get("accepted"),
            "learned": news.learned,
            "waiting": learning.waiting,
            "refused": news.refused,
            "withdrawn": counts.get("withdrawn"),
        },
        "accuracy": {
            "answered": {
                "labelled": counts.get("labelled"),
                "right": counts.get("right"),
                "recent": share(learning.answered),
            },
            "before_learning": {"tested": news.tested, "right": news.right, "recent": news.lately},
        },
        "recency_bias": news.recency_bias,
        "queue": {"waiting": learning.waiting, "limit": config.limits.queue},
        "throughput": learning.rate,
        "checkpoint": {"version": news.saved, "seconds": time.monotonic() - learning.saved_at},
    }


def _state(service: Service) -> str:
    learning = service.learning
    if learning is None or not learning.alive:
        return "stopped"
    if learning.news.recovering:
        return "recovering"
    return "learning" if learning.waiting else "idle"
