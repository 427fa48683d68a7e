"""A budget of time for a grid: the runs that tell most for it come first, and none begins that cannot end within it."""

import heapq
import re
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from evenkeel.errors import SettingsError
from evenkeel.experiment.config import Config
from evenkeel.grids.run_names import run_key

SPAN = re.compile(r"(?:(\d+(?:\.\d+)?)\s*h)?\s*(?:(\d+(?:\.\d+)?)\s*m(?:in)?)?\s*(?:(\d+(?:\.\d+)?)\s*s)?")
ENOUGH = 0.1  # of a run, after which its progress says something about the pace


def seconds_of(text: str) -> float:
    """Return the seconds of a text such as 3h, 1.5h, 2h30m, 90min or 45s; raise SettingsError if it is none."""
    match = SPAN.fullmatch(text.strip())
    hours, minutes, seconds = (float(part or 0) for part in match.groups()) if match else (0.0, 0.0, 0.0)
    total = 3600 * hours + 60 * minutes + seconds
    if not total:
        raise SettingsError(f"The budget {text!r} is not a span of time such as 3h, 2h30m or 45min.")
    return total


def without_adaptor(runs: Mapping[str, Config]) -> dict[str, str]:
    """Return by the key of each run with an adaptor that of the same run without it, where there is one."""
    plain = {key: run_key(each.model_copy(update={"adaptor": None})) for key, each in runs.items() if each.adaptor}
    return {key: base for key, base in plain.items() if base in runs}


@dataclass
class Budget:
    """Seconds for the runs of a grid, from `since` on; by default from the moment they are put `in_order`.

    estimate: the seconds of a whole run. share: how much of a run with this key is done, from 0 to 1. at_once: the
    number of parallel runs. bases: by run, the one it is compared with; by default the same without an adaptor.
    Estimates are scaled by the pace of the runs of this grid: a busy machine is noticed.
    """

    seconds: float
    estimate: Callable[[Config], float]
    share: Callable[[str], float]
    at_once: int = 1
    clock: Callable[[], float] = time.monotonic
    bases: Mapping[str, str] | None = None
    since: float | None = None  # by the clock
    _end: float = 0.0
    _estimates: dict[str, float] = field(default_factory=dict)
    _partners: dict[str, list[str]] = field(default_factory=dict)  # by run, its base, or those that have it
    _begun: dict[str, float] = field(default_factory=dict)  # the share done before
    _working: set[str] = field(default_factory=set)
    _moving: dict[str, tuple[float, float]] = field(default_factory=dict)  # the time of the first new step, its share
    _paces: dict[str, float] = field(default_factory=dict)  # real seconds for each estimated one, by run

    def in_order(self, runs: Mapping[str, Config]) -> list[str]:
        """Start the clock, and return the keys of runs, which come by seeds, with the most telling first.

        A first seed tells more than a second. A run tells little without the one it is compared with, so such pairs are
        kept together and come before single runs; of two pairs the cheaper comes first.
        """
        self._end = (self.clock() if self.since is None else self.since) + self.seconds
        self._estimates = {key: self.estimate(config) for key, config in runs.items()}
        bases = without_adaptor(runs) if self.bases is None else self.bases
        pairs = [(base, key) for key, base in bases.items() if key in runs and base in runs]
        for base, key in pairs:
            self._partners.setdefault(base, []).append(key)
        self._partners |= {key: [base] for base, key in pairs}
        seeds, places = Counter[str](), dict[str, int]()
        for key, config in runs.items():
            setting = run_key(config.model_copy(update={"seed": 0}))
            places[key] = seeds[setting]
            seeds[setting] += 1
        in_pairs = {key for pair in pairs for key in pair}
        single = [(key,) for key in runs if key not in in_pairs]
        ranked = sorted([*pairs, *single], key=lambda keys: (places[keys[-1]], len(keys) == 1, self._needs(keys)))
        return list(dict.fromkeys(key for keys in ranked for key in keys))

    def begins(self, key: str) -> bool:
        """Return whether a run, and what is to be compared with it, can end in time; if so, it counts as begun."""
        if self.clock() + self.needed(key) > self._end:
            return False
        self._begun[key] = self.share(key)
        self._working.add(key)
        return True

    def needed(self, key: str) -> float:
        """Return the seconds, at the present pace, until a run that has not begun can be compared.

        What it is compared with may have to wait until a run that is going on ends.
        """
        busy = [self._left(each) for each in self._working]
        slots = [*busy, *[0.0] * (self.at_once - len(busy))]
        return self.pace * self._done(self._with_partner(key, self._begun), slots)

    @property
    def has_begun(self) -> bool:
        """Return whether any run fitted."""
        return bool(self._begun)

    @property
    def is_over(self) -> bool:
        return self.clock() >= self._end

    @property
    def pace(self) -> float:
        """Return the real seconds for each estimated one: the median over the runs of this grid."""
        return median(self._paces.values()) if self._paces else 1.0

    def observe(self, keys: Iterable[str]) -> None:
        """Take note of how far the working runs are. Their pace is that of steps, without the start."""
        self._working = set(keys)
        for key in self._working:
            share = self.share(key)
            if share > self._begun[key]:
                since, before = self._moving.setdefault(key, (self.clock(), share))
                if share - before >= ENOUGH and self._estimates[key] > 0:
                    self._paces[key] = (self.clock() - since) / (self._estimates[key] * (share - before))

    def planned(self, keys: Sequence[str]) -> list[str]:
        """Return those runs that will begin if all goes as estimated."""
        free, waiting, begun = [self.clock()] * self.at_once, list(keys), dict[str, None]()
        while key := next((each for each in waiting if self._fits(each, begun, free)), None):
            heapq.heapreplace(free, free[0] + self._left(key))
            waiting.remove(key)
            begun[key] = None
        return list(begun)

    def _fits(self, key: str, begun: Container[str], slots: Sequence[float]) -> bool:
        return self._done(self._with_partner(key, begun), slots) <= self._end

    def _with_partner(self, key: str, begun: Container[str]) -> list[str]:
        """Return a run and, unless one has begun, a run to compare it with: its base, or the shortest that has it."""
        partners = self._partners.get(key, [])
        if not partners or any(each in begun for each in partners):
            return [key]
        return [key, min(partners, key=self._left)]

    def _left(self, key: str) -> float:
        return self._estimates[key] * (1 - self.share(key))

    def _done(self, keys: Sequence[str], slots: Sequence[float]) -> float:
        """Return when all of these runs are done if each begins, in this order, when the next slot is free."""
        free = sorted(slots)
        ends = list[float]()
        for key in keys:
            ends.append(free[0] + self._left(key))
            heapq.heapreplace(free, ends[-1])
        return max(ends)

    def _needs(self, keys: Sequence[str]) -> float:
        """Return the seconds until all of these runs are done, in parallel where that is possible."""
        left = [self._left(key) for key in keys]
        return max(*left, sum(left) / min(self.at_once, len(left))) if len(left) > 1 else sum(left)
