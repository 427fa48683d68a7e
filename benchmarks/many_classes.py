"""Measure what a batch costs a service's learner that knows many labels.

Run: python -m benchmarks.many_classes      (a minute; --write writes many_classes.json)

An MLP on 384 features, ER with CBA, batches of 32: CPU time of a batch of known labels, of a batch of new ones, and of
what is measured and sent with a snapshot. The arithmetic grows with the number of outputs, so compare the columns: new
labels may cost little more than known ones.
"""

import argparse
import json
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch

from evenkeel.service.config import load_service
from evenkeel.service.opening import fresh
from evenkeel.service.store.counters import Counters, memory_recency_bias
from evenkeel.service.worker.pipe import Published, WorkerReport

FEATURES, BATCH = 384, 32


class Taught:
    """A learner and its counters, taught noise under more and more labels."""

    def __init__(self) -> None:
        self.learner = fresh(load_service({"input": {"features": FEATURES}}))
        self.counters, self.labels = Counters(), 0
        self._generator = np.random.default_rng(0)

    def learn(self, *, new: bool) -> None:
        """Learn a batch, as a service does: predict it first, then count it."""
        known = self._generator.integers(0, max(1, self.labels), BATCH)
        numbers = range(self.labels, self.labels + BATCH) if new else known
        self.labels += BATCH * new
        labels = [f"label {number}" for number in numbers]
        x = self._generator.normal(size=(BATCH, FEATURES)).astype(np.float32)
        self.counters.test(self.learner, x, labels)
        self.learner.learn(x, labels)
        self.counters.count(labels)

    def measure(self) -> None:
        memory_recency_bias(self.learner, self.counters.last_seen)

    def publish(self) -> None:
        pickle.dumps((Published.of(self.learner, 1), WorkerReport().counted(self.counters, 0)), protocol=5)


def cost(action: Callable[[], None], times: int = 9) -> float:
    """Return the median CPU time of an action, in ms."""

    def once() -> float:
        begun = time.process_time()
        action()
        return 1000 * (time.process_time() - begun)

    return round(median(once() for _ in range(times)), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=int, nargs="+", default=[2_500, 7_500])
    parser.add_argument("--write", action="store_true", help="Write many_classes.json next to this file.")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    taught, measured = Taught(), list[dict[str, float]]()
    for labels in sorted(arguments.labels):
        while taught.labels < labels:
            taught.learn(new=True)
        known = cost(lambda: taught.learn(new=False))
        new = cost(lambda: taught.learn(new=True))
        costs = {"known_ms": known, "new_ms": new, "bias_ms": cost(taught.measure), "snapshot_ms": cost(taught.publish)}
        measured.append({"labels": labels, **costs, "new_over_known": round(new / known, 2)})
        print(json.dumps(measured[-1]))
    if arguments.write:
        Path(__file__).with_suffix(".json").write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
