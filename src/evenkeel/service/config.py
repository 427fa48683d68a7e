"""The config of a service: what the learner is made of, what its samples look like, what a client may send."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, StrictInt, StrictStr, model_validator

from evenkeel.config.build import make_adaptor, make_method
from evenkeel.config.loading import checked, read_tables
from evenkeel.config.parts import ConfigError, PartSettings
from evenkeel.config.schema import LearnerConfig, StrictModel, Threads
from evenkeel.learning.adaptors.cba import CBA
from evenkeel.learning.methods import METHODS

Label = StrictStr | StrictInt


class Input(StrictModel):
    """Vectors of so many features, or images of this size."""

    features: PositiveInt | None = None
    """Numbers of a vector; none for images"""
    size: Annotated[list[PositiveInt], Field(min_length=2, max_length=2)] | None = None
    """[height, width] of the images that the network sees; what is sent is resized to it"""
    channels: Annotated[int, Field(ge=1, le=3)] = 3
    """3 for colour, 1 for gray"""

    @model_validator(mode="after")
    def _is_one_of_them(self) -> "Input":
        if (self.features is None) == (self.size is None):
            raise ConfigError("input needs either features (vectors) or size = [height, width] (images).")
        if self.channels == 2:
            raise ConfigError("input.channels = 2: an image has 3 channels, or 1.")
        return self

    @property
    def sample(self) -> tuple[int, ...]:
        """The shape of one."""
        return (self.channels, *(self.size or ())) if self.features is None else (self.features,)


class BatchSettings(StrictModel):
    size: Annotated[int, Field(gt=0, le=4096)] = 32
    """Examples learned at once"""
    wait: Annotated[float, Field(ge=0, le=3600)] = 1.0
    """Seconds that examples wait for a batch to be full; then it is learned as it is"""


class Checkpoints(StrictModel):
    batches: PositiveInt = 500
    """Batches between checkpoints, at most"""
    seconds: PositiveFloat = 30.0
    """Seconds between checkpoints, at most, while something is learned"""
    keep: PositiveInt = 5
    """Versions kept to go back to: so many of those made by themselves, and as many of those asked for"""


class ServiceLimits(StrictModel):
    queue: PositiveInt = 10_000
    """Examples accepted but not learned yet; beyond it a client is told to come later"""
    examples: PositiveInt = 1_000
    """Examples of one request"""
    body: PositiveInt = 8_000_000
    """Bytes of one request"""
    pixels: PositiveInt = 25_000_000
    """Pixels of all images of one request, before they are resized"""
    magnitude: PositiveFloat = 1e6
    """The largest number of a vector; what is far beyond the others would spoil what is learned after it"""
    label: PositiveInt = 200
    """Characters of a label, and of an id"""
    classes: PositiveInt = 1_000
    """Different labels"""
    predictions: NonNegativeInt = 50_000
    """Predictions kept to be labelled later"""
    ids: PositiveInt = 1_000_000
    """Ids of learned examples kept to know a request that is sent again"""
    seconds: PositiveFloat = 30.0
    """Seconds a client may take to send a request"""


class ServiceConfig(LearnerConfig):
    """Everything that determines a service."""

    threads: Threads = 1
    adaptor: PartSettings | None = Field(default_factory=lambda: {"name": "cba"})
    input: Input
    classes: Annotated[list[Label], Field(min_length=1)] | None = None
    """All labels there will ever be; none: they come as they come"""
    batches: BatchSettings = BatchSettings()
    checkpoints: Checkpoints = Checkpoints()
    limits: ServiceLimits = ServiceLimits()

    @model_validator(mode="before")
    @classmethod
    def _net_for_input(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or not isinstance(given.get("input"), Mapping):
            return given
        named = {"name": "mlp" if "features" in given["input"] else "convnet"}
        net = given.get("net", {})
        return {**given, "net": {**named, **net} if isinstance(net, Mapping) else net}

    @model_validator(mode="after")
    def _suits_a_service(self) -> "ServiceConfig":
        method, adaptor = make_method(self), make_adaptor(self)
        if method.needs_boundaries or method.bound or method.mixed_passes:
            free = ", ".join(name for name, made in METHODS.items() if not (made.needs_boundaries or made.bound))
            raise ConfigError(
                f"method.name = {self.method['name']!r} needs to be told when a task ended, or keeps no memory; a "
                f"service has neither tasks nor reason to forget. Choose one of {free}."
            )
        if isinstance(adaptor, CBA) and adaptor.start == "second-task":
            raise ConfigError("adaptor.start = 'second-task': a service has no tasks. Give it another start.")
        if self.classes is not None and len(self.classes) > self.limits.classes:
            raise ConfigError(f"classes has {len(self.classes)} labels, but limits.classes is {self.limits.classes}.")
        return self

    def determining(self) -> dict[str, Any]:
        """What makes the learner what it is, and so may not change while it lives."""
        return self.model_dump(mode="json", exclude={"batches", "checkpoints", "limits"})


def load_service(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> ServiceConfig:
    """The config of a TOML file or a dict, with overrides such as "limits.queue=100" on top.

    >>> load_service({"input": {"features": 4}}).net["name"]
    'mlp'
    """
    return checked(read_tables(source, overrides), ServiceConfig)
