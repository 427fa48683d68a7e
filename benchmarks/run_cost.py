"""The cost of evaluation: anytime tests, prequential prediction and gradient alignment, relative to a plain run.

Run: EVENKEEL_DATA=... python benchmarks/run_cost.py      (or make bench, which also writes run_cost.json)

Slim ResNet-18 on Split CIFAR-10 with the paper's preset, a stream of 50 steps over all five tasks. Runs that differ
only in what is measured take turns of five steps in one process, and their CPU time in one thread counts, so that other
load affects all of them equally and little; steps that end a task are not counted, because the test there is the same
for all. Also: how long it takes to decode CIFAR-10 and to load it from the cache, and how fast 1,000 images are
predicted in batches of several sizes, without and with batch norm folded into the convolutions.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

import evenkeel as ek
from evenkeel.experiment.config import load_config
from evenkeel.experiment.loop import Loop
from evenkeel.experiment.setup import new_learner, planned, read_data
from evenkeel.learning.folding import folded
from evenkeel.results.records import Tested

Mode = Callable[[], AbstractContextManager[object]]
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
    torch.set_num_threads(1)
    whole = load_config("paper/cifar10-er-cba")
    with TemporaryDirectory() as cache:
        os.environ["EVENKEEL_CACHE"] = cache
        decoding, *loading = (seconds_of(lambda: read_data(whole.data, None, lambda *_: None)) for _ in range(6))
        print(
            f"CIFAR-10 decoded: {decoding:.1f} s; from the cache, checked: {min(loading):.2f} to {max(loading):.2f} s"
        )
        ratios, predicting = costs(), predictions()
    result = {
        "cifar10_decoding_seconds": round(decoding, 1),
        "cifar10_from_cache_seconds": [round(value, 3) for value in loading],
        "times_a_plain_run": ratios,
        "milliseconds_for_1000_predictions": predicting,
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")


def predictions() -> dict[str, int]:
    """Return the median milliseconds of seven rounds in which all variants take turns."""
    net = ek.resnet18(classes=10, width=20).eval()
    without_norm = folded(net)
    assert without_norm is not None
    x = torch.rand(1000, 3, 32, 32)

    def go(net: ek.Net, size: int, mode: Mode) -> None:
        with mode():
            for part in x.split(size):
                net(part)

    variants: dict[str, tuple[ek.Net, int, Mode]] = {
        f"batches of {size}, no_grad": (net, size, torch.no_grad) for size in (64, 128, 256, 512)
    }
    variants["batches of 128, inference_mode"] = (net, 128, torch.inference_mode)
    for size in (32, 64, 128):
        variants[f"batches of {size}, folded"] = (without_norm, size, torch.inference_mode)
    rounds = [{name: seconds_of(partial(go, *how)) for name, how in variants.items()} for _ in range(7)]
    medians = {name: round(1000 * median(each[name] for each in rounds)) for name in variants}
    for name, milliseconds in medians.items():
        print(f"1,000 images, {name:32s} {milliseconds} ms")
    return medians


def seconds_of(work: Callable[[], object]) -> float:
    """Return the CPU seconds of some work."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def costs() -> dict[str, float]:
    """Return the time of each kind of run, relative to a run without evaluation."""
    loops = {}
    for name, settings in RUNS.items():
        config = load_config("paper/cifar10-er-cba", [*PLAIN, *settings])
        setup = planned(config, None, None, lambda *_: None)
        loops[name] = Loop(setup, new_learner(setup)).steps(None, None)
    seconds = dict.fromkeys(loops, 0.0)
    for _ in range(10):
        for name, steps in loops.items():
            for _ in range(5):
                begun = time.process_time()
                records = next(steps)
                if not any(isinstance(record, Tested) for record in records):
                    seconds[name] += time.process_time() - begun
    ratios = {name: round(spent / seconds["nothing"], 3) for name, spent in seconds.items()}
    for name, ratio in ratios.items():
        print(f"{name:40s} {ratio:.2f} x the time of a run without evaluation")
    return ratios


if __name__ == "__main__":
    main()
