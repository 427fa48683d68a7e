"""What the commands that do many runs share: where these run, how their progress is shown, how they end."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from pathlib import Path

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from evenkeel.cli.console import notes, out, progress
from evenkeel.errors import DataError, SettingsError
from evenkeel.experiment.config import Config
from evenkeel.grids.estimate import Estimator
from evenkeel.grids.job import Job
from evenkeel.grids.launchers import Launcher
from evenkeel.grids.launchers.in_process import InProcess
from evenkeel.grids.launchers.processes import Processes
from evenkeel.grids.ledger import Ledger, run_key
from evenkeel.grids.schedule import Grid


@dataclass(frozen=True)
class Execution:
    """Where and how runs are done."""

    ledger: Ledger
    data: Path | None
    save_every: float
    workers: int | None
    ray: str | None
    resources: str

    @property
    def at_once(self) -> int:
        """Runs at once on this machine."""
        return (_cores() if self.workers is None else self.workers) or 1

    @property
    def threads(self) -> int:
        """Of each run: the cores are shared out."""
        return max(1, _cores() // self.at_once)

    def launcher(self) -> Launcher:
        if self.ray is not None:
            from evenkeel.grids.launchers.cluster import RayCluster

            return RayCluster(self.ray, _resources(self.resources))
        return InProcess(self.threads) if self.workers == 0 else Processes(self.at_once, self.threads)

    def job(self, config: Config, threads: int) -> Job:
        config = config if config.threads else config.model_copy(update={"threads": threads})
        data = None if self.data is None else str(self.data.resolve())
        where = str(self.ledger.path.resolve())
        return Job(run_key(config), config.model_dump(mode="json"), where, data, self.save_every)


def do(configs: Sequence[Config], execution: Execution) -> Grid:
    """Do what is not done yet, with bars."""
    seconds = _seconds(configs, execution, must=execution.ray is None)
    runs = {run_key(config): config for config in configs}
    execution.ledger.require_writable()
    launcher = execution.launcher()
    if execution.ray is not None and launcher.slots == 1:
        notes.print(f"No node of the cluster has {execution.resources} now; waiting for one.")
    grid = Grid(execution.ledger, [execution.job(config, launcher.threads) for config in runs.values()])
    try:
        with _Bars(runs, seconds) as bars:
            for now in grid.go(launcher):
                bars.update(now)
    except KeyboardInterrupt:
        notes.print("Stopped. The same command goes on where the last checkpoints are.")
        raise typer.Exit(130) from None
    finally:
        launcher.close()
    return grid


def list_runs(configs: Sequence[Config], execution: Execution) -> None:
    """Show what there is to do, and how long it will take."""
    seconds = _seconds(configs, execution, must=False)
    runs = {run_key(config): config for config in configs}
    ledger, left = execution.ledger, list[float]()
    table = Table("run", "data", "scenario", "memory", "seed", "state", "estimate", title_justify="left")
    for key, config in runs.items():
        known = seconds.get(key)
        if known is not None:
            left.append(known[1] * (1 - ledger.step(key) / max(1, known[0])))
        scenario = "" if config.scenario is None else str(config.scenario["name"])
        where = [str(config.data["name"]), scenario, str(config.memory.capacity), str(config.seed)]
        table.add_row(config.name, *where, ledger.state(key), "-" if known is None else _span(known[1]))
    out.print(table)
    done = sum(ledger.finished(key) for key in runs)
    told = f"{len(runs)} run{'s' * (len(runs) > 1)}, {done} finished."
    if left:
        at_once = min(execution.at_once, _cores(), len(left))
        longest = max(*left, sum(left) / at_once) if execution.ray is None and len(left) > 1 else sum(left)
        how = "one after another" if execution.ray is not None or at_once == 1 else f"{at_once} at once"
        told += f" The others: about {_span(longest)}, {how}."
    out.print(told)


def report_failures(grid: Grid, configs: Sequence[Config]) -> None:
    """And end the command with an error, if there are any."""
    named = {run_key(config): config for config in configs}
    for key, error in grid.failed.items():
        notes.print(f"Failed: {_named(named[key])} ({grid.ledger.folder(key)}): {error}", style="red", soft_wrap=True)
    if grid.failed:
        notes.print("The same command tries these again. The others are finished.", soft_wrap=True)
        raise typer.Exit(1)


def _seconds(configs: Sequence[Config], execution: Execution, *, must: bool) -> dict[str, tuple[int, float] | None]:
    """Steps and seconds of the runs left; None where the data is not here (and need not be, if others run it)."""
    found: dict[str, tuple[int, float] | None] = {}
    absent: dict[str, str] = {}
    with progress() as bar:
        place = bar.add_task("Reading data", total=None)
        estimator = Estimator(
            execution.ledger,
            execution.data,
            execution.threads,
            lambda what, done, total: bar.update(place, description=what, completed=done, total=total),
        )
        for config in configs:
            key, name = run_key(config), str(config.data["name"])
            if execution.ledger.finished(key):
                continue
            try:
                found[key] = None if name in absent else (estimator.steps(config), estimator.seconds(config))
            except DataError as error:
                if must:
                    raise
                absent[name], found[key] = str(error), None
    for reason in absent.values():
        notes.print(f"No estimate: {reason}", soft_wrap=True)
    return found


class _Bars:
    """One bar for all, in estimated seconds, and one for each run at work, in steps."""

    def __init__(self, runs: dict[str, Config], seconds: dict[str, tuple[int, float] | None]) -> None:
        self._runs, self._seconds = runs, seconds
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            console=notes,
            transient=not notes.is_terminal,
        )
        self._all: TaskID | None = None
        self._each: dict[str, TaskID] = {}
        self._told = 0
        self._before: set[str] = set()  # what was finished when it began is no part of the work

    def __enter__(self) -> "_Bars":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, grid: Grid) -> None:
        ended = {*grid.finished, *grid.failed}
        if self._all is None:
            self._before, self._told = ended, len(ended)
            self._all = self._bar.add_task("", total=sum(self._weight(key) for key in self._runs if key not in ended))
        done = sum(self._weight(key) for key in ended - self._before)
        done += sum(self._weight(key) * self._share(key, step) for key, step in grid.steps.items())
        self._bar.update(
            self._all,
            completed=done,
            description=f"{len(grid.finished)} of {len(self._runs)} runs"
            + (f", {len(grid.failed)} failed" if grid.failed else ""),
        )
        for key in [key for key in grid.working if key not in self._each]:
            known = self._seconds.get(key)
            self._each[key] = self._bar.add_task(f"  {_named(self._runs[key])}", total=known[0] if known else None)
        for key, task in list(self._each.items()):
            if key in grid.working:
                self._bar.update(task, completed=grid.steps.get(key, 0))
            else:
                self._bar.remove_task(self._each.pop(key))
        if not notes.is_terminal and len(ended) > self._told:  # in a log, a line now and then says as much
            remaining = next(each.time_remaining for each in self._bar.tasks if each.id == self._all)
            left = f", about {_span(remaining)} left" if remaining else ""
            notes.print(f"{len(grid.finished)} of {len(self._runs)} runs finished, {len(grid.failed)} failed{left}")
            self._told = len(ended)

    def _weight(self, key: str) -> float:
        known = self._seconds.get(key)
        return max(known[1], 1e-3) if known else 1.0

    def _share(self, key: str, step: int) -> float:
        known = self._seconds.get(key)
        return step / known[0] if known and known[0] else 0.0


def _named(config: Config) -> str:
    return f"{config.name}, {config.data['name']}, memory {config.memory.capacity}, seed {config.seed}"


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds))) if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _resources(text: str) -> dict[str, float]:
    try:
        found = {name.strip(): float(amount) for name, amount in (each.split("=") for each in text.split(","))}
    except ValueError:
        found = {}
    if not found or not all(name and 0 <= amount < inf for name, amount in found.items()) or found.get("CPU") == 0:
        raise SettingsError(f"--resources {text!r} is not of the form CPU=2,GPU=0.5, with some CPU.")
    return found
