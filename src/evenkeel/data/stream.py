"""Streams: batches in order of arrival, starting at any step."""

import hashlib
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenkeel.data.dataset import Split
from evenkeel.data.scenarios import Plan
from evenkeel.errors import InputError, RunError, SettingsError, whole_number
from evenkeel.learning.labels import as_labels
from evenkeel.learning.texts import are_texts, packed


@dataclass(frozen=True)
class Batch:
    x: Any  # (n, ...) tensor or array
    labels: Sequence[Hashable]  # one per sample
    task: int  # from 0
    place: int  # in its task, from 0
    ends_task: bool  # whether it is the last of its task


class Stream(Protocol):
    """What a run learns from. `seen` grows as batches are handed out, including those before `start`."""

    steps: int | None  # None if not known in advance
    seen: dict[Hashable, None]  # labels, in order of arrival
    so_far: str | None  # digest of the batches handed out; None if the whole order is known in advance

    def batches(self, start: int = 0, before: str | None = None) -> Iterator[Batch]:
        """Yield the batches after the first `start`; `before` is the value that `so_far` had after these."""
        ...


class PlannedStream:
    """The training samples of a data set in the order of a plan, in batches that never cross the end of a task's pass.

    drop_last: omit an incomplete batch at the end of each pass, as the CBA authors do. ahead: a thread reads the next
    batch while one is learned, into pinned memory if there is a GPU to copy it to.
    """

    def __init__(
        self, split: Split, plan: Plan, classes: Sequence[str], *, batch: int, drop_last: bool, ahead: bool = False
    ) -> None:
        whole_number("batch", batch, at_least=1)
        self._ahead = ahead
        self.seen: dict[Hashable, None] = {}
        self.so_far: str | None = None
        self._split, self._plan, self._classes = split, plan, classes
        self._cuts: list[tuple[int, Tensor, Tensor]] = []  # per batch: its task, its samples, and their own tasks
        self.steps_by_task: list[int] = []
        for place, task in enumerate(plan.tasks):
            homes = task.homes or [torch.full_like(samples, place) for samples in task.passes]
            cuts = [
                (place, *cut)
                for samples, home in zip(task.passes, homes, strict=True)
                for cut in zip(samples.split(batch), home.split(batch), strict=True)
            ]
            if drop_last:
                cuts = [cut for cut in cuts if len(cut[1]) == batch]
            if not cuts or not len(cuts[0][1]):
                raise SettingsError(
                    f"{task.name!r} has no batch to learn from: its {sum(map(len, task.passes))} samples do not fill "
                    f"one of {batch}. Choose a smaller batch size, or drop_last = false."
                )
            self._cuts += cuts
            self.steps_by_task.append(len(cuts))
        self.steps: int | None = len(self._cuts)

    def batches(self, start: int = 0, before: str | None = None) -> Iterator[Batch]:
        self.seen.clear()
        if start:
            self._count(torch.cat([samples for _, samples, _ in self._cuts[:start]]))
        begins = list(accumulate(self.steps_by_task, initial=0))
        steps = range(start, len(self._cuts))
        inputs = _ahead(self._pinned, steps) if self._ahead else map(self._inputs, steps)
        for step, x in zip(steps, inputs, strict=True):
            task, samples, _ = self._cuts[step]
            yield Batch(
                x,
                self._count(samples),
                task,
                place=step - begins[task],
                ends_task=step + 1 == begins[task + 1],
            )

    def _pinned(self, step: int) -> Tensor:
        x = self._inputs(step)
        return x.pin_memory() if torch.cuda.is_available() else x

    def _inputs(self, step: int) -> Tensor:
        """Return the samples of a batch, each transformed by the domain of its own task."""
        _, samples, homes = self._cuts[step]
        x = torch.from_numpy(self._split.x[samples.numpy()])  # a copy, even of a memory map
        for home in homes.unique().tolist():
            domain = self._plan.tasks[home].domain
            if domain is not None:
                mine = homes == home
                x[mine] = domain(x[mine])
        return x

    def _count(self, samples: Tensor) -> list[str]:
        labels = [self._classes[place] for place in self._split.y[samples.numpy()].tolist()]
        self.seen.update(dict.fromkeys(labels))
        return labels

    @property
    def digest(self) -> str:
        """A digest of which sample arrives when."""
        digest = hashlib.sha256()
        for place, samples, homes in self._cuts:
            digest.update(f"{place}:{len(samples)};".encode())
            digest.update(samples.numpy().tobytes())
            if bool((homes != place).any()):
                digest.update(homes.numpy().tobytes())
        return digest.hexdigest()


def _ahead(read: Callable[[int], Tensor], steps: Iterable[int]) -> Iterator[Tensor]:
    """Yield what `read` returns for each step; a thread reads the next one in the meantime."""
    with ThreadPoolExecutor(1, "reading ahead") as thread:
        waiting: deque[Future[Tensor]] = deque()
        for step in steps:
            waiting.append(thread.submit(read, step))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        for last in waiting:
            yield last.result()


class OpenStream:
    """Any iterable of (x, labels) or (x, labels, task), where tasks are numbered 0, 1, 2, ... in order.

    It is read in the thread that learns, and only so far that the end of a task is known: one batch.

    To resume at a step, it is read again from its beginning, so it must yield the same batches each time; a digest of
    them checks that it did.
    """

    def __init__(self, batches: Iterable[Sequence[Any]]) -> None:
        if not isinstance(batches, Iterable):
            raise InputError(f"stream must be an iterable of batches, but it is {type(batches).__name__}.")
        self.seen: dict[Hashable, None] = {}
        self.steps: int | None = len(batches) if isinstance(batches, Sequence) else None
        self.so_far: str | None = None
        self._items = iter(batches)
        self._first = list(islice(self._items, 1))
        if not self._first:
            raise InputError("The stream is empty.")
        self.tells_tasks = _read(self._first[0], 1, 0)[2] is not None

    @property
    def sample(self) -> tuple[int, ...]:
        """The shape of a sample."""
        x = self._first[0][0]
        return () if are_texts(x) else _array(x).shape[1:]

    def batches(self, start: int = 0, before: str | None = None) -> Iterator[Batch]:
        digest, place, step = hashlib.sha256(), 0, 0
        ahead = _read(self._first[0], 1, 0)
        end = object()
        for step, item in enumerate(chain(self._items, [end]), 1):
            (x, labels, task), now = ahead, None if item is end else _read(item, step + 1, ahead[2])
            ends = now is None or now[2] != task
            self.seen.update(dict.fromkeys(labels))
            digest.update(repr(labels).encode() + _array(x).tobytes())
            self.so_far = digest.hexdigest()
            if step == start and self.so_far != before:
                raise RunError(f"This is not the stream that the run began with: its first {step} batches differ.")
            if step > start:
                yield Batch(x, labels, task or 0, place, ends)
            if now is not None:
                place, ahead = 0 if ends else place + 1, now
        if step < start:
            raise RunError(f"This stream has only {step} batches, but the run has already learned {start}.")


def _array(x: Any) -> NDArray[Any]:
    if are_texts(x):
        return packed(x)
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)


def _read(item: Any, step: int, task_before: int | None) -> tuple[Any, list[Hashable], int | None]:
    if not isinstance(item, Sequence) or isinstance(item, str) or len(item) not in (2, 3):
        raise InputError(f"Batch {step} of the stream is not (x, labels) or (x, labels, task).")
    try:
        shape = _array(item[0]).shape
    except ValueError:  # rows of several lengths
        shape = ()
    if len(shape) < 2:
        raise InputError(f"x of batch {step} of the stream must be an array (samples, ...), but its shape is {shape}.")
    task = None if len(item) == 2 else item[2]
    if task is None and (step == 1 or task_before is None):
        return item[0], as_labels(item[1]), None
    expected = [0] if step == 1 else [] if task_before is None else [task_before, task_before + 1]
    if task not in expected:
        raise InputError(
            f"Batch {step} of the stream is of task {task!r}, where {' or '.join(map(str, expected)) or 'no task'} was "
            "expected: tasks are numbered from 0, in order, and either every batch has one or none does."
        )
    return item[0], as_labels(item[1]), int(task)
