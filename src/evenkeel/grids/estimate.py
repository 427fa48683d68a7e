"""Estimates of how long runs will take."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, median_low
from time import perf_counter

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel.config.build import method_of, with_policy
from evenkeel.data.dataset import Progress
from evenkeel.errors import DeviceError, SettingsError
from evenkeel.experiment.config import Config, recorded_config
from evenkeel.experiment.machine import machine_kind
from evenkeel.experiment.setup import Setup, new_learner, planned
from evenkeel.grids.execution import Execution
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.run_names import run_key
from evenkeel.learning.devices import AUTO, find_device
from evenkeel.learning.nets import Net
from evenkeel.learning.texts import packed
from evenkeel.results.run_files import sessions_of, started_of

Setting = tuple[str, int]  # what runs have in common that take equally long: all but the seed, and the threads of torch
COMPARABLE = {"net", "data", "batches"}  # parts of a config in which runs agree whose times are compared


@dataclass(frozen=True)
class Extent:
    """The amount of work in a run."""

    steps: int
    groups: float  # batches that go forward and backward in a step
    forwards: float  # batches that only go forward, in the whole run
    batch: tuple[int, ...]  # the shape of a batch
    start: float  # seconds to read the data, which every run does


class Estimator:
    """An estimator of the seconds of a run, by the finished runs of a ledger on this kind of machine.

    A run with the same settings and threads takes as long as the median of those, of two the faster, as a busy machine
    only adds time; with more threads it takes at most as long. For other settings a few batches are timed, and what
    follows from them, which leaves out herding, teachers and a busy machine, is multiplied by the median ratio of real
    to computed seconds over the finished settings with the same net, data and batches. An estimate is also a check: a
    config that does not fit its data, or data that is missing, raises the same error here as in the run.
    """

    def __init__(self, ledger: Ledger, execution: Execution, progress: Progress = lambda *_: None) -> None:
        self._root = None if execution.data is None else Path(execution.data)
        self._threads, self._device, self._progress = execution.threads, execution.device, progress
        self._extents: dict[Setting, Extent] = {}
        self._latest: tuple[str, Setup, float] | None = None  # the next setting is often on the same data
        self._costs: dict[str, tuple[float, float]] = {}
        self._ratios: dict[str, float] = {}
        self._finished: dict[Setting, Config] = {}
        self._took: dict[Setting, list[float]] = {}  # seconds without reading data
        for entry in ledger.entries():
            place = ledger.place(entry.key)
            with suppress(SettingsError):  # a run of another version, or on the user's own data
                config = recorded_config(started_of(place).config)
                sessions = sessions_of(place)  # none if its usage was lost
                if {each.machine for each in sessions} == {self._machine(config)}:
                    self._finished[self._setting(config)] = config
                    self._took.setdefault(self._setting(config), []).append(sum(each.seconds for each in sessions))

    def steps(self, config: Config) -> int:
        return self._extent(config).steps

    def seconds(self, config: Config) -> float:
        extent, setting = self._extent(config), self._setting(config)
        if setting in self._took:
            return extent.start + median_low(self._took[setting])
        (runs, threads) = setting
        fewer = [median_low(took) for (same, less), took in self._took.items() if same == runs and less < threads]
        return extent.start + min([self._computed(config) * self._ratio(config), *fewer])

    def _computed(self, config: Config) -> float:
        extent = self._extent(config)
        both, forward = self._costs[_net(config, extent.batch)]
        return extent.steps * extent.groups * both + extent.forwards * forward

    def _ratio(self, config: Config) -> float:
        """Return the real seconds for each computed one; 1 if no finished run is comparable."""
        same = config.model_dump_json(include=COMPARABLE)
        if same not in self._ratios:
            others = {
                key: each for key, each in self._finished.items() if each.model_dump_json(include=COMPARABLE) == same
            }
            ratios = [median_low(self._took[key]) / self._computed(each) for key, each in others.items()]
            self._ratios[same] = median(ratios) if ratios else 1.0
        return self._ratios[same]

    def _extent(self, config: Config) -> Extent:
        """Return the amount of work, which is the same for all seeds."""
        setting = self._setting(config)
        if setting not in self._extents:
            setup, start = self._setup(config)
            learner = new_learner(replace(setup, config=setup.config.model_copy(update={"device": self._on(config)})))
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

    def _setting(self, config: Config) -> Setting:
        return run_key(config.model_copy(update={"seed": 0})), config.threads or self._threads

    def _machine(self, config: Config) -> str:
        return machine_kind(find_device(self._on(config)))

    def _on(self, config: Config) -> str:
        """Return where to measure: where the run will compute, if this machine has that."""
        try:
            return str(find_device(self._device or config.device))
        except DeviceError:
            return AUTO

    def _setup(self, config: Config) -> tuple[Setup, float]:
        """Return the set-up of a run and the seconds to read its data, which are less once it is decoded."""
        passes = method_of(config).mixed_passes
        same = f"{config.model_dump_json(include={'data', 'limits', 'scenario', 'batches'})} {passes}"
        if self._latest is None or self._latest[0] != same:
            decoding = list[str]()
            setup, start = self._timed(config, decoding)
            if decoding:
                setup, start = self._timed(config, decoding)
            self._latest = same, setup, start
        _, setup, start = self._latest
        return replace(setup, config=with_policy(config)), start

    def _timed(self, config: Config, decoding: list[str]) -> tuple[Setup, float]:
        """Return the set-up and the seconds it took, and append to `decoding` what had to be decoded."""

        def progress(what: str, done: int, total: int) -> None:
            decoding.append(what)
            self._progress(what, done, total)

        begun = perf_counter()
        return planned(config, None, self._root, progress), perf_counter() - begun


def _net(config: Config, batch: tuple[int, ...]) -> str:
    """Return everything that the time of a batch depends on."""
    return json.dumps([config.net, batch, config.threads], sort_keys=True)


def _time(net: Net, shape: tuple[int, ...], threads: int) -> tuple[float, float]:
    """Return the seconds of a batch forward and backward, and forward only."""
    device = next(net.parameters()).device
    texts = torch.from_numpy(packed(["a text of some length"] * shape[0]))
    x = (texts if len(shape) == 1 else torch.rand(shape)).to(device)
    y = torch.zeros(shape[0], dtype=torch.long, device=device)

    def logits() -> Tensor:
        out: Tensor = net(x if net.encoder is None else net.encoder(x))  # more than replayed samples need
        return out

    def both() -> None:
        loss = F.cross_entropy(logits(), y)
        loss.backward()
        loss.item()  # waits for a device that computes on its own

    def forward() -> None:
        with torch.no_grad():
            logits().sum().item()

    before, costs = torch.get_num_threads(), list[tuple[float, float]]()
    try:
        for number in {1, threads}:  # several threads wait for each other on a busy machine, many times as long
            torch.set_num_threads(number)
            costs.append((_fastest(both), _fastest(forward)))
    finally:
        torch.set_num_threads(before)
    fastest_both, fastest_forward = (min(times) for times in zip(*costs, strict=True))
    return fastest_both, fastest_forward


def _fastest(call: Callable[[], None]) -> float:
    """Return the seconds of the fastest of three calls; the first is a warm-up."""
    times = []
    for _ in range(3):
        begin = perf_counter()
        call()
        times.append(perf_counter() - begin)
    return min(times)
