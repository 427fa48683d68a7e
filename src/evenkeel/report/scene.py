"""Which runs are compared, which are averaged, and how each group looks in every figure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenkeel.report.svg import PALETTE
from evenkeel.results.groups import Group, comparable, groups, half_interval, pairs
from evenkeel.results.measures import MEASURES, Measure, by_task
from evenkeel.results.run_files import Results

Array = NDArray[np.float64]
Fill = Literal["none", "full", "left", "bottom", "top"]  # of a mark
MARKERS = "os^Dvp*XP<>h"
LINES: tuple[Any, ...] = ("--", "-", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
HATCHES = ("////", "", "....", "xxxx", "||||")
FILLS: tuple[Fill, ...] = ("none", "full", "left", "bottom", "top")


@dataclass(frozen=True)
class Look:
    """The style of a group. Groups that differ only in the adaptor share the marker; dashed is without it.

    They also share the colour, unless there are no other groups. Where there is no adaptor, nothing is dashed.
    """

    colour: str
    marker: str
    line: Any
    hatch: str
    fill: Fill

    @classmethod
    def of(cls, base: int, kind: int, *, alone: bool = False) -> "Look":
        """Return the style of a base; kind: 0 without an adaptor, then one after the other with each."""
        kind = kind and 1 + (kind - 1) % (len(LINES) - 1)
        place = (1, 0, 2, 3, 4)[kind] if alone else base  # the first colour is for the adaptor
        return cls(PALETTE[place % len(PALETTE)], MARKERS[base % len(MARKERS)], LINES[kind], HATCHES[kind], FILLS[kind])


@dataclass(frozen=True)
class Series:
    """The mean over runs at the steps they have in common; `low` and `high` are None for a single run."""

    x: Array
    mean: Array
    low: Array | None = None
    high: Array | None = None

    def within(self, least: float, most: float) -> "Series":
        """Clip the band to the range of possible values."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=self.low.clip(least, most), high=self.high.clip(least, most))


@dataclass(frozen=True)
class Scene:
    """All runs on one data set and scenario, which can be compared with each other and with no others."""

    runs: list[Results]

    @cached_property
    def groups(self) -> list[Group]:
        return groups(self.runs)

    @cached_property
    def finished(self) -> dict[str, Group]:
        """Return what tables average: by label, the groups that have finished runs, with only these."""
        done = (replace(group, runs=group.finished) for group in self.groups)
        return {group.label: group for group in done if group.runs}

    @cached_property
    def drawn(self) -> list[Group]:
        """Return what figures show: the finished runs of each group, or the unfinished ones if it has no others."""
        return [
            self.finished.get(group.label) or replace(group, label=f"{group.label} (unfinished)")
            for group in self.groups
        ]

    @cached_property
    def pairs(self) -> list[tuple[Group, Group]]:
        """Return (without, with) an adaptor: pairs of groups that have finished runs."""
        return pairs(list(self.finished.values()))

    @cached_property
    def adaptors(self) -> str:
        """Return the titles of the adaptors, as in 'CBA or Prior'."""
        return " or ".join(dict.fromkeys(group.adaptor for group in self.groups if group.adaptor))

    @cached_property
    def measures(self) -> list[Measure]:
        """Return the measures that some finished run has."""
        done = list(self.finished.values())
        return [measure for measure in MEASURES.values() if any(group.estimate(measure) for group in done)]

    @property
    def headline(self) -> list[Measure]:
        return [measure for measure in self.measures if measure.headline]

    def by_task(self, of: Callable[[Results, int], float | None]) -> list[Measure]:
        """Return a measure for each task; `of` gets a run and the task's number."""
        return by_task(self.task_names, of)

    @cached_property
    def looks(self) -> dict[str, Look]:
        """Return the style of each group by its label in `drawn`."""
        bases = list(dict.fromkeys(group.base for group in self.drawn))
        adapted = dict.fromkeys(bases, 0)
        compared = any(group.adaptor for group in self.drawn)
        looks = {}
        for group in self.drawn:
            adapted[group.base] += bool(group.adaptor)
            kind = adapted[group.base] if group.adaptor else int(not compared)
            looks[group.label] = Look.of(bases.index(group.base), kind, alone=compared and len(bases) == 1)
        return looks

    @property
    def first(self) -> Results:
        return self.runs[0]

    @property
    def tasks(self) -> int:
        return len(self.first.started.tasks)

    @cached_property
    def task_names(self) -> list[str]:
        """Return the tasks' own names, or numbers if the names depend on the seed."""
        names = [[str(task["name"]) for task in run.started.tasks] for run in self.runs]
        same = all(each == names[0] for each in names)
        return names[0] if same else [f"task {place + 1}" for place in range(self.tasks)]

    @cached_property
    def task_ticks(self) -> list[str]:
        """Return short names for an axis labelled "task": "task 3" becomes 3; numbers if names would not fit."""
        short = [name.removeprefix("task ") for name in self.task_names]
        fits = sum(map(len, short)) <= 60
        return short if fits else [str(place + 1) for place in range(self.tasks)]

    @cached_property
    def class_names(self) -> list[str]:
        return [str(name) for name in self.first.started.data.get("classes") or ()]

    @cached_property
    def task_classes(self) -> list[list[int]] | None:
        """Return the classes of each task, or None if runs disagree or a class has two tasks."""
        classes = [[list(task.get("classes") or ()) for task in run.started.tasks] for run in self.runs]
        agree = all(classes[0]) and all(each == classes[0] for each in classes)
        return classes[0] if agree and not self.shares_classes else None

    @property
    def shares_classes(self) -> bool:
        """Return whether a class occurs in several tasks: domain-incremental."""
        named = [label for task in self.first.started.tasks for label in task.get("classes") or ()]
        return len(set(named)) < len(named)

    @cached_property
    def boundaries(self) -> list[int]:
        """Return the steps after which a task ends, including the last; empty if unknown or not the same for all."""
        lengths: list[list[Any]] = [[task.get("steps") for task in run.started.tasks] for run in self.runs]
        if None in lengths[0] or any(each != lengths[0] for each in lengths):
            return []
        return [int(end) for end in np.cumsum(lengths[0])]


def scenes(runs: Sequence[Results], *, apart_from: Sequence[str] = ()) -> list[Scene]:
    """Group runs by data set and scenario, in order of appearance; `apart_from`: scenario settings that may differ."""
    return [Scene(each) for each in comparable(runs, apart_from=apart_from)]


def series(runs: Iterable[Results], points: Callable[[Results], Mapping[int, float]]) -> Series | None:
    """Return mean and band of `points` (values by step); runs without any are left out."""
    curves = [curve for curve in map(points, runs) if curve]
    shared = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
    if not shared:
        return None
    values = np.array([[curve[step] for step in shared] for curve in curves], dtype=np.float64)
    x, mean = np.array(shared, dtype=np.float64), values.mean(axis=0)
    if len(values) == 1:
        return Series(x, mean)
    if len(values) == 2:
        return Series(x, mean, values.min(axis=0), values.max(axis=0))
    half = half_interval(values.std(axis=0, ddof=1), len(values))
    return Series(x, mean, mean - half, mean + half)


def windows(curve: Series, most: int) -> tuple[Series, int]:
    """Return means over at most `most` windows of equal length, and that length."""
    length = -(-len(curve.x) // most)
    starts = np.arange(0, len(curve.x), length)
    sizes = np.diff(np.append(starts, len(curve.x)))
    return Series(*(np.add.reduceat(values, starts) / sizes for values in (curve.x, curve.mean))), length
