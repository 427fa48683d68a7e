"""Measure what the recipes of the keel, and the methods next to it, cost to learn in units of plain ER.

Run: python -m benchmarks.keel_cost --write      (some ten minutes)

A ledger has the cost of whole runs, but runs of different days are from machines of different speed. Here all presets
take turns in one process of one thread: each learns the same few batches of random images, in CIFAR-10's shape, with
the slim ResNet-18. The cost is the median over rounds of a preset's CPU time divided by that of ER in the same round.
"""

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import evenkeel as ek

ROUNDS, BATCHES, BATCH, CLASSES = 9, 5, 32, 10  # CBA takes one outer step in five batches
PRESETS = {  # by the names of their runs
    "ER": "paper/cifar10-er",
    "ER + CBA": "paper/cifar10-er-cba",
    "DER++": "paper/cifar10-derpp",
    "DER++ + CBA": "paper/cifar10-derpp-cba",
    "CLS-ER": "paper/cifar10-clser",
    "ER-ACE": "paper/cifar10-er_ace",
    "MIR": "paper/cifar10-mir",
    "SCR": "paper/cifar10-scr",
    "keel": "keel/cifar10",
    "keel 3x": "keel/cifar10-3x",
    "keel 8x": "keel/cifar10-8x",
}
FILE = Path(__file__).with_suffix(".json")
COLUMNS = ("", "cost, ER = 1", "quartiles of the rounds")


def learners() -> dict[str, ek.Learner]:
    """Return a learner of each preset in its second task, with samples in memory."""
    x = torch.randint(256, (2 * CLASSES, 3, 32, 32), dtype=torch.uint8)
    y = torch.arange(CLASSES).repeat(2)
    data = ek.DataSet.of(x.numpy(), y.numpy(), x.numpy(), y.numpy())
    slim = ["net.width=20", "threads=1"]
    made = {name: ek.learner_for(data, ek.load_config(preset, slim)) for name, preset in PRESETS.items()}
    for learner in made.values():
        for batch in batches(seed=0, count=3):
            learner.learn(*batch)
        learner.boundary()
    return made


def batches(seed: int, count: int = BATCHES) -> list[tuple[torch.Tensor, list[str]]]:
    generator = torch.Generator().manual_seed(seed)
    shape = (count, BATCH, 3, 32, 32)
    x = torch.randint(256, shape, generator=generator, dtype=torch.uint8)
    y = torch.randint(CLASSES, (count, BATCH), generator=generator)
    return [(images, [str(label) for label in labels.tolist()]) for images, labels in zip(x, y, strict=True)]


def cpu_seconds(learner: ek.Learner, seed: int) -> float:
    work, began = batches(seed), time.process_time()
    for batch in work:
        learner.learn(*batch)
    return time.process_time() - began


def rows(ratios: Mapping[str, Sequence[float]]) -> list[list[str]]:
    """Return the median and the quartiles of each preset's ratios to ER, one per round."""
    shown = []
    for name, values in ratios.items():
        low, middle, high = statistics.quantiles(values, n=4)
        shown.append([name, f"{middle:.2f}", f"{low:.2f} to {high:.2f}"])
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"keep the result in {FILE.name}, for docs/keel.md")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds must be at least 2, for quartiles")
    torch.manual_seed(0)
    made = learners()
    rounds = [
        {name: cpu_seconds(learner, seed) for name, learner in made.items()} for seed in range(1, options.rounds + 1)
    ]
    ratios = {name: [each[name] / each["ER"] for each in rounds] for name in PRESETS}
    table = Table(*COLUMNS)
    for row in rows(ratios):
        table.add_row(*row)
    Console().print(table)
    if options.write:
        rounded = {name: [round(value, 3) for value in values] for name, values in ratios.items()}
        FILE.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
