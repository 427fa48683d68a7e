"""What it costs to look: anytime tests, prequential prediction and gradient alignment, as shares of a plain run.

Run: EVENKEEL_DATA=... python benchmarks/run_cost.py      (or make bench, which also writes run_cost.json)

Slim ResNet-18 on Split CIFAR-10 with the paper's preset, a stream of 50 steps over all five tasks. Runs that differ
only in what is measured take turns of five steps in one process, so that a busy machine is busy for all of them; steps
that end a task are not counted, because the test there is the same for all. Also: how long CIFAR-10 takes to load from
the cache.
"""

import json
import time
from pathlib import Path

import torch

from evenkeel.experiment import load_config
from evenkeel.experiment.course import load_data, new_learner, planned
from evenkeel.experiment.walk import Walk
from evenkeel.results import Tested

RUNS = {
    "nothing": [],
    "anytime: 1,000 images every 5 steps": ["evaluation.every=5"],
    "prequential": ["evaluation.prequential=true"],
    "alignment every 50 steps": ["evaluation.alignment=50"],
    "alignment every 5 steps": ["evaluation.alignment=5"],
}
PLAIN = [
    "net.width=20",
    "limits.train=160",
    "limits.test=200",
    "evaluation.every=0",
    "evaluation.alignment=0",
    "evaluation.sample=1000",
]


def main() -> None:
    torch.set_num_threads(2)
    whole = load_config("paper/cifar10-er-cba")
    load_data(whole, None, lambda *_: None)  # decoded, if it was not
    loading = []
    for _ in range(5):
        begun = time.perf_counter()
        load_data(whole, None, lambda *_: None)
        loading.append(time.perf_counter() - begun)
    print(f"CIFAR-10 from the cache, checked: {min(loading):.2f} to {max(loading):.2f} s")

    walks = {}
    for name, settings in RUNS.items():
        config = load_config("paper/cifar10-er-cba", [*PLAIN, *settings])
        course = planned(config, None, None, lambda *_: None)
        walks[name] = Walk(course, new_learner(course)).steps(None, None)
    seconds = dict.fromkeys(walks, 0.0)
    for _ in range(10):
        for name, steps in walks.items():
            for _ in range(5):
                begun = time.perf_counter()
                records = next(steps)
                if not any(isinstance(record, Tested) for record in records):
                    seconds[name] += time.perf_counter() - begun
    ratios = {name: round(spent / seconds["nothing"], 3) for name, spent in seconds.items()}
    for name, ratio in ratios.items():
        print(f"{name:40s} {ratio:.2f} x as long as with nothing measured")
    found = {"cifar10_from_cache_seconds": [round(value, 3) for value in loading], "times_a_plain_run": ratios}
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
