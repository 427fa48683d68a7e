"""The config of a service: the parts of the learner, the shape of its samples, and what a client may send."""

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, StrictInt, StrictStr, model_validator

from evenkeel.config.build import adaptor_of, method_of, task_free
from evenkeel.config.composition import merged
from evenkeel.config.loading import checked, read_tables
from evenkeel.config.own import admit
from evenkeel.config.parts import ConfigError, PartSettings
from evenkeel.config.schema import PLACES, LearnerConfig, StrictModel, Threads
from evenkeel.errors import InputError, nearest, some
from evenkeel.learning.methods import METHODS
from evenkeel.learning.texts import TEXT_BYTES, packed

Label = StrictStr | StrictInt
Kind = Literal["vector", "image", "text"]


class Input(StrictModel):
    """The kind of a sample: a vector of this many features, an image of this size, or a text."""

    features: PositiveInt | None = None
    """Length of a vector; none for images and texts"""
    size: Annotated[list[PositiveInt], Field(min_length=2, max_length=2)] | None = None
    """[height, width] of the images the network sees; other sizes are resized to it"""
    channels: Annotated[int, Field(ge=1, le=3)] = 3
    """3 for colour, 1 for gray"""
    text: bool = False
    """Samples are texts, which net.encoder turns into vectors"""

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> "Input":
        if sum([self.features is not None, self.size is not None, self.text]) != 1:
            raise ConfigError(
                "input needs one of features (vectors), size = [height, width] (images) and text = true (texts)."
            )
        if self.channels == 2:
            raise ConfigError("input.channels = 2: an image has 3 channels or 1.")
        return self

    @property
    def kind(self) -> Kind:
        """Return what a sample is."""
        return "text" if self.text else "vector" if self.size is None else "image"

    @property
    def sample(self) -> tuple[int, ...]:
        """Return the shape of one sample; () of a text."""
        if self.text:
            return ()
        return (self.channels, *(self.size or ())) if self.features is None else (self.features,)

    @property
    def bytes(self) -> int:
        """Return how many bytes a sample has, at most."""
        return TEXT_BYTES if self.text else prod(self.sample) * (4 if self.size is None else 1)

    @property
    def example(self) -> NDArray[Any]:
        """Return one sample as the learner takes it."""
        if self.text:
            return packed(["text"])
        return np.zeros((1, *self.sample), dtype=np.float32 if self.size is None else np.uint8)


class BatchSettings(StrictModel):
    """How examples are grouped into batches."""

    size: Annotated[int, Field(gt=0, le=4096)] = 32
    """Examples per batch"""
    wait: Annotated[float, Field(ge=0, le=3600)] = 1.0
    """Seconds to wait for a batch to fill up before it is learned as it is"""


class Checkpoints(StrictModel):
    """How often checkpoints are written, and how many are kept."""

    batches: PositiveInt = 500
    """Batches between checkpoints, at most"""
    seconds: PositiveFloat = 30.0
    """Seconds between checkpoints, at most, while learning"""
    keep: PositiveInt = 5
    """Versions kept to roll back to: this many automatic ones, and as many requested ones"""
    keep_bytes: PositiveInt | None = None
    """Bytes of these versions; the oldest automatic ones go first, the two newest stay in any case"""
    keep_hours: PositiveFloat | None = None
    """Hours for which these versions are kept, requested or not; the two newest stay in any case"""


class ServiceLimits(StrictModel):
    """What a client may send, and how much is kept."""

    queue: PositiveInt = 10_000
    """Examples accepted but not learned yet; beyond that, clients are told to retry later"""
    queue_bytes: PositiveInt = 1_000_000_000
    """Bytes of the samples of these examples"""
    queue_hours: PositiveFloat | None = None
    """Hours that the oldest of them may have waited; beyond that, no more are accepted until it is learned"""
    examples: PositiveInt = 1_000
    """Examples per request"""
    body: PositiveInt = 8_000_000
    """Bytes per request"""
    pixels: PositiveInt = 25_000_000
    """Pixels of all images in a request, before they are resized"""
    image_pixels: PositiveInt | None = None
    """Pixels of one image; none: 256 for each pixel of input.size, at least 4,000,000"""
    magnitude: PositiveFloat = 1e6
    """Largest absolute value in a vector; an extreme outlier would spoil whatever is learned after it"""
    label: PositiveInt = 200
    """Characters in a label or an id"""
    classes: PositiveInt = 1_000
    """Different labels"""
    predictions: NonNegativeInt = 50_000
    """Predictions kept to be labelled later"""
    prediction_bytes: NonNegativeInt = 1_000_000_000
    """Bytes of the samples of these predictions"""
    prediction_hours: PositiveFloat | None = None
    """Hours for which these predictions are kept"""
    ids: PositiveInt = 1_000_000
    """Ids of learned examples kept to recognize a repeated request"""
    seconds: PositiveFloat = 30.0
    """Seconds a client may take to send a request"""
    rate: PositiveFloat | None = None
    """Requests per second and key, and as many at once; none: any number"""
    connections: PositiveInt = 500
    """Connections per address; beyond that, the one that has waited longest for its client is closed"""

    def most_image_pixels(self, input: Input) -> int:
        """Return how many pixels one image may have."""
        height, width = input.size or (0, 0)
        return min(self.pixels, self.image_pixels or max(4_000_000, 256 * height * width))


class ServiceConfig(LearnerConfig):
    """All settings of a service."""

    threads: Threads = 1
    adaptor: PartSettings | None = Field(default_factory=lambda: {"name": "cba"})
    input: Input
    classes: Annotated[list[Label], Field(min_length=1)] | None = None
    """All labels there will ever be; none: labels are added as they arrive"""
    batches: BatchSettings = BatchSettings()
    checkpoints: Checkpoints = Checkpoints()
    limits: ServiceLimits = ServiceLimits()

    @model_validator(mode="before")
    @classmethod
    def _net_for_input(cls, tables: Any) -> Any:
        if not isinstance(tables, Mapping) or not isinstance(tables.get("input"), Mapping):
            return tables
        default = {"name": "convnet" if "size" in tables["input"] else "mlp"}
        net = tables.get("net", {})
        return {**tables, "net": {**default, **net} if isinstance(net, Mapping) else net}

    @model_validator(mode="before")
    @classmethod
    def _adaptor_for_method(cls, tables: Any) -> Any:
        """Have no adaptor by default with a method that cannot have one."""
        method = tables.get("method") if isinstance(tables, Mapping) else None
        known = METHODS.get(str(method.get("name"))) if isinstance(method, Mapping) else None
        return {"adaptor": None, **tables} if known is not None and known.no_adaptor else tables

    @model_validator(mode="after")
    def _suits_a_service(self) -> "ServiceConfig":
        method, adaptor = method_of(self), adaptor_of(self)
        if method.needs_boundaries or method.bound or method.mixed_passes:
            raise ConfigError(
                f"method.name = {self.method['name']!r} needs task boundaries or keeps no memory; a service has no "
                f"tasks and no reason to forget. Choose one of {task_free()}."
            )
        if adaptor is not None and adaptor.needs_boundaries:
            raise ConfigError(
                f"{adaptor!r} needs task boundaries; a service has no tasks. Choose other settings for it."
            )
        if self.classes is not None and len(self.classes) > self.limits.classes:
            raise ConfigError(f"classes has {len(self.classes)} labels, but limits.classes is {self.limits.classes}.")
        return self

    def require_labels(self, labels: Iterable[Hashable], known: Set[Hashable]) -> None:
        """Raise InputError if these labels cannot be learned in addition to the known ones."""
        new = {*labels} - known
        if self.classes is not None and (others := new.difference(self.classes)):
            label = next(iter(others))
            raise InputError(f"The label {label!r} is not one of {some(self.classes)}.{nearest(label, self.classes)}")
        if any(isinstance(label, str) and len(label) > self.limits.label for label in new):
            raise InputError(f"A label has at most {self.limits.label:,} characters.")
        if len(known | new) > self.limits.classes:
            raise InputError(
                f"With these there would be {len(known | new):,} different labels; the limit is "
                f"{self.limits.classes:,}."
            )

    @property
    def most_waiting(self) -> int:
        """Return how many examples may wait: by their number, and by the bytes of their samples."""
        return max(1, min(self.limits.queue, self.limits.queue_bytes // self.input.bytes))

    def determining(self) -> dict[str, Any]:
        """Return the settings that define the learner, and so must not change during its lifetime."""
        operation = {"batches": True, "checkpoints": True, "limits": True}
        return self.model_dump(mode="json", exclude={**operation, **PLACES})


def load_service(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    *,
    trusted: bool = True,
    unsaid: Mapping[str, Any] | None = None,
) -> ServiceConfig:
    """Return the config of a TOML file or a dict, with overrides such as "limits.queue=100" on top.

    trusted: whether parts that `source` names as module:Name are imported; those of the overrides always are.
    unsaid: tables of the learner for a config that names neither a method nor an adaptor.

    >>> load_service({"input": {"features": 4}}).net["name"]
    'mlp'
    """
    tables = read_tables(source, overrides)
    admit(tables if trusted else read_tables({}, overrides))
    if unsaid and not any(_names_a_part(tables.get(key, {})) for key in ("method", "adaptor")):
        tables = merged(unsaid, tables)
    return checked(tables, ServiceConfig)


def _names_a_part(table: object) -> bool:
    """Return whether a table is more than settings of the part that is there by default."""
    return not isinstance(table, Mapping) or "name" in table
