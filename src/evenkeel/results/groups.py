"""Groups of runs that differ only in their seeds, with means, intervals and paired gains."""

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenkeel.errors import counted
from evenkeel.results.labels import APART, flat, labels, numbered
from evenkeel.results.measures import Measure
from evenkeel.results.records import LIBRARIES, bound_of, is_rar
from evenkeel.results.run_files import Results

ENOUGH = 3  # runs for an interval: Student's t of two is so wide that it says nothing
Spread = TypeVar("Spread", float, NDArray[np.float64])


@dataclass(frozen=True)
class Estimate:
    """A mean over runs and half of its 95% interval, or the values if they are too few for an interval."""

    mean: float
    half: float | None
    n: int
    missing: int = 0  # finished runs that have no value
    values: tuple[float, ...] = ()  # of fewer runs than ENOUGH

    @classmethod
    def of(cls, values: Sequence[float | None]) -> "Estimate | None":
        known = [value for value in values if value is not None]
        n = len(known)
        if n == 0:
            return None
        if n < ENOUGH:
            return cls(fmean(known), None, n, len(values) - n, tuple(known))
        return cls(fmean(known), half_interval(stdev(known), n), n, len(values) - n)

    def __str__(self) -> str:
        return self.text()

    def text(self, format: str = ".1f") -> str:
        """Return '52.1 ± 1.3', or '52.1 (51.4, 52.8)' for two runs, with numbers in this format."""
        sign = "+" if format.startswith("+") else ""
        format = f"{sign}z{format.removeprefix('+')}"  # z: what is rounded to zero has no minus
        mean = f"{self.mean:{format}}"
        if self.half is not None:
            return f"{mean} ± {self.half:{format.lstrip('+')}}"
        return f"{mean} ({', '.join(f'{value:{format}}' for value in self.values)})" if len(self.values) > 1 else mean


def half_interval(spread: Spread, n: int) -> Spread:
    """Return half of the 95% interval (Student's t) of the mean of `n` values with this standard deviation."""
    from scipy.special import stdtrit  # the quantile itself: scipy.stats takes a second to import

    return float(stdtrit(n - 1, 0.975)) * spread / sqrt(n)


ROWS = (
    "er",
    "derpp",
    "clser",
    "rar",
    "er_ace",
    "ss_il",
    "icarl",
    "lucir",
    "bic",
    "mir",
    "scr",
    "gdumb",
    "finetune",
    "joint",
)
"""The order of methods in tables, by their names in configs; others come next, and bounds last."""
ADAPTORS = {"cba": "CBA"}
"""The titles of adaptors that are not written as their names in configs with a capital."""


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seeds (and in their streams, which come from the seed or from the user)."""

    label: str
    runs: list[Results]
    setting: str  # the config, data and own code they share, as JSON
    base: str  # the same without the adaptor; equal for two groups that differ only in it

    @property
    def is_bound(self) -> bool:
        """Return whether this is a bound: a reference for the others, never ranked among them."""
        return bool(bound_of(self.runs[0].started))

    @property
    def adaptor(self) -> str:
        """Return the title of the adaptor, such as CBA; empty if there is none."""
        adaptor = self.runs[0].started.config["adaptor"]
        return ADAPTORS.get(adaptor["name"], adaptor["name"].replace("_", " ").capitalize()) if adaptor else ""

    @property
    def finished(self) -> list[Results]:
        return [run for run in self.runs if run.ended is not None]

    def estimate(self, measure: Measure) -> Estimate | None:
        """Return the mean over the finished runs."""
        return Estimate.of([measure.of(run) for run in self.finished])


def in_order(runs: Sequence[Results]) -> list[Results]:
    """Sort runs by data, method and adaptor, then settings and seed, as their folders have no order of their own."""

    def place(run: Results) -> tuple[Any, ...]:
        config = run.started.config
        method = "rar" if is_rar(config) else str(config["method"]["name"])
        known = ROWS.index(method) if method in ROWS else len(ROWS)
        bound = bool(bound_of(run.started))
        return str(run.started.data["name"]), bound, known, bool(config["adaptor"]), _setting(run), run.seed

    return sorted(runs, key=place)


def groups(runs: Sequence[Results]) -> list[Group]:
    """Group runs whose configs differ only in the seed, in order of first appearance, with distinct labels.

    A run counts once, because duplicates would feign certainty: of equal runs the furthest one is kept. A group that
    was renamed has the name of its latest run.
    """
    by_setting: dict[str, list[Results]] = {}
    for run in runs:
        by_setting.setdefault(_setting(run), []).append(run)
    names = _labels([max(members, key=_begun) for members in by_setting.values()])
    grouped = []
    for label, (setting, members) in zip(names, by_setting.items(), strict=True):
        best: dict[Hashable, Results] = {}
        for run in sorted(members, key=lambda run: (run.ended is not None, len(run.tested), len(run.steps))):
            best[key_of(run)] = run
        kept = sorted(best.values(), key=lambda run: run.seed)
        grouped.append(Group(label, kept, setting, _setting(kept[0], adapted=False)))
    return grouped


def _setting(run: Results, *, adapted: bool = True) -> str:
    """Return what the runs of a group share; adapted: with the adaptor."""
    config, own, apart = run.started.config, own_code(run), {*APART}
    if not adapted:
        apart |= {"adaptor", "name"}
        own.pop((config["adaptor"] or {}).get("name", ""), None)
    elif config.get("scenario"):  # a stream of the user's own may have nothing but a name
        apart.add("name")
    return json.dumps([{key: config[key] for key in config if key not in apart}, run.started.data, own], sort_keys=True)


def own_code(run: Results) -> dict[str, str]:
    """Return the digests of the files of the user's own parts, by part: the same config may mean another file."""
    return {part: version for part, version in run.started.versions.items() if part not in LIBRARIES}


def _begun(run: Results) -> str:
    return run.sessions[-1].started if run.sessions else ""


def key_of(run: Results) -> tuple[int, str]:
    """Return seed and stream, by which runs of two groups are paired."""
    return run.seed, run.started.stream or (run.ended and run.ended.batches) or str(run.path)


def _labels(runs: Sequence[Results]) -> list[str]:
    """Return distinct labels: the names of the runs, and where several share one, the settings in which they differ."""
    settings = [
        dict(flat({**run.started.config, "data": {**run.started.config["data"], **run.started.data}}))
        | ({"code": ", ".join(own.values())} if (own := own_code(run)) else {})
        for run in runs
    ]
    marked = list[str]()
    for label, run in zip(labels([run.label for run in runs], settings), runs, strict=True):
        bound = bound_of(run.started)
        hidden = bound and "bound" not in label  # a name chosen by the user must not hide that it is a bound
        marked.append(f"{label} ({bound} bound)" if hidden else label)
    return numbered(marked)  # labels are equal where only the digest of the data differs


def pairs(members: Sequence[Group]) -> list[tuple[Group, Group]]:
    """Return (without, with) pairs of groups that differ only in the adaptor."""
    plain = {group.base: group for group in members if not group.adaptor}
    return [(plain[group.base], group) for group in members if group.adaptor and group.base in plain]


def paired(one: Group, other: Group, key: Callable[[Results], Any] = key_of) -> list[tuple[Results, Results]]:
    """Return the finished runs that both groups have, by the same `key`."""
    before, after = ({key(run): run for run in group.finished} for group in (one, other))
    return [(before[each], after[each]) for each in sorted(before.keys() & after.keys())]


def gain(measure: Measure, common: Sequence[tuple[Results, Results]]) -> Estimate | None:
    """Return the difference in this measure over paired runs."""
    values = [(measure.of(one), measure.of(other)) for one, other in common]
    return Estimate.of([None if before is None or after is None else after - before for before, after in values])


def seeds_text(counts: Sequence[int], *, to: str = " to ") -> str:
    """Return the number of seeds of several groups, as in '1 seed' or '3 to 5 seeds'."""
    least, most = min(counts), max(counts)
    return counted(most, "seed") if least == most else f"{least}{to}{most} seeds"


def comparable(
    runs: Sequence[Results], *, apart_from: Sequence[str] = (), same_memory: bool = False
) -> list[list[Results]]:
    """Part runs by data and scenario, as they appear; `apart_from`: settings of the scenario that may differ."""
    parts: dict[str, list[Results]] = {}
    for run in runs:
        started, config = run.started, run.started.config
        scenario = {key: value for key, value in (config.get("scenario") or {}).items() if key not in apart_from}
        shared = [started.data, config.get("data"), scenario, len(started.tasks)]
        memory = config["memory"]["capacity"] if same_memory else None
        parts.setdefault(json.dumps([*shared, memory], sort_keys=True), []).append(run)
    return list(parts.values())


def place_names(first: Sequence[Results], names: Sequence[str]) -> list[str]:
    """Return these names of the first run of each part, with the settings of data and scenario that tell them apart."""
    settings = [dict(flat({part: run.started.config.get(part) for part in ("data", "scenario")})) for run in first]
    return numbered(labels(names, settings))


def benchmark(run: Results, *, full: bool = False) -> str:
    """Return data set and scenario of a run; `full`: with the settings of the scenario."""
    return f"{run.started.data.get('name', 'unknown')}, {scenario_title(run, full=full)}"


def scenario_title(run: Results, *, full: bool = True) -> str:
    """Return the name of a run's scenario, with its settings, as in 'blurry (tasks: 5, percent: 30)'."""
    scenario = run.started.config.get("scenario") or {"name": "own stream"}
    settings = {key: value for key, value in scenario.items() if key != "name" and value is not None}
    shown = (f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in settings.items())
    return f"{scenario['name']} ({', '.join(shown)})" if full and settings else str(scenario["name"])
