"""A run: a learner works through its stream and is tested along the way, which yields records.

`run_folder` resumes a run that was interrupted; `loop` has its steps.
"""

import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evenkeel import __version__
from evenkeel.config.build import method_of
from evenkeel.config.own import naming_the_line, versions_of
from evenkeel.config.schema import PLACES
from evenkeel.data.dataset import DataSet, Progress
from evenkeel.errors import SettingsError
from evenkeel.experiment.config import Config, load_config, with_parts
from evenkeel.experiment.loop import Loop
from evenkeel.experiment.machine import machine_kind
from evenkeel.experiment.run_folder import RunFolder
from evenkeel.experiment.setup import Setup, new_learner, opened, planned
from evenkeel.learning.adaptors import Adaptor
from evenkeel.learning.augment import Augment
from evenkeel.learning.learner import Learner
from evenkeel.learning.methods import Method
from evenkeel.learning.nets import Net
from evenkeel.results.measures import summarise
from evenkeel.results.records import LIBRARIES, Ended, Record, Session, Started
from evenkeel.results.run_files import Results


def run(
    config: Config | Mapping[str, Any] | str | Path,
    *,
    out: str | os.PathLike[str] | None = None,
    net: Net | Callable[..., Net] | str | None = None,
    method: Method | type[Method] | str | None = None,
    adaptor: Adaptor | type[Adaptor] | str | None = None,
    augment: Augment | Sequence[Augment] | str | None = None,
    data: DataSet | None = None,
    stream: Iterable[Sequence[Any]] | None = None,
    test: Sequence[Any] | None = None,
    root: str | os.PathLike[str] | None = None,
    save_every: float = 30.0,
    progress: Progress = lambda *_: None,
) -> Iterator[Record]:
    """Run a config (a file, a preset or a dict) and yield its records, from the first to the last.

    out: a folder that keeps the records. If the run is interrupted and called again with the same arguments, it resumes
    where it left off: the records already there come first, and all equal those of an uninterrupted run. net, method,
    adaptor, augment: parts of your own instead of the config's, as objects, classes or names. data: your own
    `DataSet` instead of the config's. stream: your own batches, (x, labels) or (x, labels, task), instead of data and
    scenario. test: the samples to test your own stream on, (x, labels) or (x, labels, task). root: the folder where
    data sets are looked for first. save_every: seconds between checkpoints in `out`. progress: called while data is
    being decoded.
    """
    config = with_parts(load_config(config), {"net": net, "method": method, "adaptor": adaptor, "augment": augment})
    if stream is not None and data is not None:
        raise SettingsError("Give data or a stream, not both.")
    if stream is None and test is not None:
        raise SettingsError("test belongs to a stream; a data set has test samples of its own.")
    with naming_the_line(config):
        if stream is not None:
            setup = opened(config, stream, test)
        else:
            setup = planned(config, data, None if root is None else Path(root), progress)
        learner = new_learner(setup)  # reports incompatible settings before any work
    return _run(setup, learner, _started(setup, learner), None if out is None else Path(out), save_every)


def _run(setup: Setup, learner: Learner, started: Started, out: Path | None, save_every: float) -> Iterator[Record]:
    begun = saved = time.monotonic()
    folder = None if out is None else RunFolder(out)
    try:
        records, resumed, stream = folder.resume(started, setup.config.device) if folder else ([], None, None)
        yield from records
        if records and isinstance(records[-1], Ended):
            return
        first = records[0] if records else started
        assert isinstance(first, Started)
        loop = Loop(setup, resumed or learner)
        session = _Session(loop, begun)
        for new in _with_threads(first.threads, _steps(setup, loop, None if records else first, stream)):
            records += new
            if folder:
                folder.append(new)
                if time.monotonic() - saved >= save_every:
                    folder.save(loop.learner, session.now(), setup.stream.so_far)
                    saved = time.monotonic()
            yield from new
        if folder:
            folder.save(loop.learner, session.now(), setup.stream.so_far)
        ended = Ended(loop.learner.step, summarise(Results.of(records)), setup.stream.so_far)
        if folder:
            folder.append([ended])
        yield ended
    finally:
        if folder:
            folder.close()


def _steps(setup: Setup, loop: Loop, started: Started | None, stream: str | None) -> Iterator[list[Record]]:
    with naming_the_line(setup.config):
        yield from loop.steps(started, stream)


def _started(setup: Setup, learner: Learner) -> Started:
    config = setup.config
    return Started(
        config=config.model_dump(mode="json", exclude=PLACES),  # which are below
        versions={**_versions(), **versions_of(config)},
        threads=config.threads or torch.get_num_threads(),
        data=setup.data,
        tasks=list(setup.tasks),
        steps=setup.stream.steps,
        stream=setup.digest,
        boundaries=setup.boundaries,
        device=str(learner.device),
        memory_device=config.memory.device,
        bound=method_of(config).bound,
    )


def _versions() -> dict[str, str]:
    # Of evenkeel, not that of the installation, which may be older.
    versions = (__version__, platform.python_version(), torch.__version__, np.__version__)
    return dict(zip(LIBRARIES, versions, strict=True))


class _Session:
    """This process's part of a run, with the time and memory it used."""

    def __init__(self, loop: Loop, begun: float) -> None:
        self._loop, self._begun = loop, begun
        self._started = datetime.now(UTC).isoformat()
        self._from_step = loop.learner.step

    def now(self) -> Session:
        return Session(
            command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            started=self._started,
            from_step=self._from_step,
            step=self._loop.learner.step,
            seconds=round(time.monotonic() - self._begun, 3),
            evaluating=round(self._loop.evaluating, 3),
            peak_bytes=_peak_bytes(),
            learning_cpu=round(self._loop.learning_cpu, 3),
            machine=machine_kind(self._loop.learner.device),
        )


def _peak_bytes() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _with_threads(number: int, steps: Iterator[list[Record]]) -> Iterator[list[Record]]:
    """Run each step with this number of torch threads; the caller, who reads the records in between, keeps its own."""
    while True:
        before = torch.get_num_threads()
        torch.set_num_threads(number)
        try:
            records = next(steps, None)
        finally:
            torch.set_num_threads(before)
        if records is None:
            return
        yield records
