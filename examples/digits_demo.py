"""ER against ER with CBA on scikit-learn's handwritten digits: 5 tasks of 2 classes, one pass, memory 50.

Run: make demo        (or: python examples/digits_demo.py --help)
"""

import argparse
from collections.abc import Sequence
from functools import partial
from statistics import fmean, stdev

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.stats import t as student
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import evenkeel as ek
from evenkeel.data.scenarios import disjoint
from evenkeel.evaluate import task_accuracies
from evenkeel.metrics import average_accuracy, forgetting, learning_accuracy

TASKS = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
BATCH = 10


def run(seed: int, adaptor: ek.CBA | None, memory: int) -> tuple[float, float, float]:
    """ACC, FM and learning accuracy of one pass over the stream."""
    digits = load_digits()
    images = torch.from_numpy((digits.images * (255 / 16)).astype(np.uint8))[:, None]  # (n, 1, 8, 8)
    labels = torch.from_numpy(digits.target)
    # A quarter is held out for testing, another one for each seed; nothing is tuned on it.
    x, x_test, y, y_test = train_test_split(images, labels, test_size=0.25, random_state=seed, stratify=labels)
    learner = ek.Learner(
        ek.convnet(classes=10, seed=seed),
        ek.ER(),
        adaptor=adaptor,
        memory=memory,
        replay=BATCH,
        optimizer=partial(torch.optim.SGD, lr=0.1),
        classes=range(10),
        seed=seed,
    )
    rows = []
    for samples in disjoint(y, tasks=TASKS, seed=seed):
        for batch in samples.split(BATCH):
            learner.learn(x[batch], y[batch])
        learner.boundary()
        rows.append(task_accuracies(learner.logits(x_test), y_test, TASKS))
    r = np.array(rows)
    return average_accuracy(r), forgetting(r), learning_accuracy(r)


def interval(values: Sequence[float]) -> str:
    """Mean and half-width of its 95% interval."""
    if len(values) < 2:
        return f"{fmean(values):.1f}"
    half = float(student.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return f"{fmean(values):.1f} ± {half:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--memory", type=int, default=50)
    options = parser.parse_args()

    torch.set_num_threads(1)  # the net is so small that a second thread only costs
    console = Console()
    found: dict[str, list[tuple[float, float, float]]] = {"ER": [], "ER + CBA": []}
    with Progress(console=console) as progress:
        bar = progress.add_task("Learning from the stream", total=2 * options.seeds)
        for seed in range(options.seeds):
            for name, runs in found.items():
                adaptor = ek.CBA(every=1, lr=1e-2) if "CBA" in name else None
                runs.append(run(seed, adaptor, options.memory))
                progress.advance(bar)

    title = (
        f"Digits, 5 tasks of 2 classes, one pass, batch {BATCH}, memory {options.memory}\n"
        f"mean over {options.seeds} seeds ± half of the 95% interval, in %"
    )
    table = Table(title=title)
    for column in ("", "ACC ↑", "FM ↓", "learning accuracy ↑"):
        table.add_column(column, justify="left" if not column else "right")
    for name, runs in found.items():
        table.add_row(name, *(interval(column) for column in zip(*runs, strict=True)))
    gains = [tuple(b - a for a, b in zip(*pair, strict=True)) for pair in zip(*found.values(), strict=True)]
    table.add_row("gain by CBA, paired", *(interval(column) for column in zip(*gains, strict=True)), style="bold")
    console.print(table)
    console.print(
        "ACC: accuracy over all tasks at the end. FM: what was lost since each task's best moment.\n"
        "Learning accuracy: each task right after it was learned; CBA gives a little of it away."
    )


if __name__ == "__main__":
    main()
