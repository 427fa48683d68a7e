"""Parts by name. Settings are constructor arguments, kept under the same name; recipes derive from the signature."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evenkeel.errors import CheckpointError, SettingsError, nearest

Recipe = dict[str, Any]  # {"name": key of a registry, "settings": {...}}: JSON, enough to rebuild the part
Registry = Mapping[str, Callable[..., Any]]


def settings(part: object) -> dict[str, Any]:
    """Return the constructor arguments of `part`, read from its attributes."""
    parameters = inspect.signature(type(part)).parameters.values()
    names = [each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    return {name: getattr(part, name) for name in names}


def call_text(part: object) -> str:
    """Return the constructor call that creates `part`, as code."""
    return f"{type(part).__name__}({', '.join(f'{name}={value!r}' for name, value in settings(part).items())})"


def describe(part: object, registry: Registry) -> Recipe:
    """Return the recipe of `part`; only its class if it is, or holds, something not in the registry (a user's own)."""
    kind = {"class": type(part).__name__}
    try:
        return kind | _recipe(part, registry)
    except LookupError:
        return kind


def build(recipe: Recipe, registry: Registry) -> Any:
    """Build the part that `recipe` describes."""
    name = recipe["name"]
    if name not in registry:
        raise SettingsError(f"{name!r} is not one of {', '.join(registry)}.{nearest(name, registry)}")
    return registry[name](**recipe["settings"])


def rebuild(recipe: Recipe | None, given: Any, registry: Registry, name: str) -> Any:
    """Return a part of a checkpoint: the one `given`, which must match its recipe, or one built from the recipe."""
    if given is not None:
        if recipe is None or recipe["class"] != type(given).__name__:
            saved = "none" if recipe is None else recipe["class"]
            raise CheckpointError(f"The checkpoint's {name} is {saved}, but {name}= is {type(given).__name__}.")
        return given
    if recipe is None:
        return None
    if "name" not in recipe:
        raise CheckpointError(
            f"The checkpoint's {name} is your own class {recipe['class']}, which a file cannot hold. Pass {name}=..."
        )
    return build(recipe, registry)


def _recipe(part: object, registry: Registry) -> Recipe:
    for name, maker in registry.items():
        if maker is type(part):
            return {"name": name, "settings": {key: _plain(value) for key, value in settings(part).items()}}
    raise LookupError(type(part).__name__)


def _plain(value: object) -> Any:
    """Return `value` as JSON can hold it; raise LookupError if it cannot."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    raise LookupError(type(value).__name__)
