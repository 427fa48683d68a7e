"""Search for settings, by the conventions of the field: on the first tasks only, and never on the test data.

The search keeps no state of its own. Started again, it proposes the same settings in the same order, and the ledger has
the results of those already tried: it resumes where it left off, and its result is that of an uninterrupted search.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tomli_w
from pydantic import Field, PositiveInt, StrictFloat, StrictInt, model_validator

from evenkeel.config.composition import merged, nested
from evenkeel.config.schema import PLACES
from evenkeel.errors import SettingsError, one_of
from evenkeel.experiment.config import Config, load_config
from evenkeel.grids.execution import Execution
from evenkeel.grids.grid_file import GridModel, Name, base_of, read_file
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.run_names import run_key
from evenkeel.grids.schedule import Grid
from evenkeel.results.measures import MEASURES
from evenkeel.results.records import without_none

if TYPE_CHECKING:
    from optuna import Study
    from optuna import Trial as Proposal
    from optuna.distributions import BaseDistribution

FIRST_SEED = 1000  # a search uses other seeds than the runs that are reported


class Range(GridModel):
    """Numbers from low to high; whole numbers if both are."""

    low: StrictInt | StrictFloat
    high: StrictInt | StrictFloat
    log: bool = False

    @model_validator(mode="after")
    def _is_sensible(self) -> "Range":
        if not -inf < self.low < self.high < inf or (self.log and self.low <= 0):
            raise ValueError(f"from {self.low} to {self.high}{' on a log scale' * self.log} is not a valid range")
        return self


class TuneFile(GridModel):
    base: str
    """A config file (next to this one, or anywhere) or a preset"""
    space: Annotated[dict[Name, Range | Annotated[list[Any], Field(min_length=2)]], Field(min_length=1)]
    """By "part.setting": a range, { low = 0.001, high = 0.3, log = true }, or a list of values"""
    set: dict[Name, Any] = Field(default_factory=dict)
    """Settings of all runs, as tables or as "part.setting" """
    tasks: PositiveInt = 2
    """Number of first tasks to learn and test on"""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of their training samples to hold out for testing"""
    measure: str = "acc"
    """The measure to optimize"""
    trials: PositiveInt | Literal["all"] = 20
    """Number of settings to try; all: each combination of lists once"""
    together: PositiveInt = 4
    """Trials proposed at once, and so run in parallel; the result depends on it, but not on the number of workers"""
    seeds: PositiveInt = 1
    """Runs per trial, whose mean counts"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Seed of the search itself"""

    @model_validator(mode="after")
    def _is_sensible(self) -> "TuneFile":
        one_of("measure", self.measure, MEASURES)
        if MEASURES[self.measure].higher_is_better is None:
            raise ValueError(f"measure = {self.measure!r} cannot be optimized: neither higher nor lower is better")
        if self.tasks == 1 and self.measure.startswith(("fm", "bwt", "fwt")):
            raise ValueError(f"measure = {self.measure!r} needs at least two tasks")
        if self.trials == "all" and (ranges := [name for name, each in self.space.items() if isinstance(each, Range)]):
            raise ValueError(f'trials = "all" needs lists of values, but {ranges[0]} is a range')
        if own := [name for name in (*self.space, *self.set) if name in ("limits", "limits.tasks", "limits.held_out")]:
            raise ValueError(f"{own[0]} is set by the search: use tasks and held_out instead")
        return self


@dataclass(frozen=True)
class Tried:
    settings: dict[str, Any]  # by "part.setting"
    configs: list[Config]  # by seed
    value: float | None  # None if a run failed


Trial = tuple[dict[str, Any], list[Config]]  # settings by "part.setting", configs by seed
Values = Callable[[str, Sequence[Trial]], list[Tried]]  # runs trials, with a message for the user


class Search:
    def __init__(self, path: Path) -> None:
        self.file = read_file(path, TuneFile)
        self._base = base_of(self.file.base, path)
        self._require_sound()

    def _require_sound(self) -> None:
        """Check each value, with the others at their first, so that errors are reported before any work is done."""
        first = {name: _ends(each)[0] for name, each in self.file.space.items()}
        errors: dict[str, None] = {}
        for name, each in self.file.space.items():
            for value in _ends(each):
                try:
                    self._config({**first, name: value}, seed=FIRST_SEED)
                except SettingsError as error:
                    errors[f"With {name} = {value!r}: {error}"] = None
        if errors:
            raise SettingsError("\n".join(errors))

    def go(
        self,
        ledger: Ledger,
        execution: Execution,
        do: Callable[[str, Grid], object] = lambda _, grid: grid.finish(),
    ) -> list[Tried]:
        """Run all trials and return them, best first. `do` gets a message and some runs, and has to finish these."""

        def values(what: str, trials: Sequence[Trial]) -> list[Tried]:
            do(what, Grid(ledger, [config for _, configs in trials for config in configs], execution))
            return [Tried(settings, configs, self._value(configs, ledger)) for settings, configs in trials]

        tried = self._combinations(values) if self.file.trials == "all" else self._proposals(self.file.trials, values)
        sign = -1 if MEASURES[self.file.measure].higher_is_better else 1
        return sorted(tried, key=lambda each: (each.value is None, sign * (each.value or 0)))

    def _combinations(self, values: Values) -> list[Tried]:
        """Try each combination of lists."""
        lists = [range(len(_ends(each))) for each in self.file.space.values()]
        trials = [self._trial(dict(zip(self.file.space, chosen, strict=True))) for chosen in product(*lists)]
        return values(f"{len(trials)} trials, each combination once", trials)

    def _proposals(self, trials: int, values: Values) -> list[Tried]:
        """Try what Optuna proposes after the results so far."""
        study, space, tried = self._study(), self._distributions(), list[Tried]()
        while len(tried) < trials:
            number = min(self.file.together, trials - len(tried))
            proposed = [study.ask(space) for _ in range(number)]
            what = f"Trials {len(tried) + 1} to {len(tried) + number} of {trials}"
            for trial, one in zip(proposed, values(what, [self._trial(each.params) for each in proposed]), strict=True):
                _tell(study, trial, one.value)
                tried.append(one)
        return tried

    def best(self, tried: Sequence[Tried]) -> str:
        """Return the config of the best trial, for the whole stream and all the data, as TOML."""
        if not tried or tried[0].value is None:
            raise SettingsError("All trials failed; `evenkeel ledger list` shows why.")
        config = load_config({"extends": self._base, **self._changes(tried[0].settings)})
        return tomli_w.dumps(without_none(config.model_dump(mode="json", exclude={"threads": True, **PLACES})))

    def _trial(self, chosen: dict[str, Any]) -> Trial:
        settings = {}
        for name, each in self.file.space.items():
            settings[name] = each[chosen[name]] if isinstance(each, list) else chosen[name]
        seeds = range(FIRST_SEED, FIRST_SEED + self.file.seeds)
        return settings, [self._config(settings, seed) for seed in seeds]

    def _config(self, settings: dict[str, Any], seed: int) -> Config:
        limits = {"limits": {"tasks": self.file.tasks, "held_out": self.file.held_out}}
        # Only what the search needs is measured.
        others = {"evaluation": {"alignment": 0}, "seed": seed}
        return load_config({"extends": self._base, **merged(self._changes(settings), merged(limits, others))})

    def _changes(self, settings: dict[str, Any]) -> dict[str, Any]:
        return nested((*self.file.set.items(), *settings.items()))

    def _value(self, configs: Sequence[Config], ledger: Ledger) -> float | None:
        keys = [run_key(config) for config in configs]
        if not all(map(ledger.finished, keys)):
            return None
        values = []
        for run in ledger.results(keys):
            value = MEASURES[self.file.measure].of(run)
            if value is None:
                raise SettingsError(
                    f"measure = {self.file.measure!r} is not measured in these runs; check the evaluation "
                    "settings (every for curves, prequential for predictions)."
                )
            values.append(value)
        return fmean(values)

    def _study(self) -> "Study":
        try:
            import optuna
            from optuna.study import StudyDirection
        except ImportError:
            raise SettingsError("evenkeel tune needs Optuna: pip install 'evenkeel[tune]'.") from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        higher = MEASURES[self.file.measure].higher_is_better
        direction = StudyDirection.MAXIMIZE if higher else StudyDirection.MINIMIZE
        return optuna.create_study(direction=direction, sampler=optuna.samplers.TPESampler(seed=self.file.seed))

    def _distributions(self) -> dict[str, "BaseDistribution"]:
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        distributions: dict[str, BaseDistribution] = {}
        for name, each in self.file.space.items():
            if isinstance(each, list):
                distributions[name] = CategoricalDistribution(range(len(each)))  # Optuna takes no lists or tables
            elif isinstance(each.low, int) and isinstance(each.high, int):
                distributions[name] = IntDistribution(each.low, each.high, log=each.log)
            else:
                distributions[name] = FloatDistribution(each.low, each.high, log=each.log)
        return distributions


def _tell(study: "Study", trial: "Proposal", value: float | None) -> None:
    from optuna.trial import TrialState

    if value is None:
        study.tell(trial, state=TrialState.FAIL)
    else:
        study.tell(trial, value)


def _ends(each: Range | list[Any]) -> list[Any]:
    """Return all values of a list, or both ends of a range."""
    return each if isinstance(each, list) else [each.low, each.high]
