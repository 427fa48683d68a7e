"""Compare how fast a service learns with a bare learner, in turns, in the same minute.

Run: python -m benchmarks.service_ratio      (about three minutes, on two quiet cores)

The bare learner is that of the service, taught batches of 32 vectors from memory on one core. The service is that of
service_load.py under more load than it can take, with few predictions.
"""

import argparse
import json
import time
from statistics import median

import numpy as np
import torch
from benchmarks import service_load
from benchmarks.service_load import BATCH, CLASSES, FEATURES

from evenkeel.service.config import load_service
from evenkeel.service.opening import fresh


def bare(seconds: float) -> float:
    """Return how many examples a bare learner learns per second."""
    learner, generator = fresh(load_service({"input": {"features": FEATURES}})), np.random.default_rng(0)
    means = generator.normal(size=(CLASSES, FEATURES))
    labels = generator.integers(0, CLASSES, (200, BATCH))
    batches = (means[labels] + generator.normal(size=(200, BATCH, FEATURES))).astype(np.float32)
    learned, begun = 0, time.perf_counter()
    while (took := time.perf_counter() - begun) < seconds:
        place = learned // BATCH % len(batches)
        keys = [f"{learned}-{number}" for number in range(BATCH)]
        learner.learn(batches[place], labels[place].tolist(), key=keys)
        learned += BATCH
    return learned / took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--teach", type=float, default=6_000, help="Examples to offer, per second.")
    parser.add_argument("--predictions", type=int, default=10, help="Predictions to request, per second.")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    service_load.RATE = arguments.predictions
    ratios = []
    for _ in range(arguments.rounds):
        alone = bare(arguments.seconds / 2)
        measured = service_load.measure(arguments.seconds, arguments.teach)
        alone = (alone + bare(arguments.seconds / 2)) / 2
        served = measured["learned_per_second"]
        assert isinstance(served, int)
        ratios.append(served / alone)
        result = {"bare": round(alone), "service": served, "ratio": round(ratios[-1], 2)}
        print(json.dumps({**result, "cores_used": measured["cores_used"]}))
    print(json.dumps({"ratio": round(median(ratios), 2), "from": round(min(ratios), 2), "to": round(max(ratios), 2)}))


if __name__ == "__main__":
    main()
