"""Groups of runs that differ only in their seeds, with means, intervals and paired gains."""

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
    """A mean over runs and half of its 95% interval (Student's t); a single run has no interval."""

    mean: float
    half: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate | None":
        from scipy.stats import t as student  # here, as scipy is slow to import

        n = len(values)
        if n == 0:
            return None
        half = float(student.ppf(0.975, n - 1)) * stdev(values) / sqrt(n) if n > 1 else None
        return cls(fmean(values), half, n)

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if self.half is None else f"{self.mean:.1f} ± {self.half:.1f}"


APART = ("seed", "threads")  # settings that may differ within a group: threads change only the last bits
ROWS = ("er", "derpp", "clser", "rar", "er_ace", "ss_il", "icarl", "lucir", "bic", "finetune", "joint")
"""The order of methods in tables, by their names in configs; others come last."""
Key = tuple[int, str]  # seed and stream, by which runs of two groups are paired


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seeds (and in their streams, which come from the seed or from the user)."""

    label: str
    runs: list[Results]
    setting: str  # the config and data they share, as JSON
    base: str  # the same without adaptor and name; equal for two groups that differ only in CBA

    @property
    def is_bound(self) -> bool:
        """Return whether this is a bound: a reference for the others, never ranked among them."""
        return bool(bound_of(self.runs[0].started))

    def values(self, name: str) -> dict[Key, float]:
        """Return the measure of each finished run."""
        measured = {key_of(run): MEASURES[name].of(run) for run in self.runs if run.ended is not None}
        return {key: value for key, value in measured.items() if value is not None}

    def estimate(self, name: str) -> Estimate | None:
        return Estimate.of(list(self.values(name).values()))


def in_order(runs: Sequence[Results]) -> list[Results]:
    """Sort runs by data, method and adaptor, then settings and seed, as their folders have no order of their own."""

    def place(run: Results) -> tuple[Any, ...]:
        config = run.started.config
        method = "rar" if config.get("learner", {}).get("repeats", 1) > 1 else str(config["method"]["name"])
        known = ROWS.index(method) if method in ROWS else len(ROWS)
        return str(run.started.data["name"]), known, bool(config["adaptor"]), _setting(run), run.seed

    return sorted(runs, key=place)


def groups(runs: Sequence[Results]) -> list[Group]:
    """Group runs whose configs differ only in the seed, in order of first appearance, with distinct labels.

    A run counts once, because duplicates would feign certainty: of equal runs the furthest one is kept.
    """
    by_setting: dict[str, list[Results]] = {}
    for run in runs:
        by_setting.setdefault(_setting(run), []).append(run)
    labels = _labels([members[0] for members in by_setting.values()])
    grouped = []
    for label, (setting, members) in zip(labels, by_setting.items(), strict=True):
        best: dict[Key, Results] = {}
        for run in sorted(members, key=lambda run: (run.ended is not None, len(run.tested), len(run.steps))):
            best[key_of(run)] = run
        kept = sorted(best.values(), key=lambda run: run.seed)
        grouped.append(Group(label, kept, setting, _setting(kept[0], name=None, adaptor=None)))
    return grouped


def _setting(run: Results, **instead: None) -> str:
    config = {name: value for name, value in run.started.config.items() if name not in APART}
    return json.dumps([{**config, **instead}, run.started.data], sort_keys=True)


def key_of(run: Results) -> Key:
    """Return the key by which runs of two groups are paired."""
    return run.seed, run.started.stream or str(run.path)


def _labels(runs: Sequence[Results]) -> list[str]:
    """Return the names of the runs; where several share a name, with the settings in which they differ."""
    flat = [
        dict(_flat({**run.started.config, "data": {**run.started.config["data"], **run.started.data}})) for run in runs
    ]
    labels, uses = list[str](), Counter[str]()
    for run, settings in zip(runs, flat, strict=True):
        namesakes = [other for other, each in zip(flat, runs, strict=True) if each.label == run.label]
        others = [other for other in namesakes if other is not settings]
        differ = [key for key in settings if key not in APART and any(o.get(key) != settings[key] for o in others)]
        enough = 3  # or more, if it takes more to distinguish it from all others
        while enough < len(differ) and any(all(o.get(k) == settings[k] for k in differ[:enough]) for o in others):
            enough += 1
        differences = ", ".join(f"{key}={settings[key]}" for key in differ[:enough])
        label = f"{run.label} ({differences})" if differences else run.label
        bound = bound_of(run.started)
        if bound and "bound" not in label:  # a name chosen by the user must not hide that it is a bound
            label = f"{label} ({bound} bound)"
        uses[label] += 1  # more than once where only the digest of the data differs
        labels.append(f"{label} #{uses[label]}" if uses[label] > 1 else label)
    return labels


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        elif key not in ("digest", "classes"):
            yield f"{above}{key}", value


def pairs(found: Sequence[Group]) -> list[tuple[Group, Group]]:
    """Return (without, with) pairs of groups that differ only in the adaptor."""
    plain = {group.base: group for group in found if not group.runs[0].started.config["adaptor"]}
    return [
        (plain[group.base], group) for group in found if group.runs[0].started.config["adaptor"] and group.base in plain
    ]


def gain(name: str, without: Group, with_: Group) -> Estimate | None:
    """Return the paired difference in this measure over the seeds that both groups have."""
    before, after = without.values(name), with_.values(name)
    return Estimate.of([after[key] - before[key] for key in sorted(before.keys() & after.keys())])
