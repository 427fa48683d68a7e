"""A grid of runs, each done once, even if processes die."""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import InitVar, dataclass, field
from pathlib import Path

from evenkeel.experiment.config import Config
from evenkeel.grids.budget import Budget
from evenkeel.grids.execution import Execution
from evenkeel.grids.job import Job
from evenkeel.grids.launchers import launcher_for
from evenkeel.grids.launchers.base import Launcher, Working
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.own_data import require_same_data
from evenkeel.grids.run_names import run_key
from evenkeel.learning.devices import find_device, require_name
from evenkeel.results.run_files import Results

PATIENCE = 5  # deaths without an error or a further step after which a run counts as failed
PAUSE = 0.1  # seconds between polls
RETRY = 1.0  # seconds until runs that could not begin are looked at again, which takes a while if they are many


@dataclass
class Grid:
    """Runs, which are done in this order, and their state. With a `budget` those that fit into it, as it orders them.

    >>> import tempfile, evenkeel as ek
    >>> configs = [ek.load_config("digits", ["limits.train=5", f"seed={seed}"]) for seed in range(2)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     grid = Grid(Ledger(folder), configs, Execution(workers=0)).finish()
    >>> len(grid.finished), grid.failed
    (2, {})
    """

    ledger: Ledger
    configs: InitVar[Iterable[Config]]
    execution: Execution = field(default_factory=Execution)
    budget: Budget | None = None
    runs: dict[str, Config] = field(init=False)  # by key
    waiting: deque[str] = field(default_factory=deque)
    working: dict[str, Working] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # the errors of runs that could not continue
    left: list[str] = field(default_factory=list)  # runs that the budget had no time to begin or to end
    steps: dict[str, int] = field(default_factory=dict)  # the progress of active runs
    note: str = ""  # the launcher's

    def __post_init__(self, configs: Iterable[Config]) -> None:
        self.runs = {run_key(config): config for config in configs}
        if self.execution.device is not None:  # a cluster may have what this machine lacks
            (find_device if self.launcher.here else require_name)(self.execution.device)

    @property
    def launcher(self) -> type[Launcher]:
        return launcher_for(self.execution)

    def finish(self) -> "Grid":
        """Do the unfinished runs and return the grid, with those that failed."""
        for _ in self.go():
            pass
        return self

    def go(self) -> Iterator["Grid"]:
        """Launch the unfinished runs; yield the grid after each poll, until all are finished, failed or left.

        Leaving the loop, by an exception or otherwise, stops the active runs.
        """
        self.ledger.require_writable()
        require_same_data(self.ledger, self.runs, None if self.execution.data is None else Path(self.execution.data))
        with closing(self.launcher(self.execution)) as launcher:
            yield from self._polls(launcher)

    def results(self) -> list[Results]:
        """Return the results of the finished runs."""
        return self.ledger.results(key for key in self.runs if self.ledger.finished(key))

    def _polls(self, launcher: Launcher) -> Iterator["Grid"]:
        self.note = launcher.note
        self.finished = [key for key in self.runs if self.ledger.finished(key)]
        done = {*self.finished}
        ordered = self.runs if self.budget is None else self.budget.in_order(self.runs)
        self.waiting = deque(key for key in ordered if key not in done)
        # A budget's estimates hold for runs that have a core each, of which workers may be more.
        slots = launcher.slots if self.budget is None else min(launcher.slots, self.budget.at_once)
        again = 0.0  # when to look for runs to begin
        lives = {key: _Lives(len(self.ledger.failures(key))) for key in self.waiting}
        try:
            while self.waiting or self.working:
                if time.monotonic() >= again:
                    for key in self._next(slots - len(self.working)):
                        self.working[key] = launcher.start(self._job(key, launcher.threads))
                    again = time.monotonic() + RETRY
                yield self
                ended = [key for key, each in self.working.items() if not each.at_work()]
                again = 0.0 if ended else again
                for key in ended:
                    del self.working[key]
                    self._settle(key, lives[key])
                self.steps = {key: self.ledger.step(key) for key in self.working}
                if self.budget is not None:
                    self.budget.observe(self.working)
                    if self.budget.is_over:
                        self.left += [*self.working, *self.waiting]  # the active ones are resumed by the next grid
                        break
                if not ended and (launcher.elsewhere or not self.working):
                    time.sleep(PAUSE)
            yield self
        finally:
            for each in self.working.values():
                each.stop()

    def _job(self, key: str, threads: int) -> Job:
        config = self.runs[key]
        config = config if config.threads else config.model_copy(update={"threads": threads})
        if self.execution.device is not None:
            config = config.model_copy(update={"device": self.execution.device})
        return Job.of(config, self.ledger, self.execution)

    def _next(self, room: int) -> list[str]:
        """Return up to `room` runs. Those that another grid is working on go to the end of the queue.

        Those that do not fit into the budget wait, as the pace may get better, but not if nothing else is left to do.
        """
        ready, too_long = list[str](), list[str]()
        for _ in range(len(self.waiting)):
            if len(ready) >= room:
                break
            key = self.waiting.popleft()
            if self.ledger.busy(key):
                self.waiting.append(key)
            elif self.ledger.finished(key):
                self.finished.append(key)
            elif self.budget is not None and not self.budget.begins(key):
                too_long.append(key)
            else:
                ready.append(key)
        if ready or self.working:
            self.waiting.extendleft(reversed(too_long))
        else:
            self.left += too_long
        return ready

    def _settle(self, key: str, lives: "_Lives") -> None:
        failures = self.ledger.failures(key)
        if self.ledger.finished(key):
            self.finished.append(key)
        elif len(failures) > lives.failures:
            self.failed[key] = failures[-1].error
        elif self.ledger.busy(key) or lives.left(self.ledger.step(key)):
            self.waiting.appendleft(key)
        else:
            message = (
                f"Its process died {PATIENCE} times without an error message and without getting further than step "
                f"{lives.furthest}: killed, or out of memory?"
            )
            self.failed[key] = message
            with suppress(OSError):  # the failure is reported even if it cannot be written
                self.ledger.fail(key, message)


@dataclass
class _Lives:
    """The restarts of a killed run, which are limited: one that needs too much memory dies each time."""

    failures: int  # of earlier grids
    furthest: int = 0
    deaths: int = 0

    def left(self, step: int) -> bool:
        self.deaths = 0 if step > self.furthest else self.deaths + 1
        self.furthest = max(step, self.furthest)
        return self.deaths < PATIENCE
