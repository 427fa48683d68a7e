"""A budget of time for a grid: the runs that tell most for it come first, and none begins that cannot end within it."""

import heapq
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from evenkeel.errors import SettingsError
from evenkeel.experiment.config import Config
from evenkeel.grids.ledger import run_key

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


@dataclass
class Budget:
    """Seconds for the runs of a grid, from the moment they are put `in_order`.

    estimate: the seconds of a whole run. share: how much of a run with this key is done, from 0 to 1. at_once: the
    number of parallel runs. Estimates are scaled by the pace of the runs of this grid: a busy machine is noticed.
    """

    seconds: float
    estimate: Callable[[Config], float]
    share: Callable[[str], float]
    at_once: int = 1
    clock: Callable[[], float] = time.monotonic
    _end: float = 0.0
    _estimates: dict[str, float] = field(default_factory=dict)
    _pairs: dict[str, list[str]] = field(default_factory=dict)  # of each run, the runs it is compared with, and itself
    _begun: dict[str, tuple[float, float]] = field(default_factory=dict)  # when, and the share done before
    _paces: dict[str, float] = field(default_factory=dict)  # real seconds for each estimated one, by run

    def in_order(self, runs: Mapping[str, Config]) -> list[str]:
        """Start the clock, and return the keys of runs, which come by seeds, with the most telling first.

        A first seed tells more than a second; runs that differ only in the adaptor tell little alone, so they are kept
        together; of two such pairs the cheaper comes first.
        """
        self._end = self.clock() + self.seconds
        self._estimates = {key: self.estimate(config) for key, config in runs.items()}
        seeds, pairs = Counter[str](), dict[tuple[int, str], list[str]]()
        for key, config in runs.items():
            setting = run_key(config.model_copy(update={"seed": 0}))
            pairs.setdefault((seeds[setting], run_key(config.model_copy(update={"adaptor": None}))), []).append(key)
            seeds[setting] += 1
        self._pairs = {key: pair for pair in pairs.values() for key in pair}
        ranked = sorted(pairs.items(), key=lambda item: (item[0][0], self._needs(item[1])))
        return [key for _, pair in ranked for key in pair]

    def begins(self, key: str) -> bool:
        """Return whether a run, and what is to be compared with it, can end in time; if so, it counts as begun."""
        rest = [each for each in self._pairs[key] if each == key or each not in self._begun]
        if self.clock() + self.pace * self._needs(rest) > self._end:
            return False
        self._begun[key] = (self.clock(), self.share(key))
        return True

    @property
    def is_over(self) -> bool:
        return self.clock() >= self._end

    @property
    def pace(self) -> float:
        """Return the real seconds for each estimated one: the median over the runs of this grid."""
        return median(self._paces.values()) if self._paces else 1.0

    def observe(self, keys: Iterable[str]) -> None:
        """Take note of how far runs are."""
        for key in keys:
            begun, before = self._begun[key]
            progress = self.share(key) - before
            if progress >= ENOUGH and self._estimates[key] > 0:
                self._paces[key] = (self.clock() - begun) / (self._estimates[key] * progress)

    def planned(self, keys: Sequence[str]) -> list[str]:
        """Return those runs that will begin if all goes as estimated."""
        free, planned, begun = [self.clock()] * self.at_once, list[str](), set[str]()
        for key in keys:
            start = heapq.heappop(free)
            rest = [each for each in self._pairs[key] if each not in begun]
            fits = start + self._needs(rest) <= self._end
            heapq.heappush(free, start + self._left(key) if fits else start)
            if fits:
                planned.append(key)
                begun.add(key)
        return planned

    def _left(self, key: str) -> float:
        return self._estimates[key] * (1 - self.share(key))

    def _needs(self, keys: Sequence[str]) -> float:
        """Return the seconds until all of these runs are done, in parallel where that is possible."""
        left = [self._left(key) for key in keys]
        return max(*left, sum(left) / min(self.at_once, len(left))) if len(left) > 1 else sum(left)
