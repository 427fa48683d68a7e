"""Which averaged weights predict best? Run: python benchmarks/averaged_weights.py digits --seeds 10

Averages do not affect training, so one run per seed serves all of them. Each row has the accuracy at the end of the
stream (ACC, mean ± half of the 95% interval over seeds) of one rule, of average or mean, with batch norm's statistics
(a) averaged like the weights, as the library does, and (b) estimated again from at most 512 samples of memory, and the
paired difference; and the mean of the accuracies at the ends of the tasks (AIA), with (a). --held-out tests on a fifth
of the training samples, by other seeds: that is how a rule is to be chosen.

A rule is a decay; "auto", the library's; or one that was tried instead: "last 1/10" is auto without a longest
average, and "by memory" is, of 0.9, 0.97 and 0.99, each with auto's warm-up, the one whose net is most accurate on 128
samples of memory, and the longest of equal ones.
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
LONGEST = 0.99, 0.97, 0.9


class LastPart(Average):
    """An average over the last tenth of the updates so far; its decay is at most `longest`."""

    def __init__(self, net: ek.Net, longest: float = 1.0) -> None:
        super().__init__(net, decay=longest)
        self.longest = longest

    @property
    def share(self) -> float:
        return max(10 / (self.updates + 10), 1 - self.longest)


def rules(net: ek.Net, decays: list[float]) -> dict[str, Average]:
    return {
        **{str(decay): Average(net, decay) for decay in decays},
        "auto": Average(net, "auto"),
        "last 1/10": LastPart(net),
        **{f"warm {longest}": LastPart(net, longest) for longest in LONGEST},
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
def accuracy(net: ek.Net, learner: ek.Learner, setup: Setup, task: int) -> float:
    """Return the mean over the tasks so far of the accuracy on their test samples, in percent."""
    assert setup.test_set is not None
    test = setup.test_set.until(task)
    scores = torch.cat([net(learner._inputs.to_network(x)) for x in test.x.split(BATCH)])
    correct = (scores.argmax(dim=1) == test.y).double()
    return 100 * fmean(float(correct[test.task == task].mean()) for task in test.task.unique())


@torch.no_grad()
def most_accurate(nets: list[ek.Net], memory: ek.Memory) -> ek.Net:
    """Return the net that is right most often on memory, in evaluation mode; of equal ones, the first."""
    some = memory.samples(torch.arange(min(BATCH, len(memory))))
    return max(nets, key=lambda net: int((net(some.x).argmax(dim=1) == some.y).sum()))


def predictors(learner: ek.Learner, averages: dict[str, Average]) -> dict[str, ek.Net]:
    nets = {"working": learner.snapshot().net}
    for which in ("average", "mean"):
        each = {name: average.predictor(which) for name, average in averages.items()}
        each["by memory"] = most_accurate([each.pop(f"warm {longest}") for longest in LONGEST], learner.memory)
        nets |= {f"{name}, {which}": net for name, net in each.items()}
    return nets


def one_run(preset: str, settings: list[str], decays: list[float]) -> dict[str, float]:
    setup = planned(ek.load_config(preset, settings), None, None, lambda *_: None)
    learner = new_learner(setup)
    averages = rules(learner.net, decays)
    along: dict[str, list[float]] = {}
    for batch in setup.stream.batches():
        learner.learn(batch.x, batch.labels)
        for average in averages.values():
            average.follow()
        if batch.ends_task:
            learner.boundary()
            for name, net in predictors(learner, averages).items():
                along.setdefault(name, []).append(accuracy(net, learner, setup, batch.task))
    result = {}
    for name, net in predictors(learner, averages).items():
        result[f"{name} (a)"] = along[name][-1]
        result[f"{name} (b)"] = accuracy(with_new_statistics(net, learner.memory), learner, setup, batch.task)
        result[f"{name} (i)"] = fmean(along[name])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--set", action="append", default=[], help="a setting of the config, such as net.width=20")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--decays", type=float, nargs="*", default=[0.9, 0.95, 0.98, 0.99])
    parser.add_argument("--held-out", action="store_true", help="test on held-out training samples, from seed 1000")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    first, held = (1000, ["limits.held_out=0.2"]) if options.held_out else (0, [])
    runs = [
        one_run(options.preset, [*options.set, *held, f"seed={first + seed}"], options.decays)
        for seed in range(options.seeds)
    ]
    table = Table(
        "",
        "ACC (a)",
        "ACC (b)",
        "(b) - (a)",
        "AIA (a)",
        title=f"{options.preset} {' '.join(options.set)}, {options.seeds} seeds",
    )
    for name in dict.fromkeys(name[:-4] for name in runs[0]):
        a, b, along = ([run[f"{name} ({kind})"] for run in runs] for kind in "abi")
        gains = [new - old for old, new in zip(a, b, strict=True)]
        estimates = [Estimate.of(values) for values in (a, b, gains, along)]
        table.add_row(name, *(each.text(".1f") for each in estimates if each))
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
