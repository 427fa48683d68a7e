"""Which classes each task has, as the user gives them: a number of tasks, an order of classes, or lists of them."""

from collections.abc import Sequence

import torch

from evenkeel.errors import SettingsError, nearest, one_of, whole_number
from evenkeel.learning.rng import make_generator

Classes = Sequence[Sequence[int]]  # the classes of each task


def task_classes(
    names: Sequence[str],
    *,
    tasks: int | Sequence[Sequence[int | str]],
    order: str | Sequence[int | str] = "given",
    seed: int = 0,
) -> list[list[int]]:
    """Return the classes of each task, as indices into `names`.

    `tasks` is a number, to divide the classes evenly, or lists the classes of each task by name or index. `order` is
    the order in which the classes are divided: as "given", "drawn" from the seed, or a list of classes. Classes that
    such lists do not name are left out of the stream.

    >>> task_classes(["cat", "dog", "cow", "hen"], tasks=2)
    [[0, 1], [2, 3]]
    >>> task_classes(["cat", "dog", "cow", "hen"], tasks=2, order=["hen", "cat"])
    [[3], [0]]
    >>> task_classes(["cat", "dog", "cow", "hen"], tasks=[["dog"], ["cow", 0]])
    [[1], [2, 0]]
    """
    if isinstance(order, str):
        one_of("order", order, ("given", "drawn"))
    if isinstance(tasks, Sequence):
        if order != "given":
            raise SettingsError(f"order={order!r}: tasks already lists the classes in order, so leave order out.")
        if any(isinstance(task, str) or not isinstance(task, Sequence) for task in tasks):
            raise SettingsError(f"tasks={tasks!r} must be a number, or a list with a list of classes for each task.")
        listed = [[_class_index(names, label) for label in task] for task in tasks]
        check_tasks(listed)
        return listed
    count = whole_number("tasks", tasks, at_least=1)
    if order == "given":
        line = list(range(len(names)))
    elif order == "drawn":
        line = torch.randperm(len(names), generator=make_generator(seed, "classes")).tolist()
    else:
        line = [_class_index(names, label) for label in order]
        _check_twice("order", line)
    if not line or len(line) % count:
        allowed = ", ".join(str(number) for number in range(1, len(line) + 1) if len(line) % number == 0) or "no number"
        raise SettingsError(
            f"tasks={count}: {len(line)} classes do not divide evenly into that many tasks, but into {allowed}. "
            "For tasks of different sizes, list the classes of each."
        )
    size = len(line) // count
    return [line[start : start + size] for start in range(0, len(line), size)]


def _class_index(names: Sequence[str], label: int | str) -> int:
    if isinstance(label, str):
        if label not in names:
            raise SettingsError(f"{label!r} is not one of the {len(names)} classes.{nearest(label, names)}")
        return list(names).index(label)
    index = whole_number("class", label, at_least=0)
    if index >= len(names):
        raise SettingsError(f"There is no class {index}; the {len(names)} classes are counted from 0.")
    return index


def check_tasks(tasks: Classes) -> None:
    """Raise SettingsError unless there are tasks, all have classes, and no class is in two."""
    if not tasks:
        raise SettingsError("tasks is empty; a stream needs at least one task.")
    if not all(tasks):
        raise SettingsError("tasks lists a task without classes; each needs at least one.")
    _check_twice("tasks", [label for task in tasks for label in task])


def _check_twice(setting: str, classes: Sequence[int]) -> None:
    if len(set(classes)) < len(classes):
        raise SettingsError(f"{setting} names a class twice; each class belongs to one task.")
