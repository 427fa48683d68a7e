"""Which averaged weights predict best? Run: python benchmarks/averaged_weights.py digits --seeds 10

Averages do not affect training, so one run per seed serves all of them. Each row is the accuracy at the end of the
stream (ACC, mean ± half of the 95% interval over seeds) of one decay, of average or mean, with batch norm's statistics
(a) averaged like the weights, as the library does, and (b) estimated again from at most 512 samples of memory, and the
paired difference. "last 1/5" is no decay but an average whose share is 5 / (n + 5): it spans the last fifth of the
updates so far.
"""

import argparse
import copy
import json
from pathlib import Path
from statistics import fmean

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import evenkeel as ek
from evenkeel.experiment.setup import Setup, new_learner, planned
from evenkeel.learning.average import Average
from evenkeel.results.groups import Estimate

SAMPLES, BATCH = 512, 128


class LastPart(Average):
    """An average over the last part of the updates so far, whatever their number."""

    def __init__(self, net: ek.Net, parts: int) -> None:
        super().__init__(net, decay=0.0)
        self.parts = parts

    def follow(self) -> None:
        self.decay = 1 - self.parts / (self.updates + self.parts)
        super().follow()


def rules(net: ek.Net, decays: list[float], parts: list[int]) -> dict[str, Average]:
    return {
        **{str(decay): Average(net, decay) for decay in decays},
        **{f"last 1/{part}": LastPart(net, part) for part in parts},
    }


@torch.no_grad()
def with_new_statistics(net: ek.Net, memory: ek.Memory) -> ek.Net:
    """Return a copy whose running statistics are those of samples in memory."""
    net = copy.deepcopy(net).train()
    norms = [part for part in net.modules() if isinstance(part, nn.BatchNorm2d | nn.BatchNorm1d)]
    for part in norms:
        part.reset_running_stats()
        part.momentum = None  # a plain mean over batches
    for rows in torch.arange(min(SAMPLES, len(memory))).split(BATCH):
        if len(rows) > 1:
            net(memory.samples(rows).x)
    return net.eval()


@torch.no_grad()
def accuracy(net: ek.Net, learner: ek.Learner, setup: Setup) -> float:
    """Return the mean over tasks of the accuracy on their test samples, in percent."""
    test = setup.test_set
    assert test is not None
    scores = torch.cat([net(learner._inputs.to_network(x)) for x in test.x.split(BATCH)])
    correct = (scores.argmax(dim=1) == test.y).double()
    return 100 * fmean(float(correct[test.task == task].mean()) for task in test.task.unique())


def one_run(preset: str, settings: list[str], decays: list[float], parts: list[int]) -> dict[str, float]:
    setup = planned(ek.load_config(preset, settings), None, None, lambda *_: None)
    learner = new_learner(setup)
    averages = rules(learner.net, decays, parts)
    for batch in setup.stream.batches():
        learner.learn(batch.x, batch.labels)
        for average in averages.values():
            average.follow()
        if batch.ends_task:
            learner.boundary()
    nets = {"working": learner.snapshot().net}
    for name, average in averages.items():
        nets |= {f"{name}, {which}": average.predictor(which) for which in ("average", "mean")}
    result = {}
    for name, net in nets.items():
        result[f"{name} (a)"] = accuracy(net, learner, setup)
        result[f"{name} (b)"] = accuracy(with_new_statistics(net, learner.memory), learner, setup)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--set", action="append", default=[], help="a setting of the config, such as net.width=20")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--decays", type=float, nargs="*", default=[0.9, 0.95, 0.98, 0.99])
    parser.add_argument("--parts", type=int, nargs="*", default=[5, 10])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = [
        one_run(options.preset, [*options.set, f"seed={seed}"], options.decays, options.parts)
        for seed in range(options.seeds)
    ]
    table = Table(
        "", "ACC (a)", "ACC (b)", "(b) - (a)", title=f"{options.preset} {' '.join(options.set)}, {options.seeds} seeds"
    )
    for name in dict.fromkeys(name[:-4] for name in runs[0]):
        a, b = ([run[f"{name} ({kind})"] for run in runs] for kind in "ab")
        gains = [new - old for old, new in zip(a, b, strict=True)]
        estimates = [Estimate.of(values) for values in (a, b, gains)]
        table.add_row(name, *(each.text(".1f") for each in estimates if each))
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
