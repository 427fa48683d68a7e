"""What several runs say together: groups of runs that differ in their seeds alone, means, intervals, paired gains."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from evenkeel.results.measures import MEASURES
from evenkeel.results.records import bound_of
from evenkeel.results.run_files import Results


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


APART = ("seed", "threads")  # settings in which runs of one group may differ: threads change the last bits alone
ROWS = ("er", "derpp", "clser", "rar", "er_ace", "ss_il", "icarl", "lucir", "bic", "finetune", "joint")
"""The order of methods in tables, by their names in configs; others come last."""
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
        return bool(bound_of(self.runs[0].started))

    def values(self, name: str) -> dict[Key, float]:
        """The measure of each run that is finished."""
        found = {key_of(run): MEASURES[name].of(run) for run in self.runs if run.ended is not None}
        return {key: value for key, value in found.items() if value is not None}

    def estimate(self, name: str) -> Estimate | None:
        return Estimate.of(list(self.values(name).values()))


def in_order(runs: Sequence[Results]) -> list[Results]:
    """Sort by data, method and adaptor, then settings and seed: for runs whose files have no order of their own."""

    def place(run: Results) -> tuple[Any, ...]:
        config, method = run.started.config, str(run.started.config["method"]["name"])
        known = ROWS.index(method) if method in ROWS else len(ROWS)
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


def _setting(run: Results, **instead: None) -> str:
    config = {name: value for name, value in run.started.config.items() if name not in APART}
    return json.dumps([{**config, **instead}, run.started.data], sort_keys=True)


def key_of(run: Results) -> Key:
    """Runs of two groups with the same key are a pair."""
    return run.seed, run.started.stream or str(run.path)


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
        bound = bound_of(run.started)
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
