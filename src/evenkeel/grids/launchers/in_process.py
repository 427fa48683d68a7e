"""Runs one after another in this process, for notebooks, debuggers and small grids."""

import time
from collections.abc import Generator

from evenkeel.grids.job import Job, steps
from evenkeel.grids.launchers.base import Launcher

SLICE = 0.2  # seconds of work per poll, so that progress can be shown in between


class InProcess(Launcher):
    elsewhere = False

    def start(self, job: Job) -> "Slices":
        return Slices(steps(job))


class Slices:
    def __init__(self, records: Generator[None]) -> None:
        self._records = records

    def at_work(self) -> bool:
        end = time.monotonic() + SLICE
        return any(time.monotonic() >= end for _ in self._records)

    def stop(self) -> None:
        self._records.close()
