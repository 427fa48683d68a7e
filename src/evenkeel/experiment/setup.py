"""The setup of a run: its stream, its test set and a fresh learner, built from config and data."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evenkeel.config.build import adaptor_of, make_learner, method_of, task_free, with_policy
from evenkeel.config.parts import PartSettings
from evenkeel.data.dataset import DataSet, Progress, Split
from evenkeel.data.scenarios import SCENARIOS, Plan, made_of_domains, mixed
from evenkeel.data.sources import SOURCES
from evenkeel.data.stream import OpenStream, PlannedStream, Stream
from evenkeel.data.tasks import task_classes
from evenkeel.data.unclean import UNCLEAN, imbalanced, noisy
from evenkeel.errors import DataError, InputError, SettingsError
from evenkeel.experiment.config import Config, DataLimits
from evenkeel.experiment.testset import TestSet
from evenkeel.learning.devices import CPU, find_device
from evenkeel.learning.learner import Learner
from evenkeel.learning.registry import build, named_arguments

WAYS = "load_data(name_or_path) and DataSet.of(x_train, y_train, ...) make one"


@dataclass(frozen=True)
class Setup:
    """What a run needs besides a learner."""

    config: Config  # as run: without what the user's own data or stream replaces
    stream: Stream
    test_set: TestSet | None  # None if there is no test data
    classes: Sequence[Hashable]  # those known in advance
    sample: tuple[int, ...]  # shape of one sample
    boundaries: bool  # whether the learner is notified when a task ends
    data: dict[str, Any]  # for the records: name, digest, numbers of samples, class names
    tasks: list[dict[str, Any]]  # for the records: name, classes, samples, steps
    digest: str | None  # of the order of the stream


def read_data(table: PartSettings, root: Path | None, progress: Progress) -> DataSet:
    """Return the data set of a complete table of a config."""
    source = SOURCES[table["name"]]
    given = {"root": root, "progress": progress}
    arguments = {name: value for name, value in given.items() if name in named_arguments(source)}
    data = build(table, SOURCES, **arguments)
    if not isinstance(data, DataSet):  # of the user's own function
        raise SettingsError(f"data.name = {table['name']!r} returned a {type(data).__name__}, not a DataSet; {WAYS}.")
    return data


def limited(data: DataSet, limits: DataLimits) -> DataSet:
    """Return what the limits of a config leave of a data set."""
    if limits.train or limits.test or limits.held_out:
        return data.limited(train=limits.train, test=limits.test, held_out=limits.held_out)
    return data


def check_data(data: object) -> None:
    """Raise SettingsError unless `data` is a data set."""
    if not isinstance(data, DataSet):
        raise SettingsError(f"data is a {type(data).__name__}, not a DataSet; {WAYS}.")


def planned(config: Config, own: DataSet | None, root: Path | None, progress: Progress) -> Setup:
    """Return the setup of a scenario over the config's data set, or over the user's own."""
    if own is not None:
        check_data(own)
    config = with_policy(config)
    data = limited(read_data(config.data, root, progress) if own is None else own, config.limits)
    plan, train = _plan(config, data)
    passes = method_of(config).mixed_passes
    if passes:
        plan = mixed(plan, passes=passes, seed=config.seed)
    batches, ahead = config.batches, find_device(config.device).type != CPU
    stream = PlannedStream(train, plan, data.classes, batch=batches.size, drop_last=batches.drop_last, ahead=ahead)
    return Setup(
        config=config if own is None else config.model_copy(update={"data": {"name": own.name}}),
        stream=stream,
        test_set=_test_set(plan, data),
        classes=data.classes,
        sample=data.train.sample,
        boundaries=plan.boundaries,
        data={
            "name": data.name,
            "digest": data.digest,
            "train": len(data.train.y),
            "test": len(data.test.y),
            "classes": list(data.classes),
        },
        tasks=[
            {"name": task.name, "classes": list(task.classes), "samples": sum(map(len, task.passes)), "steps": steps}
            for task, steps in zip(plan.tasks, stream.steps_by_task, strict=True)
        ],
        digest=stream.digest,
    )


def opened(config: Config, batches: Iterable[Sequence[Any]], test: Sequence[Any] | None) -> Setup:
    """Return the setup of a user's own stream of batches and test data, if any: (x, labels) or (x, labels, task).

    The labels to come are not known, so the head grows.
    """
    method = method_of(config)
    if method.mixed_passes:
        raise SettingsError(
            f"{method!r} learns from all samples mixed, but a stream of your own has its own order. Choose "
            "another method, or give a data set."
        )
    for name in type(config.limits).model_fields:  # these must not be ignored silently: tuning relies on them
        if getattr(config.limits, name) is not None:
            raise SettingsError(
                f"limits.{name} needs a data set. A stream of your own has the batches you give, and is tested on the "
                "samples you give; leave it out."
            )
    for name, clean in UNCLEAN.items():
        if config.scenario is not None and config.scenario[name] != clean:
            raise SettingsError(
                f"scenario.{name} needs a data set. A stream of your own arrives as it is; leave it out."
            )
    config = with_policy(config)
    stream = OpenStream(batches)
    test_set = None if test is None else _own_test_set(test, stream)
    growing = config.learner.model_copy(update={"head": "growing"})
    return Setup(
        config=config.model_copy(update={"data": {"name": "stream"}, "scenario": None, "learner": growing}),
        stream=stream,
        test_set=test_set,
        classes=[],
        sample=stream.sample,
        boundaries=stream.tells_tasks,
        data={
            "name": "stream",
            "digest": None,
            "train": None,
            "test": 0 if test_set is None else len(test_set.y),
            "classes": [] if test_set is None else [str(name) for name in test_set.classes],
        },
        tasks=[
            {"name": f"task {place}", "classes": list(classes), "samples": None, "steps": None}
            for place, classes in enumerate([[]] if test_set is None else test_set.tasks, 1)
        ],
        digest=None,
    )


def new_learner(setup: Setup) -> Learner:
    config = setup.config
    method, adaptor = method_of(config), adaptor_of(config)
    for part, needs, instead in (
        (method, method.needs_boundaries, f"choose a method that needs no boundaries ({task_free()})"),
        (adaptor, adaptor and adaptor.needs_boundaries, "choose other settings for it"),
    ):
        if needs and not setup.boundaries:
            raise SettingsError(
                f"{part!r} needs to know when a task ends, but this stream reports no task boundaries. "
                f"{_how_to_get_boundaries(config)}, or {instead}."
            )
    return make_learner(config, setup.sample, setup.classes if config.learner.head == "fixed" else None)


def _how_to_get_boundaries(config: Config) -> str:
    if config.scenario is None:
        return "Give its batches as (x, labels, task)"
    if config.scenario.get("boundaries") is False:
        return "Set scenario.boundaries=true"
    return "Choose a scenario that does"


def _plan(config: Config, data: DataSet) -> tuple[Plan, Split]:
    """Return the tasks of the scenario, or the first of them, and the training data with the labels that arrive.

    All tasks are planned, so that the first stay the same, and planned by the right labels, so that noise does not
    change the order of the samples.
    """
    table, first = dict(config.scenario or {}), config.limits.tasks
    noise, imbalance = table.pop("noise"), table.pop("imbalance")
    together = [list(range(len(data.classes)))]  # classes that share their tasks
    if not made_of_domains(SCENARIOS[table["name"]]):
        together = task_classes(data.classes, tasks=table["tasks"], order=table.pop("order"), seed=config.seed)
        table["tasks"] = together
    labels = torch.from_numpy(np.array(data.train.y))
    kept = torch.arange(len(labels))
    if imbalance is not None:
        kept = imbalanced(labels, list(chain.from_iterable(together)), ratio=imbalance, seed=config.seed)
    plan: Plan = build(table, SCENARIOS, labels[kept], seed=config.seed)
    if data.train.sample == () and any(task.domain is not None for task in plan.tasks):
        raise SettingsError(f"scenario.name = {table['name']!r} changes images or vectors; {data.name!r} has texts.")
    if first is not None and first > len(plan.tasks):
        raise SettingsError(
            f"limits.tasks={first}: the scenario {table['name']!r} has only {len(plan.tasks)} tasks. "
            "Leave it out for all of them."
        )
    tasks = [replace(task, passes=tuple(kept[samples] for samples in task.passes)) for task in plan.tasks[:first]]
    if noise:
        labels[kept] = noisy(labels[kept], together, share=noise, seed=config.seed)
    return replace(plan, tasks=tuple(tasks)), replace(data.train, y=labels.numpy())


def _test_set(plan: Plan, data: DataSet) -> TestSet:
    x, y = torch.from_numpy(np.array(data.test.x)), torch.from_numpy(np.array(data.test.y))
    parts: list[tuple[Tensor, Tensor]] = []
    for task in plan.tasks:
        mine = torch.isin(y, torch.tensor(task.classes)).nonzero().flatten()
        if not len(mine):
            raise DataError(f"The test data of {data.name!r} has no sample of {task.name!r}.")
        own = x[mine]
        parts.append((own if task.domain is None else task.domain(own), y[mine]))
    return TestSet(
        x=torch.cat([own for own, _ in parts]),
        y=torch.cat([labels for _, labels in parts]),
        task=torch.tensor([place for place, (_, labels) in enumerate(parts) for _ in labels]),
        classes=data.classes,
        tasks=[task.classes for task in plan.tasks],
    )


def _own_test_set(test: Sequence[Any], stream: OpenStream) -> TestSet:
    if not isinstance(test, Sequence) or len(test) not in (2, 3):
        raise InputError("test must be (x, labels) or (x, labels, task).")
    if (len(test) == 3) != stream.tells_tasks:
        raise InputError("Stream and test must both have tasks, (x, labels, task), or neither.")
    return TestSet.of(*test)
