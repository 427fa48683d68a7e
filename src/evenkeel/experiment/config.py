"""The config of a run: the settings of its learner, data, stream and evaluation."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, NonNegativeInt, PlainSerializer

from evenkeel.config.build import title_of
from evenkeel.config.loading import checked, read_tables
from evenkeel.config.own import admit
from evenkeel.config.own_objects import table_of
from evenkeel.config.parts import PartSettings
from evenkeel.config.schema import LearnerConfig, Maybe, Share, StrictModel
from evenkeel.learning.types import Precision


class DataLimits(StrictModel):
    """Limits on the data, for short runs and for tuning. None: all of it."""

    train: Maybe = None
    """Training samples per class"""
    test: Maybe = None
    """Test samples per class"""
    tasks: Maybe = None
    """Number of tasks to run, from the first; all outputs are kept"""
    held_out: Share = None
    """Share of each class's training samples to test on, instead of the test data"""


class Batches(StrictModel):
    size: Annotated[int, Field(gt=0, lt=2**31)] = 32
    """Samples per incoming batch"""
    drop_last: bool = False
    """Drop an incomplete batch at the end of a task, as the CBA authors do"""


class Evaluation(StrictModel):
    every: NonNegativeInt = 5
    """Steps between points of the anytime curve; 0: none"""
    sample: Annotated[Maybe, PlainSerializer(lambda value: value or "none")] = 1000
    """Test samples used for these points; none: all"""
    prequential: bool = True
    """Predict each batch before learning it"""
    alignment: NonNegativeInt = 50
    """Steps between measurements of gradient alignment; 0: none"""
    precision: Precision = "float32"
    """Of the forwards for these points and for tests; bf16 is faster where there are units for it"""


class Config(LearnerConfig):
    """Everything that determines a run."""

    name: str = ""
    """Name in tables and reports; * stands for the one derived from method and adaptor, as does none at all"""
    data: PartSettings = Field(default_factory=lambda: {"name": "digits"})
    limits: DataLimits = DataLimits()
    scenario: PartSettings | None = Field(default_factory=lambda: {"name": "disjoint", "tasks": 5})
    """None only in runs of a user's own stream"""
    batches: Batches = Batches()
    evaluation: Evaluation = Evaluation()


def load_config(source: Config | str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Config:
    """Load a config (a TOML file, a preset, a dict or a config) with `overrides` such as "method.name=derpp" on top.

    All errors are reported in one SettingsError. Parts of your own are named module:Name, and imported here.

    >>> load_config({"method": {"name": "derpp"}}, ["adaptor.name=cba", "adaptor.every=1"]).name
    'DER++ + CBA'
    """
    if isinstance(source, Config):
        if not overrides:
            return source
        source = _unnamed(source)
    tables = read_tables(source, overrides)
    admit(tables)
    return _named(tables)


def recorded_config(tables: Mapping[str, Any]) -> Config:
    """Return the config in a run's records. Nothing that it names is imported: the records may be of others."""
    return _named(tables)


def with_parts(config: Config, parts: Mapping[str, Any]) -> Config:
    """Return a config with parts given as objects in the place of its own: instances, classes or functions."""
    tables = {kind: table_of(kind, part) for kind, part in parts.items() if part is not None}
    if not tables:
        return config
    admit(tables)
    return _named({**_unnamed(config), **tables})


def _unnamed(config: Config) -> dict[str, Any]:
    """Return the tables of a config, with a * for what its name says of its parts: they may be replaced."""
    return {**config.model_dump(mode="json"), "name": config.name.replace(title_of(config), "*")}


def _named(tables: Mapping[str, Any]) -> Config:
    config = checked(tables, Config)
    return config.model_copy(update={"name": (config.name or "*").replace("*", title_of(config))})
