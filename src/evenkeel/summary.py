"""The measures of a run by name, and what several runs say together: means, intervals, paired differences."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any, TypeVar

import numpy as np

from evenkeel import metrics
from evenkeel.methods import METHODS
from evenkeel.results import Results


@dataclass(frozen=True)
class Measure:
    title: str
    higher_is_better: bool | None  # None where neither is: where a share should be fair, say
    formula: str
    of: Callable[[Results], float | None]  # None where the run has no such thing

    @property
    def arrow(self) -> str:
        """Which way is better."""
        return "" if self.higher_is_better is None else " ↑" if self.higher_is_better else " ↓"


@dataclass(frozen=True)
class Estimate:
    """A mean over runs and half of its 95% interval (Student's t); no interval from a single run."""

    mean: float
    half: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate | None":
        from scipy.stats import t as student  # here, because it is slow to import

        n = len(values)
        if n == 0:
            return None
        half = float(student.ppf(0.975, n - 1)) * stdev(values) / sqrt(n) if n > 1 else None
        return cls(fmean(values), half, n)

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if self.half is None else f"{self.mean:.1f} ± {self.half:.1f}"


def _matrix(scores: str = "accuracy") -> Callable[[Results], metrics.Matrix | None]:
    """The whole accuracy matrix, if all tasks are finished."""

    def of(run: Results) -> metrics.Matrix | None:
        r = run.matrix(scores)
        return r if len(r) and len(r) == len(run.started.tasks) else None

    return of


def _points(run: Results) -> list[float] | None:
    return [point.mean for point in run.anytime] or None


def _area_sum(run: Results) -> float | None:
    points, interval = _points(run), run.started.config["evaluation"]["every"]
    return None if points is None else metrics.area_sum(points, interval)


def _forward_transfer(run: Results) -> float | None:
    r, untrained = _matrix()(run), [test.accuracy for test in run.tested if test.task == -1]
    return metrics.forward_transfer(r, untrained[0]) if r is not None and untrained else None


def _worst_case(run: Results) -> float | None:
    r = _matrix()(run)
    if r is None or not run.anytime:
        return None
    return metrics.worst_case_accuracy([p.accuracy for p in run.anytime], [p.task for p in run.anytime], r)


def _recency_bias(run: Results) -> float | None:
    last = run.finished_tasks[-1] if _matrix()(run) is not None else None
    return metrics.recency_bias(last.predicted) if last and last.predicted else None


def _forgetting_of_classes(run: Results) -> float | None:
    tests = run.finished_tasks if _matrix()(run) is not None else []
    return metrics.forgetting_before_end(np.array([test.recall for test in tests])) if tests else None


def _prequential(run: Results) -> float | None:
    told = [(step.correct, step.samples) for step in run.steps if step.correct is not None]
    return metrics.prequential_accuracy(*zip(*told, strict=True)) if told else None


Given = TypeVar("Given")


def _measure(
    title: str,
    measure: Callable[..., object],
    of: Callable[[Results], float | None],
    *,
    lower: bool | None = False,
    scored: str = "",
) -> Measure:
    """With the formula that the docstring of `measure` begins with."""
    formula = (measure.__doc__ or "").strip().splitlines()[0]
    return Measure(title, None if lower is None else not lower, f"{formula}{scored}", of)


def _over(
    title: str,
    measure: Callable[[Given], float],
    given: Callable[[Results], Given | None],
    *,
    lower: bool = False,
    scored: str = "",
) -> Measure:
    """`measure` of what `given` takes from a run, where there is such a thing."""

    def of(run: Results) -> float | None:
        found = given(run)
        return None if found is None else measure(found)

    return _measure(title, measure, of, lower=lower, scored=scored)


MEASURES: dict[str, Measure] = {
    "acc": _over("ACC", metrics.average_accuracy, _matrix()),
    "fm": _over("FM", metrics.forgetting, _matrix(), lower=True),
    "acc_auc": _over("ACC_AUC", metrics.area_under_curve, _points),
    "learning_accuracy": _over("learning accuracy", metrics.learning_accuracy, _matrix()),
    "acc_seen": _over(
        "ACC, seen classes",
        metrics.average_accuracy,
        _matrix("seen"),
        scored="; only outputs of classes seen so far compete",
    ),
    "acc_task_il": _over(
        "ACC, task-IL",
        metrics.average_accuracy,
        _matrix("masked"),
        scored="; only outputs of the sample's own task compete",
    ),
    "acc_triangle": _over("ACC, whole triangle", metrics.triangle_accuracy, _matrix()),
    "aia": _over("average incremental accuracy", metrics.average_incremental_accuracy, _matrix()),
    "fm_over_all": _over("FM, over all T (CBA paper)", metrics.forgetting_over_all, _matrix(), lower=True),
    "fm_since_learned": _over("FM, first minus last", metrics.forgetting_since_learned, _matrix(), lower=True),
    "fm_classes": _measure(
        "FM, by class before the end (i-Blurry)",
        metrics.forgetting_before_end,
        _forgetting_of_classes,
        lower=True,
        scored="; R holds the recall of each class",
    ),
    "fm_but_newest_two": _over(
        "FM, but the newest two (LibContinual)", metrics.forgetting_but_newest_two, _matrix(), lower=True
    ),
    "bwt": _over("BWT", metrics.backward_transfer, _matrix()),
    "fwt": _measure("FWT", metrics.forward_transfer, _forward_transfer),
    "wc_acc": _measure("worst-case accuracy", metrics.worst_case_accuracy, _worst_case),
    "recency_bias": _measure(
        "recency bias",
        metrics.recency_bias,
        _recency_bias,
        lower=None,
        scored="; fair is the share of that task's test samples, 100/T for tasks of one size",
    ),
    "acc_auc_sum": _measure("ACC_AUC as the paper's sum", metrics.area_sum, _area_sum),
    "prequential": _measure("prequential accuracy", metrics.prequential_accuracy, _prequential),
}


def summarise(run: Results) -> dict[str, float | None]:
    """All measures of one run."""
    return {name: measure.of(run) for name, measure in MEASURES.items()}


APART = ("seed", "threads")  # settings in which runs of one group may differ: threads change the last bits alone
Key = tuple[int, str]  # seed and stream: runs of two groups are paired by it


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seeds alone (and in their streams, which come from the seed, or are the user's own)."""

    label: str
    runs: list[Results]
    setting: str  # what they share, as JSON
    base: str  # the same without adaptor and name: what a gain by CBA is measured against

    @property
    def is_bound(self) -> bool:
        """Whether it is there to hold others against, and takes no part in who is best."""
        return bool(_bound(self.runs[0].started.config["method"]))

    def values(self, name: str) -> dict[Key, float]:
        """The measure of each run that is finished."""
        found = {key_of(run): MEASURES[name].of(run) for run in self.runs if run.ended is not None}
        return {key: value for key, value in found.items() if value is not None}

    def estimate(self, name: str) -> Estimate | None:
        return Estimate.of(list(self.values(name).values()))


def in_order(runs: Sequence[Results]) -> list[Results]:
    """By data, method and adaptor, then settings and seed: for runs whose folders have no order of their own."""
    methods = list(METHODS)

    def place(run: Results) -> tuple[Any, ...]:
        config, method = run.started.config, str(run.started.config["method"]["name"])
        known = methods.index(method) if method in methods else len(methods)
        return str(run.started.data["name"]), known, bool(config["adaptor"]), _setting(run), run.seed

    return sorted(runs, key=place)


def groups(runs: Sequence[Results]) -> list[Group]:
    """Runs with the same config but for the seed, in order of first appearance, with labels that tell them apart.

    A run counts once, because the same run twice would feign certainty: of equal ones the one that is furthest.
    """
    found: dict[str, list[Results]] = {}
    for run in runs:
        found.setdefault(_setting(run), []).append(run)
    labels = _labels([members[0] for members in found.values()])
    made = []
    for label, (setting, members) in zip(labels, found.items(), strict=True):
        best: dict[Key, Results] = {}
        for run in sorted(members, key=lambda run: (run.ended is not None, len(run.tested), len(run.steps))):
            best[key_of(run)] = run
        kept = sorted(best.values(), key=lambda run: run.seed)
        made.append(Group(label, kept, setting, _setting(kept[0], name=None, adaptor=None)))
    return made


def _bound(table: Mapping[str, Any]) -> str:
    """Of a method, or of the one that it repeats; none of a method that this version does not know."""
    method = METHODS.get(str(table.get("name")))
    inner = [value for value in table.values() if isinstance(value, Mapping)]
    return (method.bound if method else "") or "".join(map(_bound, inner))


def _setting(run: Results, **instead: None) -> str:
    config = {name: value for name, value in run.started.config.items() if name not in APART}
    return json.dumps([{**config, **instead}, run.started.data], sort_keys=True)


def key_of(run: Results) -> Key:
    """Runs of two groups with the same key are a pair."""
    return run.seed, run.started.stream or str(run.folder)


def _labels(runs: Sequence[Results]) -> list[str]:
    """Their names; where several have one name, with the settings in which they differ."""
    flat = [
        dict(_flat({**run.started.config, "data": {**run.started.config["data"], **run.started.data}})) for run in runs
    ]
    labels, given = list[str](), Counter[str]()
    for run, settings in zip(runs, flat, strict=True):
        namesakes = [other for other, each in zip(flat, runs, strict=True) if each.label == run.label]
        others = [other for other in namesakes if other is not settings]
        differ = [key for key in settings if key not in APART and any(o.get(key) != settings[key] for o in others)]
        enough = 3  # or as many more as it takes to tell it from all others
        while enough < len(differ) and any(all(o.get(k) == settings[k] for k in differ[:enough]) for o in others):
            enough += 1
        told = ", ".join(f"{key}={settings[key]}" for key in differ[:enough])
        label = f"{run.label} ({told})" if told else run.label
        bound = _bound(run.started.config["method"])
        if bound and "bound" not in label:  # a name of the user's own must not hide what it is
            label = f"{label} ({bound} bound)"
        given[label] += 1  # more than once where only the digest of the data differs
        labels.append(f"{label} #{given[label]}" if given[label] > 1 else label)
    return labels


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        elif key not in ("digest", "classes"):
            yield f"{above}{key}", value


def pairs(found: Sequence[Group]) -> list[tuple[Group, Group]]:
    """(without, with): groups that differ in the adaptor alone."""
    plain = {group.base: group for group in found if not group.runs[0].started.config["adaptor"]}
    return [
        (plain[group.base], group) for group in found if group.runs[0].started.config["adaptor"] and group.base in plain
    ]


def gain(name: str, without: Group, with_: Group) -> Estimate | None:
    """The paired difference in this measure, over the seeds that both have."""
    before, after = without.values(name), with_.values(name)
    return Estimate.of([after[key] - before[key] for key in sorted(before.keys() & after.keys())])
