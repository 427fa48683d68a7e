"""Scenarios: which sample arrives in which task, and in what order. Pure functions of labels, settings and seed.

If tasks are made of classes, `tasks` lists the classes of each (see `data.tasks`); samples of a class in no task are
left out. If they are made of domains, `tasks` is their number, and each has all classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenkeel.data.domains import Domain, Permutation, Rotation
from evenkeel.data.tasks import Classes, check_tasks
from evenkeel.errors import InputError, SettingsError, whole_number
from evenkeel.learning.rng import make_generator

Labels = Tensor | NDArray[Any]


@dataclass(frozen=True, eq=False)  # comparing tensors gives no single truth value
class Task:
    name: str
    classes: tuple[int, ...]
    """The classes it introduces and is tested on. In a blurry stream it also has some samples of other classes."""
    passes: tuple[Tensor, ...]
    """Indices of training samples in order of arrival, int64, one tensor per pass (epoch)."""
    domain: Domain | None = None
    """How its inputs are transformed, in training and test alike."""
    homes: tuple[Tensor, ...] = ()
    """Only if tasks are mixed: the task (and so the domain) that each entry of `passes` belongs to."""


@dataclass(frozen=True, eq=False)
class Plan:
    tasks: tuple[Task, ...]
    boundaries: bool
    """Whether the learner is notified when a task ends."""


def disjoint(labels: Labels, *, tasks: Classes, boundaries: bool = True, seed: int = 0) -> Plan:
    """Class-incremental: each task brings all samples of its classes, shuffled.

    >>> plan = disjoint(torch.tensor([0, 1, 2, 3, 0]), tasks=[[0, 1], [2, 3]])
    >>> [sorted(task.passes[0].tolist()) for task in plan.tasks]
    [[0, 1, 4], [2, 3]]
    """
    return offline(labels, tasks=tasks, epochs=1, boundaries=boundaries, seed=seed)


def offline(labels: Labels, *, tasks: Classes, epochs: int, boundaries: bool = True, seed: int = 0) -> Plan:
    """Like disjoint, but each task comes `epochs` times, each time in a new order; the first is that of disjoint."""
    epochs = whole_number("epochs", epochs, at_least=1)
    return _class_plan(tasks, _shuffled(_by_task(labels, tasks), seed, epochs), boundaries)


def blurry(labels: Labels, *, tasks: Classes, percent: float, boundaries: bool = True, seed: int = 0) -> Plan:
    """Blurry-K: each task gives `percent` of its samples away, in equal parts to all other tasks.

    Every sample still arrives exactly once, and tasks of equal size stay so; a remainder is not given away.
    """
    _check_share("percent", percent)
    return _class_plan(tasks, _shuffled(_blurred(labels, tasks, [], percent, seed), seed), boundaries)


def i_blurry(
    labels: Labels, *, tasks: Classes, disjoint: float, blur: float, boundaries: bool = False, seed: int = 0
) -> Plan:
    """i-Blurry-N-M: N = `disjoint` percent of the classes, drawn from the seed, arrive in their own task only.

    Of the samples of its other classes each task gives M = `blur` percent away, in equal parts to all other tasks.
    N=100 equals disjoint and N=0 equals Blurry-M, bit for bit.
    """
    _check_share("disjoint", disjoint)
    _check_share("blur", blur)
    classes = [label for task in tasks for label in task]
    drawn = torch.randperm(len(classes), generator=make_generator(seed, "disjoint")).tolist()
    alone = [classes[place] for place in drawn[: round(len(classes) * disjoint / 100)]]
    return _class_plan(tasks, _shuffled(_blurred(labels, tasks, alone, blur, seed), seed), boundaries)


def gradual(labels: Labels, *, tasks: Classes, width: float = 0.5, seed: int = 0) -> Plan:
    """Drift without boundaries: each task fades into the next, over about `width` times the length of a task.

    A sample of task k arrives at time k + U(0, 1) + width * N(0, 1). The stream is cut into parts of equal size for
    reporting only; with width=0 all samples of a task arrive before those of the next.
    """
    if not 0 <= width < float("inf"):
        raise SettingsError(f"width={width} must be a number of at least 0.")
    own = _by_task(labels, tasks)
    samples = torch.cat(own)
    home = torch.cat([torch.full((len(part),), float(task), dtype=torch.float64) for task, part in enumerate(own)])
    generator = make_generator(seed, "stream")
    within = torch.rand(len(samples), dtype=torch.float64, generator=generator)
    time = home + within + width * torch.randn(len(samples), dtype=torch.float64, generator=generator)
    line = samples[time.argsort(stable=True)]  # stable: a sum rounded up to the next task's start must not overtake it
    return _class_plan(tasks, [(part,) for part in line.tensor_split(len(tasks))], boundaries=False)


def rotated(
    labels: Labels,
    *,
    tasks: int = 5,
    degrees: float | Sequence[float] = 30.0,
    repeat: bool = True,
    boundaries: bool = True,
    seed: int = 0,
) -> Plan:
    """Domain-incremental: the images of each task are rotated by a new angle, `degrees` more each time or as listed.

    repeat: every task has all samples, as is customary; if false, each sample arrives in one task only, and each class
    is spread evenly over the tasks.
    """
    tasks = whole_number("tasks", tasks, at_least=1)
    angles = list(degrees) if isinstance(degrees, Sequence) else [task * degrees for task in range(tasks)]
    if len(angles) != tasks:
        raise SettingsError(f"degrees lists {len(angles)} angles, but tasks={tasks}; there must be one for each task.")
    return _domain_plan(labels, [Rotation(angle) for angle in angles], repeat, boundaries, seed)


def permuted(labels: Labels, *, tasks: int = 5, repeat: bool = True, boundaries: bool = True, seed: int = 0) -> Plan:
    """Domain-incremental: pixels or features are permuted differently in each task; the first leaves them as they are.

    repeat: every task has all samples, as is customary; if false, each sample arrives in one task only, and each class
    is spread evenly over the tasks.
    """
    tasks = whole_number("tasks", tasks, at_least=1)
    orders = [Permutation(seed, number) for number in range(2, tasks + 1)]
    return _domain_plan(labels, [None, *orders], repeat, boundaries, seed)


def mixed(plan: Plan, *, passes: int, seed: int = 0) -> Plan:
    """Return a plan of all samples of all tasks, shuffled, `passes` times, in parts of equal size, one per task.

    This is not a scenario, but what an upper bound learns from instead of one. Each pass is shuffled again.
    """
    samples = torch.cat([task.passes[0] for task in plan.tasks])
    homes = torch.cat([torch.full_like(task.passes[0], place) for place, task in enumerate(plan.tasks)])
    generator = make_generator(seed, "mixed")
    line = torch.cat([torch.randperm(len(samples), generator=generator) for _ in range(passes)])
    parts = zip(plan.tasks, line.tensor_split(len(plan.tasks)), strict=True)
    tasks = [replace(task, passes=(samples[part],), homes=(homes[part],)) for task, part in parts]
    return Plan(tuple(tasks), boundaries=False)


SCENARIOS: dict[str, Callable[..., Plan]] = {
    "disjoint": disjoint,
    "blurry": blurry,
    "i-blurry": i_blurry,
    "gradual": gradual,
    "offline": offline,
    "rotated": rotated,
    "permuted": permuted,
}


def made_of_domains(scenario: Callable[..., Plan]) -> bool:
    """Return whether the tasks of a scenario are domains: it takes their number, and not the classes of each."""
    return get_type_hints(scenario).get("tasks") is int


def _class_plan(tasks: Classes, passes: Sequence[tuple[Tensor, ...]], boundaries: bool) -> Plan:
    planned = [
        Task(f"task {number}", tuple(classes), arrivals)
        for number, (classes, arrivals) in enumerate(zip(tasks, passes, strict=True), start=1)
    ]
    return Plan(tuple(planned), boundaries)


def _domain_plan(labels: Labels, domains: Sequence[Domain | None], repeat: bool, boundaries: bool, seed: int) -> Plan:
    labels = _as_labels(labels)
    count = len(domains)
    if len(labels) < (1 if repeat else count):
        raise SettingsError(f"{len(labels)} samples are too few for {count} tasks.")
    if repeat:
        parts = [torch.arange(len(labels))] * count
    else:
        # Dealt like cards, class after class, starting at a random part: class counts and part sizes differ by at most
        # one sample, and no part is always the first to get what is left over.
        generator = make_generator(seed, "deal")
        mixed = torch.randperm(len(labels), generator=generator)
        dealt = mixed[labels[mixed].argsort(stable=True)]
        first = int(torch.randint(count, (), generator=generator))
        parts = [dealt[(first + place) % count :: count].sort().values for place in range(count)]
    classes = tuple(labels.unique().tolist())
    planned = [
        Task(domain.name if domain else f"task {number}", classes, arrivals, domain)
        for number, (domain, arrivals) in enumerate(zip(domains, _shuffled(parts, seed), strict=True), start=1)
    ]
    return Plan(tuple(planned), boundaries)


def _blurred(labels: Labels, tasks: Classes, alone: Sequence[int], percent: float, seed: int) -> list[Tensor]:
    """Return the samples of each task after all gave away `percent` of theirs, except those of classes in `alone`."""
    own, labels = _by_task(labels, tasks), _as_labels(labels)
    pools = [list[Tensor]() for _ in own]
    generator = make_generator(seed, "blur")
    for home, samples in enumerate(own):
        others = [pool for place, pool in enumerate(pools) if place != home]
        stays = torch.isin(labels[samples], torch.tensor(alone, dtype=torch.int64))
        free = samples[~stays]
        share = int(len(free) * percent / 100 / len(others)) if others else 0
        mixed = free[torch.randperm(len(free), generator=generator)]
        for place, pool in enumerate(others):
            pool.append(mixed[place * share : (place + 1) * share])
        pools[home] += [mixed[len(others) * share :], samples[stays]]
    return [torch.cat(pool).sort().values for pool in pools]


def _by_task(labels: Labels, tasks: Classes) -> list[Tensor]:
    labels = _as_labels(labels)
    check_tasks(tasks)
    present = set(labels.unique().tolist())
    missing = [label for task in tasks for label in task if label not in present]
    if missing:
        raise SettingsError(f"tasks names the class {missing[0]}, which has no training sample.")
    return [torch.isin(labels, torch.tensor(task)).nonzero().flatten() for task in tasks]


def _shuffled(parts: Sequence[Tensor], seed: int, epochs: int = 1) -> list[tuple[Tensor, ...]]:
    """Return the passes of each part. All first passes are drawn before any second: more epochs do not change them."""
    generator = make_generator(seed, "stream")
    passes = [[part[torch.randperm(len(part), generator=generator)] for part in parts] for _ in range(epochs)]
    return list(zip(*passes, strict=True))


def _as_labels(labels: Labels) -> Tensor:
    array = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"labels must be one whole number for each sample, but they are {array.dtype} of shape {array.shape}."
        )
    return torch.from_numpy(array.astype(np.int64))


def _check_share(setting: str, value: float) -> None:
    if not 0 <= value <= 100:
        raise SettingsError(f"{setting}={value} must be a percentage from 0 to 100.")
