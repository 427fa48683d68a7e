"""A grid of runs, each done once, even if processes die."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from evenkeel.grids.job import Job
from evenkeel.grids.launchers import Launcher, Working
from evenkeel.grids.ledger import Ledger

PATIENCE = 5  # deaths without an error or a further step after which a run counts as failed
PAUSE = 0.1  # seconds between polls


@dataclass
class Grid:
    """The state of all runs; `jobs` are done in this order."""

    ledger: Ledger
    jobs: Sequence[Job]
    waiting: deque[Job] = field(default_factory=deque)
    working: dict[str, Working] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # the errors of runs that could not continue
    steps: dict[str, int] = field(default_factory=dict)  # the progress of active runs

    def go(self, launcher: Launcher) -> Iterator["Grid"]:
        """Launch the unfinished runs; yield the grid after each poll, until all are finished or failed.

        Leaving the loop, by an exception or otherwise, stops the active runs.
        """
        jobs = {job.key: job for job in self.jobs}
        self.finished = [key for key in jobs if self.ledger.finished(key)]
        done = {*self.finished}
        self.waiting = deque(job for key, job in jobs.items() if key not in done)
        lives = {job.key: _Lives(len(self.ledger.failures(job.key))) for job in self.waiting}
        try:
            while self.waiting or self.working:
                for job in self._next(launcher.slots - len(self.working)):
                    self.working[job.key] = launcher.start(job)
                yield self
                for key in [key for key, each in self.working.items() if not each.at_work()]:
                    del self.working[key]
                    self._settle(jobs[key], lives[key])
                self.steps = {key: self.ledger.step(key) for key in self.working}
                time.sleep(PAUSE)
            yield self
        finally:
            for each in self.working.values():
                each.stop()

    def _next(self, room: int) -> list[Job]:
        """Return up to `room` jobs. Those that another grid is working on go to the end of the queue."""
        ready: list[Job] = []
        for _ in range(len(self.waiting)):
            if len(ready) >= room:
                break
            job = self.waiting.popleft()
            if self.ledger.busy(job.key):
                self.waiting.append(job)
            elif self.ledger.finished(job.key):
                self.finished.append(job.key)
            else:
                ready.append(job)
        return ready

    def _settle(self, job: Job, lives: "_Lives") -> None:
        key = job.key
        failures = self.ledger.failures(key)
        if self.ledger.finished(key):
            self.finished.append(key)
        elif len(failures) > lives.failures:
            self.failed[key] = failures[-1].error
        elif self.ledger.busy(key) or lives.left(self.ledger.step(key)):
            self.waiting.appendleft(job)
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
