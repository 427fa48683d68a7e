"""The config of a run: a learner's settings, its data, stream and evaluation."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, NonNegativeInt, PlainSerializer

from evenkeel.config.build import title_of
from evenkeel.config.loading import checked, read_tables
from evenkeel.config.parts import PartSettings
from evenkeel.config.schema import LearnerConfig, Maybe, Share, StrictModel


class DataLimits(StrictModel):
    """Less of the data, for short runs and for the choice of settings. None for all."""

    train: Maybe = None
    """Training samples of each class"""
    test: Maybe = None
    """Test samples of each class"""
    tasks: Maybe = None
    """Only the first tasks of the stream; outputs are as many as without"""
    held_out: Share = None
    """Share of each class's training samples to be tested on instead of the test data"""


class Batches(StrictModel):
    size: Annotated[int, Field(gt=0, lt=2**31)] = 32
    """Samples of an incoming batch"""
    drop_last: bool = False
    """What is too short for a whole batch at the end of a task; the CBA authors drop it"""


class Evaluation(StrictModel):
    every: NonNegativeInt = 5
    """Steps between points of the anytime curve; 0: none"""
    sample: Annotated[Maybe, PlainSerializer(lambda value: value or "none")] = 1000
    """How much of the test data, for these points; none: all of it"""
    prequential: bool = True
    """Predict each batch before it is learned"""
    alignment: NonNegativeInt = 50
    """Steps between measurements of gradient alignment; 0: none"""


class Config(LearnerConfig):
    """Everything that determines a run."""

    name: str = ""
    """In tables and reports; made of method and adaptor if empty"""
    data: PartSettings = Field(default_factory=lambda: {"name": "digits"})
    limits: DataLimits = DataLimits()
    scenario: PartSettings | None = Field(default_factory=lambda: {"name": "disjoint", "tasks": 5})
    """None only where a stream of the user's own is run"""
    batches: Batches = Batches()
    evaluation: Evaluation = Evaluation()


def load_config(source: Config | str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Config:
    """The config of a TOML file, a preset, a dict or a config, with `overrides` such as "method.name=derpp" on top.

    All faults come in one SettingsError.

    >>> load_config({"method": {"name": "derpp"}}, ["adaptor.name=cba", "adaptor.every=1"]).name
    'DER++ + CBA'
    """
    if isinstance(source, Config):
        if not overrides:
            return source
        source = source.model_dump(mode="json", exclude={"name"})
    config = checked(read_tables(source, overrides), Config)
    return config if config.name else config.model_copy(update={"name": title_of(config.method, config.adaptor)})
