"""The config of a run: TOML, overrides and presets in, one complete and checked description out."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PlainSerializer,
    PositiveFloat,
    PositiveInt,
    StrictStr,
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
from evenkeel.experiment.parts import LENIENT, FaultError, Kind, Table, complete, first_of_each, sentence
from evenkeel.memory import Memory
from evenkeel.methods import METHODS
from evenkeel.zoo import NETS

PRESETS = files("evenkeel") / "presets"


_or_none = BeforeValidator(lambda given: None if given == "none" else given)
Maybe = Annotated[PositiveInt | None, _or_none]
Threads = Annotated[Annotated[int, Field(gt=0, le=1024)] | None, _or_none]


class _Strict(BaseModel):
    model_config: ClassVar[ConfigDict] = {
        **LENIENT,
        "extra": "forbid",
        "frozen": True,
        "validate_default": True,
        "use_attribute_docstrings": True,  # the text below a field explains it in `evenkeel list`
    }


class Limits(_Strict):
    """Fewer samples of each class, for short runs. None for all."""

    train: Maybe = None
    """Training samples of each class"""
    test: Maybe = None
    """Test samples of each class"""


class Batches(_Strict):
    size: Annotated[int, Field(gt=0, lt=2**31)] = 32
    """Samples of an incoming batch"""
    drop_last: bool = False
    """What is too short for a whole batch at the end of a task; the CBA authors drop it"""


class MemorySettings(_Strict):
    capacity: PositiveInt | StrictStr = 500
    """Samples, or bytes, as in "8MB", of everything stored"""
    policy: str = "reservoir"
    """Reservoir, or balanced: equal shares by class"""

    @model_validator(mode="after")
    def _is_sensible(self) -> "MemorySettings":
        Memory(self.capacity, policy=self.policy)
        return self


class OptimizerSettings(_Strict):
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


class Normalize(_Strict):
    """(x - mean) / std, by channel."""

    mean: list[float]
    std: list[PositiveFloat]


class LearnerSettings(_Strict):
    replay: PositiveInt = 32
    """Samples of a memory draw"""
    head: Literal["fixed", "growing"] = "fixed"
    """Outputs for all classes from the start, or as they come"""
    statistics: Literal["all", "replay"] = "all"
    """Whose batches move batch norm's running statistics"""
    normalize: Annotated[Normalize | None, _or_none] = None
    """{ mean = [...], std = [...] } of each channel"""


class Evaluation(_Strict):
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


class Config(_Strict):
    """Everything that determines a run. Tables with a name are parts; their settings are those of the class named."""

    name: str = ""
    """In tables and reports; made of method and adaptor if empty"""
    seed: NonNegativeInt = 0
    """Of everything random: net, stream, views, draws"""
    threads: Threads = None
    """Of torch; results depend on it in the last bits. none: as many as torch likes"""
    data: Table = {"name": "digits"}
    limits: Limits = Limits()
    scenario: Table | None = {"name": "disjoint", "tasks": 5}
    """None only where a stream of the user's own is run"""
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
        if kind.optional and (not given or (isinstance(given, Mapping) and given.get("name") == "none")):
            return None
        return complete(where, given, kind)


def _title(method: Table, adaptor: Table | None) -> str:
    def title(table: Table) -> str:
        inner = [title(value) for value in table.values() if isinstance(value, dict)]
        method = METHODS[table["name"]]
        return (method.title or method.__name__) + (f"({inner[0]})" if inner else "")

    return title(method) + (f" + {ADAPTORS[adaptor['name']].__name__}" if adaptor else "")


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
    given = _extended(source, Path(), []) if isinstance(source, Mapping) else _read(source, [])
    change: dict[str, Any] = {}
    for override in overrides:
        change = _merged(change, _parsed(override), other_part=False)
    given = _merged(given, change)
    try:
        config = Config.model_validate(given)
        return config if config.name else config.model_copy(update={"name": _title(config.method, config.adaptor)})
    except ValidationError as error:
        faults = list(dict.fromkeys(line for fault in first_of_each(error) for line in _sentences(fault)))
    title = "The config has a fault:" if len(faults) == 1 else f"The config has {len(faults)} faults:"
    raise SettingsError("\n".join([title, *(f"- {fault}" for fault in faults)]))


def presets() -> dict[str, str]:
    """Names of the packaged configs, each with the comment it begins with."""
    root, found = Path(str(PRESETS)), {}
    for path in sorted(root.rglob("*.toml")):
        first, _, _ = path.read_text(encoding="utf-8").partition("\n")
        found[path.relative_to(root).with_suffix("").as_posix()] = first.removeprefix("# ")
    return found


def _read(source: str | Path, above: list[Path]) -> dict[str, Any]:
    """A TOML file or preset, on top of the one it `extends`; `above` are those that led here."""
    if not isinstance(source, str | Path):
        raise SettingsError(f"A config is a file, a preset or a dict, but this is {source!r}.")
    path = Path(source)
    if not path.is_file():
        path = Path(str(PRESETS)) / f"{source}.toml"
    if not path.is_file():
        raise SettingsError(
            f"There is no config file {str(source)!r}, and no preset of that name; `evenkeel list` shows the presets."
            f"{nearest(source, presets())}"
        )
    if path.resolve() in above:
        raise SettingsError(f"{str(path)!r} extends itself.")
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{str(path)!r} is not a TOML file: {error}.") from None
    return _extended(given, path.parent, [*above, path.resolve()])


def _extended(given: Mapping[str, Any], folder: Path, above: list[Path]) -> dict[str, Any]:
    """`given` on top of what it extends: a file in `folder`, with or without its ending, or a preset."""
    if "extends" not in given:
        return dict(given)
    base = given["extends"]
    if not isinstance(base, str):
        raise SettingsError(f"extends = {base!r} is not the name of a config.")
    beside = [path for path in (folder / base, folder / f"{base}.toml") if path.is_file()]
    rest = {key: value for key, value in given.items() if key != "extends"}
    return _merged(_read(beside[0] if beside else base, above), rest)


def _parsed(override: str) -> dict[str, Any]:
    """ "a.b=1" as {"a": {"b": 1}}. Values are TOML; what is none is text."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise SettingsError(f"--set {override!r} is not of the form part.setting=value, such as method.name=derpp.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    if isinstance(value, date | time):  # TOML has them, configs do not
        value = text.strip()
    for name in reversed(key.strip().split(".")):
        value = {name: value}
    return dict(value)


def _merged(base: Mapping[str, Any], change: Mapping[str, Any], *, other_part: bool = True) -> dict[str, Any]:
    """`change` on top of `base`. A table with another name is another part: the settings of the old one go.

    Not so where both come from one command (`other_part` is False): there the order does not matter.
    """
    result = dict(base)
    for key, value in change.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            other = other_part and "name" in value and value["name"] != old.get("name")
            result[key] = dict(value) if other else _merged(old, value, other_part=other_part)
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
        allowed = _fields(above)
        return [f"{'.'.join([*above, name])} is unknown; there are {', '.join(allowed)}.{nearest(name, allowed)}"]
    return [sentence("", fault)]


def _fields(above: Sequence[str]) -> dict[str, Any]:
    """The settings of the table at this place."""
    model: Any = Config
    for step in above:
        annotation = model.model_fields[step].annotation
        model = next(each for each in (annotation, *get_args(annotation)) if hasattr(each, "model_fields"))
    fields: dict[str, Any] = model.model_fields
    return fields
