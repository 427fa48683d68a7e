"""The config of a run: TOML, overrides and presets in, one complete and checked description out."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from evenkeel.adaptor import ADAPTORS
from evenkeel.data.augment import AUGMENTS
from evenkeel.data.scenarios import SCENARIOS
from evenkeel.data.sources import SOURCES
from evenkeel.errors import SettingsError, nearest
from evenkeel.experiment.parts import FaultError, Kind, Table, complete, sentence
from evenkeel.memory import Memory
from evenkeel.methods import METHODS
from evenkeel.zoo import NETS

PRESETS = files("evenkeel") / "presets"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class Limits(_Strict):
    """Fewer samples of each class, for short runs. None for all."""

    train: PositiveInt | None = None
    test: PositiveInt | None = None


class Batches(_Strict):
    size: PositiveInt = 32
    drop_last: bool = False  # what is too short for a whole batch at the end of a task; the CBA authors drop it


class MemorySettings(_Strict):
    capacity: PositiveInt | str = 500  # samples, or bytes as in "8MB"
    policy: str = "reservoir"

    @model_validator(mode="after")
    def _is_sensible(self) -> "MemorySettings":
        Memory(self.capacity, policy=self.policy)
        return self


class OptimizerSettings(_Strict):
    name: Literal["SGD", "Adam", "AdamW"] = "SGD"
    lr: PositiveFloat = 0.03
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0  # of SGD
    weight_decay: Annotated[float, Field(ge=0)] = 0.0

    @model_validator(mode="after")
    def _is_sensible(self) -> "OptimizerSettings":
        if self.momentum and self.name != "SGD":
            raise ValueError(f"{self.name} has no momentum; leave it away.")
        return self


class Normalize(_Strict):
    """(x - mean) / std, by channel."""

    mean: list[float]
    std: list[PositiveFloat]


class LearnerSettings(_Strict):
    replay: PositiveInt = 32  # samples of a memory draw
    head: Literal["fixed", "growing"] = "fixed"  # outputs for all classes from the start, or as they come
    statistics: Literal["all", "replay"] = "all"  # whose batches move batch norm's running statistics
    normalize: Normalize | None = None


class Evaluation(_Strict):
    every: NonNegativeInt = 5  # steps between points of the anytime curve; 0: none
    sample: PositiveInt | None = 1000  # of the test data, for these points; None: all of it
    prequential: bool = True  # predict each batch before it is learned
    alignment: NonNegativeInt = 50  # steps between measurements of gradient alignment; 0: none


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


class Config(_Strict):
    """Everything that determines a run. Tables with a name are parts; their settings are those of the class named."""

    name: str = ""  # in tables and reports; made of method and adaptor if empty
    seed: NonNegativeInt = 0
    threads: PositiveInt | None = None  # of torch; results depend on it in the last bits. None: as many as torch likes
    data: Table = {"name": "digits"}
    limits: Limits = Limits()
    scenario: Table = {"name": "disjoint", "tasks": 5}
    batches: Batches = Batches()
    net: Table = {"name": "convnet"}
    method: Table = {"name": "er"}
    adaptor: Table | None = None
    memory: MemorySettings = MemorySettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    augment: Table | None = None
    learner: LearnerSettings = LearnerSettings()
    evaluation: Evaluation = Evaluation()

    @field_validator(*PARTS, mode="before")
    @classmethod
    def _complete(cls, given: object, info: ValidationInfo) -> Table | None:
        where = str(info.field_name)
        kind = PARTS[where]
        if kind.optional and (given is None or (isinstance(given, Mapping) and given.get("name", "none") == "none")):
            return None
        return complete(where, given, kind)


def _title(method: Table, adaptor: Table | None) -> str:
    def title(table: Table) -> str:
        inner = [title(value) for value in table.values() if isinstance(value, dict)]
        return METHODS[table["name"]].__name__ + (f"({inner[0]})" if inner else "")

    return title(method) + (f" + {ADAPTORS[adaptor['name']].__name__}" if adaptor else "")


def load_config(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Config:
    """The config of a TOML file, a preset or a dict, with `overrides` such as "method.name=derpp" on top.

    All faults come in one SettingsError.

    >>> load_config({"method": {"name": "derpp"}}, ["adaptor.name=cba", "adaptor.every=1"]).name
    'DERpp + CBA'
    """
    given = dict(source) if isinstance(source, Mapping) else _read(source)
    for override in overrides:
        given = _merged(given, _parsed(override))
    try:
        config = Config.model_validate(given)
        return config if config.name else config.model_copy(update={"name": _title(config.method, config.adaptor)})
    except ValidationError as error:
        faults = [line for fault in error.errors() for line in _sentences(fault)]
    title = "The config has a fault:" if len(faults) == 1 else f"The config has {len(faults)} faults:"
    raise SettingsError("\n".join([title, *(f"- {fault}" for fault in faults)]))


def presets() -> dict[str, str]:
    """Names of the packaged configs, each with the comment it begins with."""
    root = Path(str(PRESETS))
    found = {path.relative_to(root).with_suffix("").as_posix(): path for path in sorted(root.rglob("*.toml"))}
    return {name: path.read_text().splitlines()[0].removeprefix("# ") for name, path in found.items()}


def _read(source: str | Path) -> dict[str, Any]:
    """A TOML file or preset, on top of the one it `extends`."""
    path = Path(source)
    if not path.is_file():
        path = Path(str(PRESETS)) / f"{source}.toml"
    if not path.is_file():
        raise SettingsError(
            f"There is no config file {str(source)!r}, and no preset of that name; `evenkeel list` shows the presets."
            f"{nearest(source, presets())}"
        )
    try:
        given = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{str(path)!r} is not a TOML file: {error}.") from None
    base = given.pop("extends", None)
    if base is None:
        return given
    beside = path.parent / f"{base}.toml"
    if beside.resolve() == path.resolve():
        raise SettingsError(f"{str(path)!r} extends itself.")
    return _merged(_read(beside if beside.is_file() else base), given)


def _parsed(override: str) -> dict[str, Any]:
    """ "a.b=1" as {"a": {"b": 1}}. Values are TOML; what is none is text."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise SettingsError(f"--set {override!r} is not of the form part.setting=value, such as method.name=derpp.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    for name in reversed(key.strip().split(".")):
        value = {name: value}
    return dict(value)


def _merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`change` on top of `base`. A table with another name is another part: the settings of the old one go."""
    result = dict(base)
    for key, value in change.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            other = "name" in value and value["name"] != old.get("name")
            result[key] = dict(value) if other else _merged(old, value)
        else:
            result[key] = value
    return result


def _sentences(fault: Any) -> list[str]:
    error = fault.get("ctx", {}).get("error")
    if isinstance(error, FaultError):
        return str(error).splitlines()
    if error is not None:
        return [f"{'.'.join(map(str, fault['loc']))}: {error}"]
    if fault["type"] == "extra_forbidden":
        *above, name = map(str, fault["loc"])
        model: Any = Config
        for step in above:
            model = model.model_fields[step].annotation
        allowed = model.model_fields
        return [f"{'.'.join([*above, name])} is unknown; there are {', '.join(allowed)}.{nearest(name, allowed)}"]
    return [sentence("", fault)]
