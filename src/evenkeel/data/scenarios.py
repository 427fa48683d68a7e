"""Streams: which sample comes in which task, and in what order. Pure functions of labels, settings and seed."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from evenkeel.errors import SettingsError
from evenkeel.rng import make_generator


def disjoint(labels: Tensor, *, tasks: Sequence[Sequence[int]], seed: int = 0) -> list[Tensor]:
    """Class-incremental: each task brings all samples of its classes, shuffled. Returns indices, task by task.

    Samples of a class that is in no task are left out.

    >>> [sorted(part.tolist()) for part in disjoint(torch.tensor([0, 1, 2, 3, 0]), tasks=[[0, 1], [2, 3]])]
    [[0, 1, 4], [2, 3]]
    """
    return _shuffled(_by_task(labels, tasks), seed)


def blurry(labels: Tensor, *, tasks: Sequence[Sequence[int]], percent: float, seed: int = 0) -> list[Tensor]:
    """Blurry-K: each task gives `percent` of its samples away, in equal parts to all other tasks.

    Every sample still comes exactly once; tasks of one size keep it. What does not divide evenly stays at home.
    """
    if not 0 <= percent <= 100:
        raise SettingsError(f"percent={percent}: a share lies between 0 and 100.")
    own = _by_task(labels, tasks)
    pools = [list[Tensor]() for _ in own]
    generator = make_generator(seed, "blur")
    for home, samples in enumerate(own):
        others = [pool for place, pool in enumerate(pools) if place != home]
        share = int(len(samples) * percent / 100 / len(others)) if others else 0
        mixed = samples[torch.randperm(len(samples), generator=generator)]
        for place, pool in enumerate(others):
            pool.append(mixed[place * share : (place + 1) * share])
        pools[home].append(mixed[len(others) * share :])
    return _shuffled([torch.cat(pool).sort().values for pool in pools], seed)


SCENARIOS: dict[str, Callable[..., list[Tensor]]] = {"disjoint": disjoint, "blurry": blurry}


def _by_task(labels: Tensor, tasks: Sequence[Sequence[int]]) -> list[Tensor]:
    labels = torch.as_tensor(labels)
    named = [label for task in tasks for label in task]
    if len(set(named)) < len(named):
        raise SettingsError("tasks names a class twice; each class belongs to one task.")
    return [torch.isin(labels, torch.tensor(task)).nonzero().flatten() for task in tasks]


def _shuffled(parts: Sequence[Tensor], seed: int) -> list[Tensor]:
    generator = make_generator(seed, "stream")
    return [part[torch.randperm(len(part), generator=generator)] for part in parts]
