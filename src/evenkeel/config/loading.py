"""Read configs from TOML files, presets, dicts and overrides; report all errors of a config in one message.

`composition` reads presets made of parts; the model of a run is in `experiment.config`, that of a service in
`service.config`.
"""

import tomllib
from collections.abc import Mapping, Sequence
from datetime import date, time
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from evenkeel.config.composition import FAMILIES, PARTS_ALONE, PRESETS, compose, merged, names, nested
from evenkeel.config.parts import ConfigError, first_of_each, sentence
from evenkeel.errors import SettingsError, nearest

Model = TypeVar("Model", bound=BaseModel)


def read_tables(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the tables of a TOML file, a preset or a dict, with `overrides` on top; they are not validated yet."""
    tables = _extended(source, Path(), []) if isinstance(source, Mapping) else _read(source, [])
    return merged(tables, nested(map(_parsed, overrides)))


def checked(given: Mapping[str, Any], model: type[Model]) -> Model:
    """Validate `given` as a config of this kind; raise one SettingsError with all errors."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        lines = list(dict.fromkeys(line for each in first_of_each(error) for line in _sentences(each, model)))
    title = "The config has an error:" if len(lines) == 1 else f"The config has {len(lines)} errors:"
    raise SettingsError("\n".join([title, *(f"- {line}" for line in lines)]))


def presets() -> dict[str, str]:
    """Return the names of the packaged configs that are no family, each with the comment on its first line."""
    paths = sorted(path for path in PRESETS.glob("*.toml") if path.stem not in FAMILIES)
    return {path.stem: path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for path in paths}


def _read(source: str | Path, above: list[Path]) -> dict[str, Any]:
    """Return a TOML file or preset merged onto the one it `extends`; `above` are the files that extend this one."""
    if not isinstance(source, str | Path):
        raise SettingsError(f"A config must be a file, a preset or a dict, but this is {source!r}.")
    path = Path(source)
    if not path.is_file():
        first, _, name = str(source).partition("/")
        if first in FAMILIES:
            return compose(first, name)
        if first == PARTS_ALONE:
            return compose(FAMILIES[0], name, alone=True)
        path = PRESETS / f"{source}.toml"
    if not path.is_file():
        known = [*presets(), *(name for family in FAMILIES for name in names(family))]
        raise SettingsError(
            f"There is no config file {str(source)!r}, and no preset of that name; `evenkeel list` shows the presets."
            f"{nearest(source, known)}"
        )
    if path.resolve() in above:
        raise SettingsError(f"{str(path)!r} extends itself.")
    return _extended(read_toml(path), path.parent, [*above, path.resolve()])


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raise SettingsError if it cannot be read or is not one."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"Cannot read {str(path)!r}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{str(path)!r} is not a TOML file: {error}.") from None


def _extended(tables: Mapping[str, Any], folder: Path, above: list[Path]) -> dict[str, Any]:
    """Return `tables` merged onto what they extend: files in `folder`, with or without their suffix, or presets."""
    if "extends" not in tables:
        return dict(tables)
    bases = tables["extends"] if isinstance(tables["extends"], list) else [tables["extends"]]
    if not bases or not all(isinstance(base, str) for base in bases):
        raise SettingsError(f"extends = {tables['extends']!r} is not the name of a config, or a list of such names.")
    below: dict[str, Any] = {}
    for base in _joined(bases):
        siblings = named(base, folder)
        below = merged(below, _read(siblings[0] if siblings else base, above))
    return merged(below, {key: value for key, value in tables.items() if key != "extends"})


def named(config: str, folder: Path) -> list[Path]:
    """Return the files in `folder` that a name may stand for, with or without its suffix."""
    return [path for path in (folder / config, folder / f"{config}.toml") if path.is_file()]


def _joined(bases: Sequence[str]) -> list[str]:
    """Read `with/cba` after `paper/cifar10` as `paper/cifar10-cba`, so that what only the pair has counts.

    Other families have no such parts: what is `with/` changes them as it changes any config.
    """
    joined: list[str] = []
    for base in bases:
        first, _, name = base.partition("/")
        if first == PARTS_ALONE and joined and joined[-1].partition("/")[0] == FAMILIES[0]:
            joined[-1] += f"-{name}"
        else:
            joined.append(base)
    return joined


def _parsed(override: str) -> tuple[str, Any]:
    """Parse "a.b=1" into a name and a value. Values are TOML; what is not valid TOML is text."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise SettingsError(f"--set {override!r} is not of the form part.setting=value, such as method.name=derpp.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    if isinstance(value, date | time):  # TOML has them, configs do not
        value = text.strip()
    return key.strip(), value


def _sentences(error: Any, model: type[BaseModel]) -> list[str]:
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return str(cause).splitlines()
    if cause is not None:
        return [f"{'.'.join(map(str, error['loc']))}: {cause}"]
    if error["type"] == "extra_forbidden":
        *above, name = map(str, error["loc"])
        allowed = _fields(model, above)
        return [f"{'.'.join([*above, name])} is unknown; choose from {', '.join(allowed)}.{nearest(name, allowed)}"]
    return [sentence("", error)]


def _fields(model: type[BaseModel], above: Sequence[str]) -> dict[str, Any]:
    """Return the settings of the table at the path `above`."""
    for step in above:
        annotation = model.model_fields[step].annotation
        kinds = (annotation, *get_args(annotation))  # a table, or a table that may be absent
        model = next(each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel))
    return dict(model.model_fields)


class _NotGiven:
    def __repr__(self) -> str:
        return "not given"


NOT_GIVEN = _NotGiven()


def differences(old: Any, new: Any, where: str = "") -> list[tuple[str, Any, Any]]:
    """Return where two dumped configs or records differ, with both values; None and "none" are the same."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = dict.fromkeys([*old, *new])
        return [
            each
            for name in names
            for each in differences(
                old.get(name, NOT_GIVEN), new.get(name, NOT_GIVEN), f"{where}.{name}".removeprefix(".")
            )
        ]
    same = old == new or (old in (None, "none") and new in (None, "none"))
    return [] if same else [(where, old, new)]
