"""The settings of a learner, each with its default and description. `loading` reads them from TOML."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FieldSerializationInfo,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SerializerFunctionWrapHandler,
    StrictStr,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from evenkeel.config.parts import LENIENT, ConfigError, Kind, PartSettings, complete, make, written
from evenkeel.config.written import without_later_defaults
from evenkeel.data.scenarios import SCENARIOS
from evenkeel.data.sources import SOURCES
from evenkeel.learning.adaptors.cba import ADAPTORS
from evenkeel.learning.augment import AUGMENTS
from evenkeel.learning.memory import POLICIES, Memory
from evenkeel.learning.methods import METHODS, Method
from evenkeel.learning.zoo import NETS

_or_none = BeforeValidator(lambda given: None if given == "none" else given)
Maybe = Annotated[PositiveInt | None, _or_none]
Share = Annotated[Annotated[float, Field(gt=0, lt=1)] | None, _or_none]
Threads = Annotated[Annotated[int, Field(gt=0, le=1024)] | None, _or_none]


class StrictModel(BaseModel):
    model_config: ClassVar[ConfigDict] = {
        **LENIENT,
        "extra": "forbid",
        "frozen": True,
        "validate_default": True,
        "use_attribute_docstrings": True,  # the docstring of a field is its description in `evenkeel list`
    }

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit settings added after version 0.1 that have their default, so that old and new records compare equal."""
        fields = type(self).model_fields.items()
        at_default = [
            name for name, field in fields if getattr(self, name) == field.get_default(call_default_factory=True)
        ]
        content: dict[str, Any] = dump(self)
        defaults = {name: content[name] for name in at_default if name in content}
        return without_later_defaults("tables", type(self).__name__, content, defaults)


class MemorySettings(StrictModel):
    capacity: PositiveInt | StrictStr = 500
    """Number of samples, or a size such as "8MB" for everything stored"""
    policy: Annotated[str | None, _or_none] = None
    """Reservoir, or balanced: equal shares per class. none: the method's default"""

    @model_validator(mode="after")
    def _check_values(self) -> "MemorySettings":
        Memory(self.capacity, policy=self.policy or POLICIES[0])
        return self


class OptimizerSettings(StrictModel):
    name: Literal["SGD", "Adam", "AdamW"] = "SGD"
    """SGD, Adam or AdamW; CBA needs SGD"""
    lr: PositiveFloat = 0.03
    """Learning rate (constant)"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """For SGD only"""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Applied to all weights"""

    @model_validator(mode="after")
    def _check_values(self) -> "OptimizerSettings":
        if self.momentum and self.name != "SGD":
            raise ValueError(f"{self.name} has no momentum; leave it out.")
        return self


class Normalize(StrictModel):
    """(x - mean) / std, per channel."""

    mean: list[float]
    std: list[PositiveFloat]


class LearnerSettings(StrictModel):
    replay: PositiveInt = 32
    """Samples per draw from memory"""
    repeats: PositiveInt = 1
    """Updates per incoming batch, each with new views and draws; 10 is Repeated Augmented Rehearsal (RAR)"""
    head: Literal["fixed", "growing"] = "fixed"
    """Fixed: outputs for all classes from the start. Growing: added as classes arrive"""
    statistics: Literal["all", "replay"] = "all"
    """Batches that update batch norm's running statistics: all, or only replayed ones"""
    normalize: Annotated[Normalize | None, _or_none] = None
    """{ mean = [...], std = [...] }, one number per channel"""


def _class_settings(scenario: Callable[..., Any]) -> dict[str, Any]:
    """Return the fields of a scenario made of classes: the number of tasks, or the classes of each, and the order."""
    if get_type_hints(scenario)["tasks"] is int:
        return {}
    return {"tasks": (int | list[list[int | str]], ...), "order": (str | list[int | str], "given")}


PARTS: dict[str, Kind] = {
    "data": Kind(SOURCES, withheld=("root", "progress")),
    "scenario": Kind(SCENARIOS, withheld=("labels", "seed"), added=_class_settings),
    "net": Kind(NETS, withheld=("classes", "channels", "features", "seed")),
    "method": Kind(METHODS, buildable=True),
    "adaptor": Kind(ADAPTORS, buildable=True, optional=True),
    "augment": Kind(AUGMENTS, buildable=True, optional=True),
}


class LearnerConfig(StrictModel):
    """Everything that determines a learner. Tables with a name are parts, with the settings of the class named."""

    seed: NonNegativeInt = 0
    """Seed of everything random: network, stream, augmentation, memory draws"""
    threads: Threads = None
    """Number of torch threads; it affects the last bits of results. none: torch's choice"""
    net: PartSettings = {"name": "convnet"}
    method: PartSettings = {"name": "er"}
    adaptor: PartSettings | None = None
    memory: MemorySettings = MemorySettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    augment: PartSettings | None = None
    learner: LearnerSettings = LearnerSettings()

    @field_validator(*PARTS, mode="before", check_fields=False)
    @classmethod
    def _complete(cls, given: object, info: ValidationInfo) -> PartSettings | None:
        where = str(info.field_name)
        kind = PARTS[where]
        if kind.optional and (not given or (isinstance(given, Mapping) and given.get("name") == "none")):
            return None
        return complete(where, given, kind)

    @field_serializer(*PARTS, check_fields=False)
    def _written(self, table: PartSettings | None, info: FieldSerializationInfo) -> PartSettings | None:
        return None if table is None else written(info.field_name, table, PARTS[info.field_name])

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        method: Method = make(self.method, METHODS)
        if self.adaptor and method.no_adaptor:
            raise ConfigError(
                f"adaptor.name = {self.adaptor['name']!r} cannot be combined with method.name = "
                f"{self.method['name']!r}: {method.no_adaptor}."
            )
        return self
