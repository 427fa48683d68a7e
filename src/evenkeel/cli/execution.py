"""What commands with many runs share: progress bars, lists of runs, reports of failures."""

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from evenkeel.cli.console import decoding, notes, out, print_table, progress
from evenkeel.errors import DataError, counted
from evenkeel.experiment.config import Config
from evenkeel.grids.budget import Budget, seconds_of
from evenkeel.grids.estimate import Estimator
from evenkeel.grids.execution import cores
from evenkeel.grids.run_names import run_key
from evenkeel.grids.schedule import Grid
from evenkeel.results.labels import flat, labels
from evenkeel.results.table import ResultTable, Row


def do(grid: Grid, budget: str | None = None, bases: Mapping[str, str] | None = None) -> None:
    """Do the runs that are not finished yet, with progress bars; with a budget of time, those that fit into it.

    bases: by run, the one it is compared with, for the budget.
    """
    limit, begun = None if budget is None else seconds_of(budget), time.monotonic()
    seconds = _seconds(grid, must=grid.launcher.here and limit is None)
    if grid.launcher.here:
        _leave_out(grid, [key for key, known in seconds.items() if known is None])
    grid.budget = _budget(grid, limit, seconds, bases)
    if grid.budget is not None:
        grid.budget.since = begun  # to estimate takes time, too
    try:
        with _Bars(grid.runs, seconds) as bars:
            for now in grid.go():
                bars.update(now)
    except KeyboardInterrupt:
        notes.print("Stopped. Repeat the command to resume from the last checkpoints.")
        raise typer.Exit(130) from None
    if grid.left and grid.budget is not None:
        least = _span(min(map(grid.budget.needed, grid.left)))
        began = grid.budget.has_begun
        what_next = "Repeat the command to resume." if began else f"The shortest would take about {least}."
        notes.print(f"{len(grid.left)} of {counted(len(grid.runs), 'run')} did not fit into {budget}. {what_next}")


def list_runs(grid: Grid, budget: str | None = None, bases: Mapping[str, str] | None = None) -> None:
    """List the runs, and estimate how long the unfinished ones will take; with a budget, say which fit into it."""
    limit = None if budget is None else seconds_of(budget)
    start = time.process_time()  # of this process: those of the runs import the same packages, once
    seconds = _seconds(grid, must=False)
    ledger, left, rows = grid.ledger, list[float](), list[Row]()
    missing = [key for key, known in seconds.items() if known is None and grid.launcher.here]
    plan = _budget(grid, limit, seconds, bases)
    order = list(grid.runs)
    if plan is not None:
        order = [*plan.in_order({key: grid.runs[key] for key in order if key not in missing}), *missing]
    todo = [key for key in order if key in seconds and key not in missing]
    fitting = set(todo if plan is None else plan.planned(todo))
    names = dict(zip(grid.runs, _names(grid), strict=True))
    for key in order:
        known, state = seconds.get(key), ledger.state(key)
        if known is not None and key in fitting:
            left.append(known[1] * (1 - ledger.step(key) / max(1, known[0])))
        if key in missing:
            state += ", data missing"
        elif key in seconds and key not in fitting:
            state += ", beyond the budget"
        rows.append(Row.of(names[key], grid.runs[key].seed, state, "-" if known is None else _span(known[1])))
    print_table(ResultTable("", ["run", "seed", "state", "estimate"], rows))
    done = sum(ledger.finished(key) for key in grid.runs)
    summary = f"{counted(len(grid.runs), 'run')}, {done} finished"
    summary += f", {len(missing)} without data." if missing else "."
    if left:
        at_once = min(grid.execution.at_once, cores(), len(left)) if grid.launcher.here else 1
        how = "one after another" if at_once == 1 else f"{at_once} in parallel"
        one, more = (
            ("left", "The others") if plan is None else (f"that fits into {budget}", f"Those that fit into {budget}")
        )
        took = f"will take about {_span(start + max(*left, sum(left) / at_once))}"
        summary += f" {more} {took}, {how}." if len(left) > 1 else f" The only one {one} {took}."
    elif plan is not None and any(seconds.values()):
        summary += f" None of {'the others' if done or missing else 'them'} fits into {budget}."
    out.print(summary)


def report_failures(grid: Grid) -> None:
    """Print the failed runs and exit with an error, if there are any."""
    for key, error in grid.failed.items():
        what = f"{_description(grid.runs[key])} ({grid.ledger.folder(key)})"
        notes.print(f"Failed: {what}: {error}", style="red", soft_wrap=True)
    if grid.failed:
        notes.print("Repeat the command to retry these. The others are finished.", soft_wrap=True)
        raise typer.Exit(1)


def _leave_out(grid: Grid, keys: Sequence[str]) -> None:
    """Leave runs out of the grid whose data is missing, unless that is all of them."""
    for key in keys:
        del grid.runs[key]
    if keys:
        notes.print(f"Left out, as their data is missing: {counted(len(keys), 'run')}.")
    if not grid.runs:
        raise DataError("None of the runs has its data here.")


def _budget(
    grid: Grid,
    limit: float | None,
    seconds: Mapping[str, tuple[int, float] | None],
    bases: Mapping[str, str] | None,
) -> Budget | None:
    """Return a budget by these estimates, in which a run that has none takes no time; None if there is no budget."""
    if limit is None:
        return None
    known = {key: each or (0, 0.0) for key, each in seconds.items()}

    def share(key: str) -> float:
        return 1.0 if grid.ledger.finished(key) else grid.ledger.step(key) / max(1, known[key][0])

    at_once = min(grid.execution.at_once, cores()) if grid.launcher.here else len(grid.runs)
    return Budget(limit, lambda config: known.get(run_key(config), (0, 0.0))[1], share, at_once, bases=bases)


def _seconds(grid: Grid, *, must: bool) -> dict[str, tuple[int, float] | None]:
    """Return steps and seconds of the unfinished runs; None if their data is missing here, unless it `must` exist."""
    estimates: dict[str, tuple[int, float] | None] = {}
    missing: dict[str, str] = {}
    with progress() as bar:
        place = bar.add_task("Reading data", total=None)
        estimator = Estimator(grid.ledger, grid.execution, decoding(bar, place))
        for key, config in grid.runs.items():
            name = str(config.data["name"])
            if grid.ledger.finished(key):
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
            if grid.note:
                notes.print(grid.note, soft_wrap=True)
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


def _names(grid: Grid) -> list[str]:
    """Return what each run is called, with the settings by which it differs from its namesakes."""
    configs = list(grid.runs.values())
    settings = [dict(flat(config.model_dump(mode="json"))) for config in configs]
    return labels([config.name for config in configs], settings)


def _description(config: Config) -> str:
    return f"{config.name}, {config.data['name']}, memory {config.memory.capacity}, seed {config.seed}"


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds))) if seconds < 3600 else f"{seconds / 3600:.1f} h"
