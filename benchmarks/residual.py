"""What does CBA's residual learn, and what would balance ask for? Run: python benchmarks/residual.py --seeds 10

At every update of the preset digits-cba from the second task on: g of the newest task's classes minus g of the older
ones (means over classes and the samples of batch and draw), and the same difference of log pi(c) - log mu(c), with pi
the class shares in training (half batch, half memory) and mu those of memory, once memory holds the newest classes;
also the spread of g over classes and over samples. docs/tilt.md draws benchmarks/residual.json.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

import evenkeel as ek
from evenkeel.experiment.setup import new_learner, planned

Row = dict[str, float]


def shares(y: Tensor, outputs: int) -> Tensor:
    return y.bincount(minlength=outputs) / len(y)


@torch.no_grad()
def measured(adaptor: ek.CBA, groups: Sequence[ek.View], memory: ek.Memory, newest: Tensor) -> Row | None:
    """Return the numbers of one update, or None while memory lacks a class of the newest task."""
    logits, outputs = torch.cat([view.logits for view in groups]), groups[0].logits.shape[1]
    mu = shares(memory.column("y"), outputs)
    if not bool((mu[newest] > 0).all()):
        return None
    older = (mu > 0).index_fill(0, newest, False).nonzero().flatten()
    g = adaptor.corrected(logits) - logits
    asked = ((shares(groups[0].y, outputs) + mu) / 2).clamp(min=1e-3).log() - mu.clamp(min=1e-3).log()
    by_class = g.mean(dim=0)
    return {
        "learned": float(by_class[newest].mean() - by_class[older].mean()),
        "asked": float(asked[newest].mean() - asked[older].mean()),
        "over classes": float(by_class[torch.cat([newest, older])].std()),
        "over samples": float(g.std(dim=0)[torch.cat([newest, older])].mean()),
    }


def one_run(seed: int) -> dict[int, list[Row]]:
    """Return the numbers of all tasks but the first, by the update of the task."""
    setup = planned(ek.load_config("digits-cba", [f"seed={seed}"]), None, None, lambda *_: None)
    learner, rows, now = new_learner(setup), dict[int, list[Row]](), list[tuple[int, Tensor]]()
    adaptor = learner.adaptor
    assert isinstance(adaptor, ek.CBA)

    def watch(_: ek.Method, groups: Sequence[ek.View], memory: ek.Memory) -> None:
        place, newest = now[-1]
        if len(memory) and bool(newest.min() > 1) and (row := measured(adaptor, groups, memory, newest)):
            rows.setdefault(place, []).append(row)

    adaptor.observe = watch  # type: ignore[method-assign,assignment]
    for batch in setup.stream.batches():
        now.append((batch.place, torch.tensor(setup.tasks[batch.task]["classes"])))
        learner.learn(batch.x, batch.labels)
        if batch.ends_task:
            learner.boundary()
    return rows


def mean(rows: list[Row], name: str) -> float | None:
    return round(fmean(row[name] for row in rows), 3) if rows else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = [one_run(seed) for seed in range(options.seeds)]
    places = sorted(set.union(*(set(run) for run in runs)))
    names = ("learned", "asked", "over classes", "over samples")
    by_name = {name: [[mean(run.get(place, []), name) for place in places] for run in runs] for name in names}
    options.json.write_text(json.dumps({"seeds": options.seeds, "places": places, **by_name}) + "\n")
    for name in names:
        print(name, round(fmean(value for run in by_name[name] for value in run if value is not None), 2))


if __name__ == "__main__":
    main()
