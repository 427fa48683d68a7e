"""Which settings of a config are written into records, run keys and service folders."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

FIRST = tomllib.loads((files("evenkeel.config") / "settings_of_0_1.toml").read_text(encoding="utf-8"))


def without_later_defaults(
    kind: str, name: str, values: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Omit settings that have their default, except those of version 0.1, which always wrote all of its settings.

    So a setting added later does not affect records made without it. `kind` and `name` say whose settings these are:
    a part ("method", "er") or a table of the config ("tables", "Evaluation").
    """
    always = FIRST.get(kind, {}).get(name, ())
    return {
        key: value for key, value in values.items() if key in always or key not in defaults or value != defaults[key]
    }
