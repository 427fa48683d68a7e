"""Estimates of how long runs will take."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.nn import functional as F

from evenkeel.config.build import method_of, with_policy
from evenkeel.data.dataset import Progress
from evenkeel.errors import SettingsError
from evenkeel.experiment.config import Config, load_config
from evenkeel.experiment.setup import Setup, new_learner, planned
from evenkeel.grids.execution import Execution
from evenkeel.grids.ledger import Ledger, run_key
from evenkeel.learning.nets import Net
from evenkeel.results.run_files import sessions_of, started_of


@dataclass(frozen=True)
class Extent:
    """The amount of work in a run."""

    steps: int
    groups: float  # batches that go forward and backward in a step
    forwards: float  # batches that only go forward, in the whole run
    batch: tuple[int, ...]  # the shape of a batch
    start: float  # seconds to read the data, which every run does


class Estimator:
    """An estimator of the seconds of a run, from a run with the same settings in the ledger or a few timed batches.

    Herding and teachers are not counted, so take it as a rough guide. An estimate is also a check: a config that
    does not fit its data, or data that is missing, raises the same error here as in the run.
    """

    def __init__(self, ledger: Ledger, execution: Execution, progress: Progress = lambda *_: None) -> None:
        self._root = None if execution.data is None else Path(execution.data)
        self._threads, self._progress = execution.threads, progress
        self._extents: dict[str, Extent] = {}
        self._latest: tuple[str, Setup, float] | None = None  # the next setting is often on the same data
        self._costs: dict[str, tuple[float, float]] = {}
        self._known: dict[str, float] = {}
        for entry in ledger.entries():
            place = ledger.place(entry.key)
            with suppress(SettingsError):  # a run of another version, or on the user's own data
                setting = _setting(load_config(started_of(place).config))
                self._known[setting] = sum(session.seconds for session in sessions_of(place))

    def steps(self, config: Config) -> int:
        return self._extent(config).steps

    def seconds(self, config: Config) -> float:
        setting = _setting(config)
        if setting not in self._known:
            extent = self._extent(config)
            both, forward = self._costs[_net(config, extent.batch)]
            self._known[setting] = extent.steps * extent.groups * both + extent.forwards * forward
        return self._extent(config).start + self._known[setting]

    def _extent(self, config: Config) -> Extent:
        """Return the amount of work, which is the same for all seeds."""
        setting = _setting(config)
        if setting not in self._extents:
            setup, start = self._setup(config)
            learner = new_learner(setup)
            shape = (config.batches.size, *setup.sample)
            if _net(config, shape) not in self._costs:
                self._costs[_net(config, shape)] = _time(learner.net, shape, config.threads or self._threads)
            steps, test_set = setup.stream.steps or 0, 0 if setup.test_set is None else len(setup.test_set.y)
            every, method = config.evaluation.every, learner.method
            points = steps // every * min(test_set, config.evaluation.sample or test_set) if every else 0
            outer_every = (config.adaptor or {}).get("every")
            outer = steps * learner.repeats / outer_every if outer_every else 0.0
            self._extents[setting] = Extent(
                steps=steps,
                groups=learner.repeats * (1 + method.draws),
                forwards=((1 + len(setup.tasks)) * test_set + points) / config.batches.size + outer,
                batch=shape,
                start=start,
            )
        return self._extents[setting]

    def _setup(self, config: Config) -> tuple[Setup, float]:
        """Return the set-up of a run and the seconds to read its data, once it is decoded."""
        passes = method_of(config).mixed_passes
        same = f"{config.model_dump_json(include={'data', 'limits', 'scenario', 'batches'})} {passes}"
        if self._latest is None or self._latest[0] != same:
            planned(config, None, self._root, self._progress)  # the first time, it may have to be decoded
            begun = time.perf_counter()
            self._latest = same, planned(config, None, self._root, self._progress), time.perf_counter() - begun
        _, setup, start = self._latest
        return replace(setup, config=with_policy(config)), start


def _setting(config: Config) -> str:
    return run_key(config.model_copy(update={"seed": 0}))


def _net(config: Config, batch: tuple[int, ...]) -> str:
    """Return everything that the time of a batch depends on."""
    return json.dumps([config.net, batch, config.threads], sort_keys=True)


def _time(net: Net, shape: tuple[int, ...], threads: int) -> tuple[float, float]:
    """Return the seconds of a batch forward and backward, and forward only."""
    x, y = torch.rand(shape), torch.zeros(shape[0], dtype=torch.long)

    def both() -> None:
        F.cross_entropy(net(x), y).backward()

    def forward() -> None:
        with torch.no_grad():
            net(x)

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return _fastest(both), _fastest(forward)
    finally:
        torch.set_num_threads(before)


def _fastest(call: Callable[[], None]) -> float:
    """Return the seconds of the fastest of three calls; the first is a warm-up."""
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)
