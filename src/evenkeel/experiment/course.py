"""What a run goes through: its stream, its exam, and a fresh learner for it, made from config and data."""

import inspect
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import torch
from torch import Tensor

from evenkeel.adaptor import ADAPTORS
from evenkeel.data.augment import AUGMENTS
from evenkeel.data.dataset import DataSet
from evenkeel.data.scenarios import SCENARIOS, Plan, task_classes
from evenkeel.data.sources import SOURCES, Progress
from evenkeel.data.stream import OpenStream, PlannedStream, Stream
from evenkeel.errors import InputError
from evenkeel.evaluate import Exam
from evenkeel.experiment.config import Config
from evenkeel.experiment.parts import make
from evenkeel.labels import as_labels
from evenkeel.learner import Learner
from evenkeel.memory import Memory
from evenkeel.methods import METHODS
from evenkeel.nets import Net
from evenkeel.zoo import NETS


@dataclass(frozen=True)
class Course:
    stream: Stream
    exam: Exam | None  # None where there is no test data
    classes: Sequence[Hashable]  # those known beforehand
    sample: tuple[int, ...]  # shape of one
    boundaries: bool  # whether the learner is told when a task ends
    data: dict[str, Any]  # for the records: name, digest, numbers of samples, class names
    tasks: list[dict[str, Any]]  # for the records: name, classes, samples, steps
    digest: str | None  # of the order of the stream


def load_data(config: Config, root: Path | None, progress: Progress) -> DataSet:
    data: DataSet = make(config.data, SOURCES, root, progress=progress)
    if config.limits.train is None and config.limits.test is None:
        return data
    return data.limited(train=config.limits.train, test=config.limits.test)


def planned(config: Config, data: DataSet) -> Course:
    """A scenario over a data set."""
    plan = _plan(config, data)
    stream = PlannedStream(
        data.train, plan, data.classes, batch=config.batches.size, drop_last=config.batches.drop_last
    )
    return Course(
        stream=stream,
        exam=_exam(plan, data),
        classes=data.classes,
        sample=data.train.x.shape[1:],
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


def opened(batches: Iterable[Sequence[Any]], test: Sequence[Any] | None) -> Course:
    """The user's own stream of batches, and their own test data, if any: (x, labels) or (x, labels, task)."""
    stream = OpenStream(batches)
    exam = None if test is None else _open_exam(test)
    tasks = [[]] if exam is None else exam.tasks
    return Course(
        stream=stream,
        exam=exam,
        classes=[] if exam is None else exam.classes,
        sample=tuple(np.shape(stream.first)[1:]),
        boundaries=True,  # its tasks, if it tells of any, are meant to be used
        data={
            "name": "stream",
            "digest": None,
            "train": None,
            "test": 0 if exam is None else len(exam.y),
            "classes": [] if exam is None else [str(name) for name in exam.classes],
        },
        tasks=[
            {"name": f"task {place}", "classes": list(classes), "samples": None, "steps": None}
            for place, classes in enumerate(tasks, 1)
        ],
        digest=None,
    )


def new_learner(config: Config, course: Course) -> Learner:
    fixed = config.learner.head == "fixed" and bool(course.classes)
    normalize = config.learner.normalize
    return Learner(
        _net(config, course.sample, len(course.classes) if fixed else 1),
        make(config.method, METHODS),
        adaptor=None if config.adaptor is None else make(config.adaptor, ADAPTORS),
        memory=Memory(config.memory.capacity, policy=config.memory.policy),
        replay=config.learner.replay,
        optimizer=_optimizer(config),
        augment=None if config.augment is None else make(config.augment, AUGMENTS),
        normalize=None if normalize is None else (normalize.mean, normalize.std),
        classes=course.classes if fixed else None,
        statistics=config.learner.statistics,
        seed=config.seed,
    )


def _plan(config: Config, data: DataSet) -> Plan:
    table = dict(config.scenario)
    scenario = SCENARIOS[table["name"]]
    if get_type_hints(scenario)["tasks"] is not int:
        table["tasks"] = task_classes(data.classes, tasks=table["tasks"], order=table.pop("order"), seed=config.seed)
    plan: Plan = make(table, SCENARIOS, torch.from_numpy(np.array(data.train.y)), seed=config.seed)
    return plan


def _exam(plan: Plan, data: DataSet) -> Exam:
    x, y = torch.from_numpy(np.array(data.test.x)), torch.from_numpy(np.array(data.test.y))
    parts: list[tuple[Tensor, Tensor]] = []
    for task in plan.tasks:
        mine = torch.isin(y, torch.tensor(task.classes)).nonzero().flatten()
        own = x[mine]
        parts.append((own if task.domain is None else task.domain(own), y[mine]))
    return Exam(
        x=torch.cat([own for own, _ in parts]),
        y=torch.cat([labels for _, labels in parts]),
        task=torch.tensor([place for place, (_, labels) in enumerate(parts) for _ in labels]),
        classes=data.classes,
        tasks=[task.classes for task in plan.tasks],
    )


def _open_exam(test: Sequence[Any]) -> Exam:
    if len(test) not in (2, 3):
        raise InputError("test must be (x, labels) or (x, labels, task).")
    x, labels = torch.as_tensor(test[0]), as_labels(test[1], "the labels of test")
    task = torch.as_tensor(test[2]) if len(test) == 3 else torch.zeros(len(labels), dtype=torch.int64)
    if not len(x) == len(labels) == len(task) or not labels:
        raise InputError(f"test has {len(x)} samples, {len(labels)} labels and {len(task)} tasks: not one of each.")
    missing = set(range(int(task.max()) + 1)) - set(task.tolist())
    if missing:
        raise InputError(f"test has no sample of task {min(missing)}; tasks are counted from 0 without a gap.")
    classes = list(dict.fromkeys(labels))
    place = {name: place for place, name in enumerate(classes)}
    y = torch.tensor([place[label] for label in labels])
    order = task.argsort(stable=True)
    tasks = [y[task == each].unique().tolist() for each in range(int(task.max()) + 1)]
    return Exam(x[order], y[order], task[order], classes, tasks)


def _net(config: Config, sample: tuple[int, ...], outputs: int) -> Net:
    """The net for samples of this shape."""
    measured = {"channels": sample[0], "features": int(np.prod(sample))}
    asked = inspect.signature(NETS[config.net["name"]]).parameters
    given = {name: value for name, value in measured.items() if name in asked}
    net: Net = make(config.net, NETS, classes=outputs, seed=config.seed, **given)
    return net


def _optimizer(config: Config) -> Any:
    settings = config.optimizer.model_dump(exclude={"name"})
    if config.optimizer.name != "SGD":
        settings.pop("momentum")
    return partial(getattr(torch.optim, config.optimizer.name), **settings)
