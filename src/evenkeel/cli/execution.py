"""What commands with many runs share: where these are executed, their progress bars, reports of failures."""

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
    """Where and how runs are executed."""

    ledger: Ledger
    data: Path | None
    save_every: float
    workers: int | None
    ray: str | None
    resources: str

    @property
    def at_once(self) -> int:
        """Return the number of parallel runs on this machine."""
        return (_cores() if self.workers is None else self.workers) or 1

    @property
    def threads(self) -> int:
        """Return the number of threads per run: the cores are divided among the runs."""
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
    """Execute the runs that are not finished yet, with progress bars."""
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
        notes.print("Stopped. Repeat the command to resume from the last checkpoints.")
        raise typer.Exit(130) from None
    finally:
        launcher.close()
    return grid


def list_runs(configs: Sequence[Config], execution: Execution) -> None:
    """List the runs, and estimate how long the unfinished ones will take."""
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
    summary = f"{len(runs)} run{'s' * (len(runs) > 1)}, {done} finished."
    if left:
        at_once = min(execution.at_once, _cores(), len(left))
        longest = max(*left, sum(left) / at_once) if execution.ray is None and len(left) > 1 else sum(left)
        how = "one after another" if execution.ray is not None or at_once == 1 else f"{at_once} in parallel"
        summary += f" The others will take about {_span(longest)}, {how}."
    out.print(summary)


def report_failures(grid: Grid, configs: Sequence[Config]) -> None:
    """Print the failed runs and exit with an error, if there are any."""
    by_key = {run_key(config): config for config in configs}
    for key, error in grid.failed.items():
        notes.print(
            f"Failed: {_description(by_key[key])} ({grid.ledger.folder(key)}): {error}", style="red", soft_wrap=True
        )
    if grid.failed:
        notes.print("Repeat the command to retry these. The others are finished.", soft_wrap=True)
        raise typer.Exit(1)


def _seconds(configs: Sequence[Config], execution: Execution, *, must: bool) -> dict[str, tuple[int, float] | None]:
    """Return steps and seconds of the unfinished runs; None if their data is missing here, unless it `must` exist."""
    estimates: dict[str, tuple[int, float] | None] = {}
    missing: dict[str, str] = {}
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
                estimates[key] = None if name in missing else (estimator.steps(config), estimator.seconds(config))
            except DataError as error:
                if must:
                    raise
                missing[name], estimates[key] = str(error), None
    for reason in missing.values():
        notes.print(f"No estimate: {reason}", soft_wrap=True)
    return estimates


class _Bars:
    """One progress bar for all runs, in estimated seconds, and one for each active run, in steps."""

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
        self._reported = 0
        self._before: set[str] = set()  # runs that were finished at the start are not part of the work

    def __enter__(self) -> "_Bars":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, grid: Grid) -> None:
        ended = {*grid.finished, *grid.failed}
        if self._all is None:
            self._before, self._reported = ended, len(ended)
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
            self._each[key] = self._bar.add_task(
                f"  {_description(self._runs[key])}", total=known[0] if known else None
            )
        for key, task in list(self._each.items()):
            if key in grid.working:
                self._bar.update(task, completed=grid.steps.get(key, 0))
            else:
                self._bar.remove_task(self._each.pop(key))
        if not notes.is_terminal and len(ended) > self._reported:  # a log gets a line now and then instead
            remaining = next(each.time_remaining for each in self._bar.tasks if each.id == self._all)
            left = f", about {_span(remaining)} left" if remaining else ""
            notes.print(f"{len(grid.finished)} of {len(self._runs)} runs finished, {len(grid.failed)} failed{left}")
            self._reported = len(ended)

    def _weight(self, key: str) -> float:
        known = self._seconds.get(key)
        return max(known[1], 1e-3) if known else 1.0

    def _share(self, key: str, step: int) -> float:
        known = self._seconds.get(key)
        return step / known[0] if known and known[0] else 0.0


def _description(config: Config) -> str:
    return f"{config.name}, {config.data['name']}, memory {config.memory.capacity}, seed {config.seed}"


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds))) if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _resources(text: str) -> dict[str, float]:
    try:
        needs = {name.strip(): float(amount) for name, amount in (each.split("=") for each in text.split(","))}
    except ValueError:
        needs = {}
    if not needs or not all(name and 0 <= amount < inf for name, amount in needs.items()) or needs.get("CPU") == 0:
        raise SettingsError(f"--resources {text!r} is not of the form CPU=2,GPU=0.5, with CPU above 0.")
    return needs
