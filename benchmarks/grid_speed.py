"""Compare two workers with one thread each to one worker with two threads: how much sooner is a grid done?

Run: python benchmarks/grid_speed.py      (or make bench); it also writes grid_speed.json.

There is a grid of small runs, and one of larger nets, whose work torch itself can split between two threads. Both ways
use the same launcher and take turns, so that a busy machine slows down both; the first turn of each, in which modules
are imported, is not counted.
"""

import json
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from evenkeel.experiment.config import Config, load_config
from evenkeel.grids.execution import Execution
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.schedule import Grid

WAYS = {"two workers, one thread each": (2, 1), "one after another, two threads": (1, 2)}
NO_EVALUATION = ["evaluation.every=0", "evaluation.alignment=0"]
ROUNDS = 4


def main() -> None:
    with TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        x, y = rng.integers(0, 256, (1000, 3, 32, 32), dtype=np.uint8), np.arange(1000) % 10
        np.savez(Path(folder) / "noise.npz", x_train=x[200:], y_train=y[200:], x_test=x[:200], y_test=y[:200])
        noise = ["data.name=npz", f"data.path={folder}/noise.npz", "net.width=20"]
        grids = {
            "digits, small conv net, 8 runs": [load_config("digits", [*NO_EVALUATION, f"seed={k}"]) for k in range(8)],
            "noise of CIFAR's size, slim ResNet-18, 2 runs": [
                load_config("paper/cifar10-er", [*NO_EVALUATION, *noise, f"seed={k}"]) for k in range(2)
            ],
        }
        results = {name: compared(configs, Path(folder) / str(k)) for k, (name, configs) in enumerate(grids.items())}
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")


def compared(configs: list[Config], folder: Path) -> dict[str, object]:
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for place in range(ROUNDS):
        for name, (workers, threads) in WAYS.items():
            seconds[name].append(once(configs, workers, threads, folder / f"{place} {name}"))
            print(f"{name}: {seconds[name][-1]:.1f} s", flush=True)
    ratios = [slow / fast for fast, slow in zip(*seconds.values(), strict=True)][1:]
    print(f"Two workers are {median(ratios):.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f})")
    return {
        "seconds": {name: [round(each, 1) for each in values] for name, values in seconds.items()},
        "times_as_fast": [round(each, 2) for each in ratios],
        "median": round(median(ratios), 2),
    }


def once(configs: list[Config], workers: int, threads: int, folder: Path) -> float:
    threaded = [config.model_copy(update={"threads": threads}) for config in configs]
    begin = time.perf_counter()
    grid = Grid(Ledger(folder), threaded, Execution(workers=workers)).finish()
    assert len(grid.finished) == len(configs), grid.failed
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
