"""The settings of a learner, each with its default and description. `loading` reads them from TOML."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FieldSerializationInfo,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SerializerFunctionWrapHandler,
    StrictStr,
    ValidationInfo,
    create_model,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)
from torch.optim import Optimizer

from evenkeel.config.parts import (
    LENIENT,
    OR_NONE,
    ConfigError,
    Kind,
    PartSettings,
    complete_list,
    complete_whole,
    prototype,
    signature_fields,
    written,
)
from evenkeel.config.written import without_later_defaults
from evenkeel.data.scenarios import SCENARIOS, made_of_domains
from evenkeel.data.sources import SOURCES
from evenkeel.data.unclean import UNCLEAN
from evenkeel.errors import SettingsError, one_of
from evenkeel.learning.adaptors import ADAPTORS
from evenkeel.learning.augment import AUGMENTS
from evenkeel.learning.compatibility import require_settings
from evenkeel.learning.devices import AUTO, require_name
from evenkeel.learning.learner import PARTS as PARTS_OF_LEARNER
from evenkeel.learning.learner import Learner
from evenkeel.learning.memory import DEVICES, Memory
from evenkeel.learning.methods import METHODS, Method
from evenkeel.learning.optimizers import LR, OPTIMIZERS
from evenkeel.learning.policies import POLICIES
from evenkeel.learning.pretrained import MODELS
from evenkeel.learning.registry import named_arguments
from evenkeel.learning.zoo import NETS

Maybe = Annotated[PositiveInt | None, OR_NONE]
Share = Annotated[Annotated[float, Field(gt=0, lt=1)] | None, OR_NONE]
Device = Annotated[str, AfterValidator(require_name)]
Threads = Annotated[Annotated[int, Field(gt=0, le=1024)] | None, OR_NONE]
PLACES: dict[str, Any] = {"device": True, "memory": {"device": True}}
"""Settings of where a learner computes and keeps samples, to exclude: part of no run key, group or service folder."""


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
    policy: Annotated[str | None, OR_NONE] = None
    """Reservoir, or balanced: equal shares per class. none: the method's default"""
    device: str = DEVICES[0]
    """Where samples are kept: auto, with the network, or cpu; part of no run key and no service folder"""

    @model_validator(mode="after")
    def _check_values(self) -> "MemorySettings":
        Memory(self.capacity, policy=self.policy or POLICIES[0], device=self.device)
        return self


class OptimizerSettings(StrictModel):
    name: Annotated[
        str, Field(description=f"One of {', '.join(OPTIMIZERS)}; CBA and a learned prior unroll it: only SGD can be")
    ] = "SGD"
    lr: PositiveFloat = LR
    """Learning rate (constant)"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Of an optimizer that has it, such as SGD"""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Applied to all weights"""

    @model_validator(mode="after")
    def _check_values(self) -> "OptimizerSettings":
        one_of("name", self.name, OPTIMIZERS)
        if self.momentum and not self._has_momentum:
            raise ValueError(f"{self.name} has no momentum; leave it out.")
        return self

    @property
    def _has_momentum(self) -> bool:
        return "momentum" in named_arguments(OPTIMIZERS[self.name])

    def make(self, parameters: Any) -> Optimizer:
        """Create the optimizer over the parameters of a network."""
        leave_out = {"name"} if self._has_momentum else {"name", "momentum"}
        return OPTIMIZERS[self.name](parameters, **self.model_dump(exclude=leave_out))


class Normalize(StrictModel):
    """(x - mean) / std, per channel."""

    mean: list[float]
    std: list[PositiveFloat]


class LearnerTable(StrictModel):
    head: Literal["fixed", "growing"] = "fixed"
    """Fixed: outputs for all classes from the start. Growing: added as classes arrive"""
    normalize: Annotated[Normalize | None, OR_NONE] = None
    """{ mean = [...], std = [...] }, one number per channel"""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return a setting of the signature of `Learner`."""

    def arguments(self) -> dict[str, Any]:
        """Return the settings as arguments of `Learner`."""
        moments = None if self.normalize is None else (self.normalize.mean, self.normalize.std)
        return {**{name: getattr(self, name) for name in OF_SIGNATURE}, "normalize": moments}


OF_SIGNATURE = signature_fields(Learner, withheld=(*PARTS_OF_LEARNER, "seed"))  # the seed is the whole config's

if TYPE_CHECKING:
    LearnerSettings = LearnerTable
else:
    LearnerSettings = create_model("LearnerSettings", __base__=LearnerTable, **OF_SIGNATURE)


Noise = Annotated[float, Field(ge=0, lt=1)]
Imbalance = Annotated[Annotated[float, Field(ge=1)] | None, OR_NONE]


def _stream_settings(scenario: Callable[..., Any]) -> dict[str, Any]:
    """Return the fields that the stream adds to a scenario.

    All have noise and imbalance. One made of classes has the number of tasks, or the classes of each, and the order.
    """
    unclean = {"noise": (Noise, UNCLEAN["noise"]), "imbalance": (Imbalance, UNCLEAN["imbalance"])}
    if made_of_domains(scenario):
        return unclean
    return {"tasks": (int | list[list[int | str]], ...), "order": (str | list[int | str], "given"), **unclean}


SUPPLIED = ("classes", "channels", "features", "sample", "seed")  # what a net is told of data and seed, if it asks
ENCODER = Kind(MODELS, withheld=SUPPLIED)  # of a net
PARTS: dict[str, Kind] = {
    "data": Kind(SOURCES, withheld=("root", "progress")),
    "scenario": Kind(SCENARIOS, withheld=("labels", "seed"), added=_stream_settings),
    "net": Kind(NETS, withheld=SUPPLIED, inner={"encoder": ENCODER}),
    "encoder": ENCODER,
    "method": Kind(METHODS, buildable=True),
    "adaptor": Kind(ADAPTORS, buildable=True, optional=True),
    "augment": Kind(AUGMENTS, buildable=True, optional=True, several=True),
}


class LearnerConfig(StrictModel):
    """Everything that determines a learner. Tables with a name are parts, with the settings of the class named."""

    seed: NonNegativeInt = 0
    """Seed of everything random: network, stream, augmentation, memory draws"""
    threads: Threads = None
    """Number of torch threads; it affects the last bits of results. none: torch's choice"""
    device: Device = AUTO
    """auto (an accelerator if there is one), cpu, cuda, cuda:1, mps; part of no run key and no service folder"""
    net: PartSettings = {"name": "convnet"}
    method: PartSettings = {"name": "er"}
    adaptor: PartSettings | None = None
    memory: MemorySettings = MemorySettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    augment: PartSettings | list[PartSettings] | None = None
    learner: LearnerSettings = LearnerSettings()

    @field_validator(*PARTS, mode="before", check_fields=False)
    @classmethod
    def _complete(cls, given: object, info: ValidationInfo) -> PartSettings | list[PartSettings] | None:
        where = str(info.field_name)
        kind = PARTS[where]
        if kind.optional and (not given or (isinstance(given, Mapping) and given.get("name") == "none")):
            return None
        if kind.several and isinstance(given, list):
            return complete_list(where, given, kind)
        return complete_whole(where, given, kind)

    @field_serializer(*PARTS, check_fields=False)
    def _written(
        self, table: PartSettings | list[PartSettings] | None, info: FieldSerializationInfo
    ) -> PartSettings | list[PartSettings] | None:
        name, kind = info.field_name, PARTS[info.field_name]
        if isinstance(table, list):
            return [written(name, each, kind) for each in table]
        return None if table is None else written(name, table, kind)

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        method: Method = prototype(self.method, METHODS)
        if self.adaptor and method.no_adaptor:
            raise ConfigError(
                f"adaptor.name = {self.adaptor['name']!r} cannot be combined with method.name = "
                f'{self.method["name"]!r}: {method.no_adaptor}. Leave the adaptor out: adaptor.name = "none".'
            )
        try:
            require_settings(method, seed=self.seed, **self.learner.arguments())
        except SettingsError as error:
            raise ConfigError(f"learner: {error}") from None
        return self
