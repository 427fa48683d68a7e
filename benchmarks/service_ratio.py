"""Compare how fast a service learns with a bare learner, in turns, in the same minute.

Run: python -m benchmarks.service_ratio      (four minutes on two quiet cores; --write writes service_ratio.json)

The bare learner is that of the service, taught batches of 32 vectors from memory on one core. The service is that of
service_load.py, offered a quarter more than the bare learner takes by a process of low priority, as JSON, with numbers
or base64, and as .npy files, with ten predictions / s. Besides examples / s there is the CPU time of the learner's
process for an example, as a share of the bare learner's: it says what a service adds wherever the learner has a core of
its own.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks import service_load
from benchmarks.service_load import BATCH, CLASSES, FEATURES, bounded, requests, served, warm_up
from benchmarks.service_overload import phase
from evenkeel.config.keel import recipe
from evenkeel.service.config import load_service
from evenkeel.service.opening import fresh

BODIES = ["json", "base64", "npy"]
MORE = 1.25  # times as many examples as the bare learner takes are offered


def bare(seconds: float) -> tuple[float, float]:
    """Return how many examples a bare learner learns per second, and per second of CPU time."""
    learner = fresh(load_service({"input": {"features": FEATURES}}, unsaid=recipe(1)))  # that of a new folder
    generator = np.random.default_rng(0)
    means = generator.normal(size=(CLASSES, FEATURES))
    labels = generator.integers(0, CLASSES, (200, BATCH))
    batches = (means[labels] + generator.normal(size=(200, BATCH, FEATURES))).astype(np.float32)
    learned, begun, used = 0, time.perf_counter(), time.process_time()
    while (took := time.perf_counter() - begun) < seconds:
        place = learned // BATCH % len(batches)
        keys = [f"{learned}-{number}" for number in range(BATCH)]
        learner.learn(batches[place], labels[place].tolist(), key=keys)
        learned += BATCH
    return learned / took, learned / (time.process_time() - used)


def compare(seconds: float, body: str) -> dict[str, Any]:
    """Return examples / s of both, and their ratios: of those, and of those by CPU time of the learner."""
    first = bare(seconds / 4)
    with served([]) as (port, pid):
        teach, predict = requests(np.random.default_rng(0), body)
        warm_up(port, first[0], teach, predict)
        measured = phase(port, pid, seconds, MORE * first[0], predict=predict, body=body)
    second = bare(seconds / 4)
    alone, by_cpu = ((one + other) / 2 for one, other in zip(first, second, strict=True))
    taught = measured["learned_per_second"]
    return {
        "body": body,
        "bare": round(alone),
        "service": taught,
        "ratio": round(taught / alone, 2),
        "ratio_by_cpu": round(taught / max(0.01, measured["cores_used"]["learner"]) / by_cpu, 2),
        **{
            name: measured[name]
            for name in ("offered_per_second", "answered_per_second", "refused_requests", "cores_used")
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--predictions", type=int, default=10, help="Predictions to request, per second.")
    parser.add_argument("--write", action="store_true", help="Write service_ratio.json next to this file.")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    service_load.RATE = arguments.predictions
    bodies = BODIES * arguments.rounds
    with bounded(len(bodies) * (2 * arguments.seconds + 40)):
        rounds = [compare(arguments.seconds, body) for body in bodies]
    measured: dict[str, Any] = {"rounds": rounds}
    for body in BODIES:
        of_body = [each for each in rounds if each["body"] == body]
        measured[body] = {name: median(each[name] for each in of_body) for name in ("ratio", "ratio_by_cpu")}
    print(json.dumps(measured, indent=1))
    if arguments.write:
        Path(__file__).with_suffix(".json").write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
