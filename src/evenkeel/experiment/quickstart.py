"""A learner on a data set in a few lines: load data, stream it, test the learner. `run` does it with records."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from evenkeel.config.build import make_learner
from evenkeel.config.parts import ConfigError, complete
from evenkeel.config.schema import PARTS
from evenkeel.data.dataset import DataSet, Progress, Split
from evenkeel.data.readers.parquet import find_shards
from evenkeel.data.readers.places import existing
from evenkeel.data.sources import SOURCES
from evenkeel.data.stream import Batch
from evenkeel.errors import DataError, InputError, SettingsError, nearest, some
from evenkeel.experiment.config import Config, load_config
from evenkeel.experiment.setup import check_data, planned, read_data
from evenkeel.experiment.testset import TestSet
from evenkeel.learning.learner import Learner


def load_data(
    name_or_path: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    progress: Progress = lambda *_: None,
    **settings: Any,
) -> DataSet:
    """Return a data set by name ("digits", "cifar10", ...), or your own from a path.

    A path is a .csv, .jsonl, .parquet or .npz file, a folder with train* and test* files of the first three kinds, or
    a folder with one folder of images per class. root: the folder to search first. settings: as in the table `data` of
    a config. progress: called while images are being decoded. For what is not in files: `DataSet.of`.

    >>> data = load_data("digits", test_share=0.5)
    >>> data.train.x.shape, data.test.labels[:3]
    ((898, 1, 8, 8), ['6', '5', '9'])
    """
    where = None if root is None else Path(root)
    name = os.fspath(name_or_path)
    table = {"name": name} if name in SOURCES else {"name": _source_of(name, where), "path": name}
    try:
        return read_data(complete("data", {**table, **settings}, PARTS["data"]), where, progress)
    except ConfigError as error:
        raise SettingsError(str(error)) from None


def _source_of(path: str, root: Path | None) -> str:
    """Return the name of the source that reads a path of the user's."""
    try:
        place = existing(path, root)
    except DataError as error:
        known = f"one of {', '.join(SOURCES)}.{nearest(path, SOURCES)}"
        raise DataError(f"{path!r} is neither a path nor the name of a data set, {known} {error}") from None
    if place.is_file():
        return OF_SUFFIX.get(place.suffix.lower(), "npz")
    for suffix in (".csv", ".tsv", ".jsonl", ".ndjson"):
        if any(place.glob(f"train*{suffix}")):
            return OF_SUFFIX[suffix]
    return "parquet" if any(map(find_shards, (place, *place.glob("*/")))) else "folder"


OF_SUFFIX = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class DataStream:
    """The training samples of a data set in the order of a scenario. Iterate for (x, labels), as often as you like."""

    def __init__(self, data: DataSet, scenario: dict[str, Any], batches: dict[str, Any], seed: int) -> None:
        config = load_config({"scenario": scenario, "batches": batches, "seed": seed})
        self._setup = planned(config, data, None, lambda *_: None)
        assert self._setup.test_set is not None
        self.test: TestSet = self._setup.test_set
        """The test samples by task, for `accuracy`."""

    def __iter__(self) -> Iterator[tuple[Tensor, list[str]]]:
        for batch in self.batches():
            yield batch.x, list(map(str, batch.labels))

    def __len__(self) -> int:
        """Return the number of batches."""
        return self._setup.stream.steps or 0

    def batches(self) -> Iterator[Batch]:
        """Yield the batches with what a run knows of each: x, labels, task, place in it, whether it ends the task."""
        return self._setup.stream.batches()

    @property
    def tasks(self) -> list[list[str]]:
        """Return the classes of each task, by name."""
        return [[str(self.test.classes[place]) for place in classes] for classes in self.test.tasks]

    @property
    def boundaries(self) -> bool:
        """Return whether a run of this scenario calls `learner.boundary()` where a task ends."""
        return self._setup.boundaries


def stream(
    data: DataSet,
    scenario: str = "disjoint",
    *,
    tasks: int | Sequence[Sequence[int | str]] = 5,
    batch: int = 32,
    drop_last: bool = False,
    seed: int = 0,
    **settings: Any,
) -> DataStream:
    """Return the batches that `evenkeel run` learns from with this scenario and seed, bit for bit.

    tasks: a number, or the classes of each task. batch: samples per batch. drop_last: drop an incomplete batch at the
    end of a task. settings: the others of the scenario, such as percent=10 of "blurry", and noise=0.2 (the share of
    wrong labels) or imbalance=20 (from the most frequent class to the rarest), which all scenarios have.

    >>> for x, y in stream(load_data("digits"), tasks=5, batch=10):
    ...     print(x.shape, x.dtype, y[:3])
    ...     break
    torch.Size([10, 1, 8, 8]) torch.uint8 ['1', '1', '0']
    """
    table = {"name": scenario, "tasks": tasks, **settings}
    return DataStream(data, table, {"size": batch, "drop_last": drop_last}, seed)


def learner_for(data: DataSet, config: Config | str | Path | Mapping[str, Any], *, seed: int | None = None) -> Learner:
    """Return the learner that `evenkeel run` would train on this data: net, method, adaptor and memory of a config.

    config: a preset such as "digits-cba", a TOML file, a dict or a `Config`. seed: instead of the config's. If the
    config sets `threads`, so does this, for all of torch: results are then those of the run, bit for bit.

    >>> learner = learner_for(load_data("digits"), "digits-cba", seed=1)
    >>> type(learner.method).__name__, learner.adaptor.lr, learner.memory.slots, len(learner.classes)
    ('ER', 0.003, 20, 10)
    """
    check_data(data)
    loaded = load_config(config, [] if seed is None else [f"seed={seed}"])
    if loaded.threads:
        torch.set_num_threads(loaded.threads)
    return make_learner(loaded, data.train.sample, data.classes if loaded.learner.head == "fixed" else None)


def accuracy(learner: Learner, test: Split | TestSet | tuple[object, object]) -> float:
    """Return the percentage of test samples that are predicted correctly.

    test: `data.test`, your own (x, labels), or the `test` of a stream, which gives the mean over its tasks: the ACC of
    a run. The two are equal where all tasks have equally many test samples.
    """
    if not isinstance(test, TestSet):
        test = TestSet.of(*((test.x, test.labels) if isinstance(test, Split) else _pair(test)))
    if learner.classes and not set(learner.classes) & set(test.classes):
        raise InputError(
            f"The learner knows none of the labels of the test data: it knows {some(learner.classes, 3)}, and "
            f"these are {some(test.classes, 3)}."
        )
    return fmean(test.accuracy(test.scores(learner).cpu()))


def _pair(test: object) -> tuple[object, object]:
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise InputError(f"test is a {type(test).__name__}; give data.test, the test of a stream, or (x, labels).")
    return test[0], test[1]
