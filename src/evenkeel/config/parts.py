"""Parts by name: their settings are the arguments of a registered class or function, checked against its signature."""

import inspect
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from traceback import extract_tb
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_core import to_jsonable_python

from evenkeel.config.written import without_later_defaults
from evenkeel.errors import EvenkeelError, nearest
from evenkeel.learning.registry import Registry, build, named_arguments

LENIENT = ConfigDict(allow_inf_nan=False, coerce_numbers_to_str=True)  # a name or a path may look like a number
OR_NONE = BeforeValidator(lambda given: None if given == "none" else given)  # as `evenkeel list` shows it
PartSettings = dict[str, Any]  # {"name": ..., setting: value, ...}


GONE = {
    "rar": "repeats are a setting of the learner now. Set learner.repeats = 10, and method.name to what is repeated.",
}


NOT_IMPORTED = (
    "is a part of somebody's own, which is not imported because a file names it: only you can say that it is yours. "
    "Name it in your own config or command, or add --import"
)


class ConfigError(ValueError):
    """The errors in one part, one per line."""


@dataclass(frozen=True, eq=False)
class Kind:
    """What one table of a config may contain."""

    registry: Registry
    withheld: tuple[str, ...] = ()  # arguments that are not settings: the run supplies them
    added: Callable[[Callable[..., Any]], dict[str, Any]] = lambda _: {}  # fields that are not arguments of the part
    optional: bool = False  # whether the part may be absent
    buildable: bool = False  # whether settings alone suffice to build it
    several: bool = False  # whether a list of them may stand in its place, in order
    inner: "Mapping[str, Kind]" = field(default_factory=dict)  # parts that may be in it, by their setting


def complete(where: str, given: object, kind: Kind) -> PartSettings:
    """Return the table of a part with its defaults filled in; raise ConfigError if it is invalid."""
    registry = kind.registry
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise ConfigError(f"{where} must be a table with a name, one of {', '.join(registry)}; it is {given!r}.")
    settings = dict(given)
    name = settings.pop("name")
    if name in GONE:
        raise ConfigError(f"{where}.name = {name!r}: {GONE[name]}")
    if name not in registry and ":" in name:
        raise ConfigError(f"{where}.name = {name!r} {NOT_IMPORTED} {name}.")
    if name not in registry:
        raise ConfigError(f"{where}.name = {name!r} is not one of {', '.join(registry)}.{nearest(name, registry)}")
    model = _settings(registry[name], kind)
    errors = [
        f"{where}.{name} has no setting {key!r}; it has {', '.join(model.model_fields) or 'none'}."
        f"{nearest(key, ['name', *model.model_fields])}"
        for key in settings
        if key not in model.model_fields
    ]
    known = {key: value for key, value in settings.items() if key in model.model_fields}
    try:
        checked = model.model_validate(known)
    except ValidationError as error:
        invalid = first_of_each(error)
        errors += [sentence(where, each) for each in invalid]
        wrong = {str(each["loc"][0]) for each in invalid}
        if any(model.model_fields[key].is_required() for key in wrong):
            raise ConfigError("\n".join(errors)) from None
        checked = model.model_validate({key: value for key, value in known.items() if key not in wrong})
    table = {"name": name, **checked.model_dump(mode="json")}
    if kind.buildable:
        try:
            prototype(table, registry)  # the part itself may still reject values of the right type
        except EvenkeelError as error:
            errors.append(f"{where}.{name}: {error}")
        except Exception as error:  # of the user's own class
            if registry[name].__module__.startswith("evenkeel."):
                raise
            last = extract_tb(error.__traceback__)[-1]
            place = f"{last.filename}, line {last.lineno}"
            errors.append(f"{where}.{name}: {type(error).__name__}: {error} ({place}).")
    if errors:
        raise ConfigError("\n".join(errors))
    return table


def complete_whole(where: str, given: object, kind: Kind) -> PartSettings:
    """Return the table of a part with those of the parts in it; raise ConfigError with the errors in all of them."""
    if not isinstance(given, Mapping):
        return complete(where, given, kind)
    own = {name: value for name, value in given.items() if name not in kind.inner}
    inside = {name: given[name] for name in kind.inner if given.get(name)}
    inner = ((f"{where}.{name}", table, kind.inner[name]) for name, table in inside.items())
    table, *tables = complete_all([(where, own, kind), *inner])
    return {**{name: table[name] for name in table if name not in kind.inner}, **dict(zip(inside, tables, strict=True))}


def complete_list(where: str, given: Sequence[object], kind: Kind) -> PartSettings | list[PartSettings] | None:
    """Return the tables of parts in order; a list of one is written as that one, and an empty list as none."""
    tables = complete_all((f"{where}[{place}]", each, kind) for place, each in enumerate(given))
    return tables if len(tables) > 1 else tables[0] if tables else None


def complete_all(parts: Iterable[tuple[str, object, Kind]]) -> list[PartSettings]:
    """Return the tables of parts, each with its place and kind; raise ConfigError with the errors in all of them."""
    tables, errors = list[PartSettings](), list[str]()
    for where, given, kind in parts:
        try:
            tables.append(complete(where, given, kind))
        except ConfigError as error:
            errors.append(str(error))
    if errors:
        raise ConfigError("\n".join(errors))
    return tables


def prototype(table: PartSettings, registry: Registry) -> Any:
    """Return the part that a complete table describes, built once: to look at or to copy, not to train."""
    return _built(json.dumps(table), registry[table["name"]])


@lru_cache(maxsize=100)
def _built(table: str, factory: Callable[..., Any]) -> Any:
    recipe = json.loads(table)
    return build(recipe, {recipe["name"]: factory})


def written(where: str, table: PartSettings, kind: Kind) -> PartSettings:
    """Return the table of a part as it is recorded: without settings that came later and have their default."""
    name = table["name"]
    if name not in kind.registry:  # the user's own data
        return table
    defaults = to_jsonable_python(_defaults(_settings(kind.registry[name], kind)))
    settings = {key: value for key, value in _with_none(table, kind).items() if key != "name"}
    return {"name": name, **without_later_defaults(where, name, settings, defaults)}


def _with_none(table: PartSettings, kind: Kind) -> PartSettings:
    """Return a table with "none" for settings that are none, but not by default.

    TOML has no None and run keys leave it out, so the setting would be read back as its default.
    """
    fields = _settings(kind.registry[table["name"]], kind).model_fields
    absent = [key for key, value in table.items() if value is None]
    chosen = [key for key in absent if fields[key].default is not None and OR_NONE in fields[key].metadata]
    inner = {name: _with_none(table[name], each) for name, each in kind.inner.items() if table.get(name)}
    return {**table, **dict.fromkeys(chosen, "none"), **inner}


def settings_of(part: Callable[..., Any], kind: Kind) -> dict[str, Any]:
    """Return the settings of a part with their defaults; `inspect.Parameter.empty` marks a required one."""
    model = _settings(part, kind)
    return {**dict.fromkeys(model.model_fields, inspect.Parameter.empty), **_defaults(model)}


def _defaults(model: type[BaseModel]) -> dict[str, Any]:
    """Return the defaults of the settings that have one."""
    return {name: field.default for name, field in model.model_fields.items() if not field.is_required()}


def first_of_each(error: ValidationError) -> list[Any]:
    """Return one error per setting: for a setting that allows several types, pydantic reports one per type."""
    first: dict[tuple[Any, ...], Any] = {}
    for each in error.errors():
        # What comes after the setting's name is an index into its value, or the name of a type.
        place = tuple(step for step in each["loc"] if isinstance(step, str) and step.isidentifier())
        place = place[:-1] if place and place[-1] in ("int", "str", "float", "bool") else place
        known = first.setdefault(place, {**each, "loc": place})
        if each["type"] == "literal_error" and known["type"] != "literal_error":
            known["msg"] += f", or {each['ctx']['expected']}"
    return list(first.values())


def sentence(where: str, error: Any) -> str:
    """Return one of pydantic's errors as a sentence."""
    place = ".".join([where, *map(str, error["loc"])]).removeprefix(".")
    if error["type"] == "missing":
        return f"{place} is missing."
    return f"{place} = {error['input']!r}: {error['msg'][0].lower()}{error['msg'][1:]}."


@lru_cache(maxsize=200)
def _settings(part: Callable[..., Any], kind: Kind) -> type[BaseModel]:
    """Return a model with a field for each setting in the signature of `part`."""
    inner = dict.fromkeys(kind.inner, (dict[str, Any] | None, None))
    fields = {**signature_fields(part, kind.withheld), **kind.added(part), **inner}
    lenient: ConfigDict = {**LENIENT, "arbitrary_types_allowed": True}
    return create_model(f"{part.__name__} settings", __config__=lenient, **fields)


def signature_fields(part: Callable[..., Any], withheld: Collection[str]) -> dict[str, Any]:
    """Return (type, default) of each argument that is not `withheld`; a text in an annotation is its description."""
    hints = _hints(part.__init__ if inspect.isclass(part) else part)
    arguments = {name: each for name, each in named_arguments(part).items() if name not in withheld}
    return {
        name: (_or_none(_described(hints.get(name, Any))), ... if each.default is each.empty else each.default)
        for name, each in arguments.items()
    }


def _hints(call: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function; none if a user's own cannot be evaluated."""
    try:
        return get_type_hints(call, include_extras=True)
    except NameError:
        return {}


def _or_none(hint: Any) -> Any:
    bare = hint.__origin__ if get_origin(hint) is Annotated else hint
    return Annotated[hint, OR_NONE] if type(None) in get_args(bare) else hint


def _described(hint: Any) -> Any:
    texts = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, str)]
    return Annotated[hint, Field(description=texts[0])] if texts else hint
