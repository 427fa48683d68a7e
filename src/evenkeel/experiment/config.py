"""The config of a run: every setting, its default and what it is. `loading` makes one of TOML."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PlainSerializer,
    PositiveFloat,
    PositiveInt,
    SerializerFunctionWrapHandler,
    StrictStr,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from evenkeel.adaptor import ADAPTORS
from evenkeel.data.augment import AUGMENTS
from evenkeel.data.scenarios import SCENARIOS
from evenkeel.data.sources import SOURCES
from evenkeel.experiment.parts import LENIENT, FaultError, Kind, Table, complete, make
from evenkeel.memory import POLICIES, Memory
from evenkeel.methods import METHODS, Method
from evenkeel.zoo import NETS

_or_none = BeforeValidator(lambda given: None if given == "none" else given)
Maybe = Annotated[PositiveInt | None, _or_none]
Share = Annotated[Annotated[float, Field(gt=0, lt=1)] | None, _or_none]
Threads = Annotated[Annotated[int, Field(gt=0, le=1024)] | None, _or_none]


class Strict(BaseModel):
    model_config: ClassVar[ConfigDict] = {
        **LENIENT,
        "extra": "forbid",
        "frozen": True,
        "validate_default": True,
        "use_attribute_docstrings": True,  # the text below a field explains it in `evenkeel list`
    }


class Limits(Strict):
    """Less of the data, for short runs and for the choice of settings. None for all."""

    train: Maybe = None
    """Training samples of each class"""
    test: Maybe = None
    """Test samples of each class"""
    tasks: Maybe = None
    """Only the first tasks of the stream; outputs are as many as without"""
    held_out: Share = None
    """Share of each class's training samples to be tested on instead of the test data"""

    @model_serializer(mode="wrap")
    def _as_ever(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the younger settings where they are not used: records of older runs lack them, and are compared."""
        return {name: value for name, value in dump(self).items() if name in ("train", "test") or value is not None}


class Batches(Strict):
    size: Annotated[int, Field(gt=0, lt=2**31)] = 32
    """Samples of an incoming batch"""
    drop_last: bool = False
    """What is too short for a whole batch at the end of a task; the CBA authors drop it"""


class MemorySettings(Strict):
    capacity: PositiveInt | StrictStr = 500
    """Samples, or bytes, as in "8MB", of everything stored"""
    policy: Annotated[str | None, _or_none] = None
    """Reservoir, or balanced: equal shares by class. none: what the method has by default"""

    @model_validator(mode="after")
    def _is_sensible(self) -> "MemorySettings":
        Memory(self.capacity, policy=self.policy or POLICIES[0])
        return self


class OptimizerSettings(Strict):
    name: Literal["SGD", "Adam", "AdamW"] = "SGD"
    """SGD, Adam or AdamW; CBA needs SGD"""
    lr: PositiveFloat = 0.03
    """Learning rate, constant"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Of SGD alone"""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Of all weights"""

    @model_validator(mode="after")
    def _is_sensible(self) -> "OptimizerSettings":
        if self.momentum and self.name != "SGD":
            raise ValueError(f"{self.name} has no momentum; leave it away.")
        return self


class Normalize(Strict):
    """(x - mean) / std, by channel."""

    mean: list[float]
    std: list[PositiveFloat]


class LearnerSettings(Strict):
    replay: PositiveInt = 32
    """Samples of a memory draw"""
    head: Literal["fixed", "growing"] = "fixed"
    """Outputs for all classes from the start, or as they come"""
    statistics: Literal["all", "replay"] = "all"
    """Whose batches move batch norm's running statistics"""
    normalize: Annotated[Normalize | None, _or_none] = None
    """{ mean = [...], std = [...] } of each channel"""


class Evaluation(Strict):
    every: NonNegativeInt = 5
    """Steps between points of the anytime curve; 0: none"""
    sample: Annotated[Maybe, PlainSerializer(lambda value: value or "none")] = 1000
    """How much of the test data, for these points; none: all of it"""
    prequential: bool = True
    """Predict each batch before it is learned"""
    alignment: NonNegativeInt = 50
    """Steps between measurements of gradient alignment; 0: none"""


def _class_settings(scenario: Callable[..., Any]) -> dict[str, Any]:
    """Scenarios made of classes take a number of tasks or the classes of each, and the order of classes."""
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


class LearnerConfig(Strict):
    """What makes a learner. Tables with a name are parts; their settings are those of the class named."""

    seed: NonNegativeInt = 0
    """Of everything random: net, stream, views, draws"""
    threads: Threads = None
    """Of torch; results depend on it in the last bits. none: as many as torch likes"""
    net: Table = {"name": "convnet"}
    method: Table = {"name": "er"}
    adaptor: Table | None = None
    memory: MemorySettings = MemorySettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    augment: Table | None = None
    learner: LearnerSettings = LearnerSettings()

    @field_validator(*PARTS, mode="before", check_fields=False)
    @classmethod
    def _complete(cls, given: object, info: ValidationInfo) -> Table | None:
        where = str(info.field_name)
        kind = PARTS[where]
        if kind.optional and (not given or (isinstance(given, Mapping) and given.get("name") == "none")):
            return None
        return complete(where, given, kind)

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        method: Method = make(self.method, METHODS)
        if self.adaptor and method.no_adaptor:
            raise FaultError(
                f"adaptor.name = {self.adaptor['name']!r} cannot be combined with method.name = "
                f"{self.method['name']!r}: {method.no_adaptor}."
            )
        return self


class Config(LearnerConfig):
    """Everything that determines a run."""

    name: str = ""
    """In tables and reports; made of method and adaptor if empty"""
    data: Table = {"name": "digits"}
    limits: Limits = Limits()
    scenario: Table | None = {"name": "disjoint", "tasks": 5}
    """None only where a stream of the user's own is run"""
    batches: Batches = Batches()
    evaluation: Evaluation = Evaluation()
