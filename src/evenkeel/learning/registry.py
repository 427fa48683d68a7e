"""Parts by name, for configs and checkpoints. Settings are constructor arguments, kept under the same name."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evenkeel.errors import CheckpointError, SettingsError, nearest

Recipe = dict[str, Any]  # {"name": key of a registry, setting: value, ...}: JSON, enough to build the part
Registry = Mapping[str, Callable[..., Any]]


def settings(part: object) -> dict[str, Any]:
    """Return the constructor arguments of `part`, read from its attributes."""
    return {name: getattr(part, name) for name in named_arguments(type(part))}


def named_arguments(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the arguments that a class or function takes by name."""
    parameters = inspect.signature(factory).parameters
    return {name: each for name, each in parameters.items() if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}


def call_text(part: object) -> str:
    """Return the constructor call that creates `part`, as code."""
    return f"{type(part).__name__}({', '.join(f'{name}={value!r}' for name, value in settings(part).items())})"


def describe(part: object, registry: Registry) -> Recipe:
    """Return the recipe of `part`; only its class if it is, or holds, something not in the registry (a user's own)."""
    for name, factory in registry.items():
        if factory is type(part):
            try:
                return {"name": name, **{key: plain(value) for key, value in settings(part).items()}}
            except LookupError:
                break
    return {"class": type(part).__name__}


def build(recipe: Recipe, registry: Registry, *args: Any, **withheld: Any) -> Any:
    """Build the part of a recipe; `args` and `withheld` are the arguments that are not settings."""
    settings = {key: value for key, value in recipe.items() if key != "name"}
    return _factory(recipe, registry)(*args, **settings, **withheld)


def rebuild(recipe: Recipe | None, given: Any, registry: Registry, kind: str) -> Any:
    """Return a part of a checkpoint: the one `given`, which must match its recipe, or one built from the recipe."""
    if given is not None:
        saved = "none" if recipe is None else _class_name(recipe, registry)
        if saved not in (None, type(given).__name__):
            raise CheckpointError(f"The checkpoint's {kind} is {saved}, but {kind}= is {type(given).__name__}.")
        return given
    if recipe is None:
        return None
    if "class" in recipe:
        raise CheckpointError(
            f"The checkpoint's {kind} is your own class {recipe['class']}, which a file cannot hold. Pass {kind}=..."
        )
    if recipe["name"] not in registry:
        raise CheckpointError(
            f"The checkpoint's {kind} is {recipe['name']!r}, which is not known here: a file imports nothing. Import "
            f"what defines it and register it by this name, or pass {kind}=..."
        )
    return build(recipe, registry)


def _class_name(recipe: Recipe, registry: Registry) -> str | None:
    """Return the name of the class of a part: of the one registered, or of what the function registered returns.

    None if that is not known here.
    """
    if "class" in recipe:
        return str(recipe["class"])
    factory = registry.get(recipe["name"])
    if factory is None or inspect.isclass(factory):
        return None if factory is None else factory.__name__
    annotation = inspect.signature(factory).return_annotation
    return annotation.__name__ if inspect.isclass(annotation) and annotation is not inspect.Signature.empty else None


def _factory(recipe: Recipe, registry: Registry) -> Callable[..., Any]:
    name = recipe["name"]
    if name not in registry:
        raise SettingsError(f"{name!r} is not one of {', '.join(registry)}.{nearest(name, registry)}")
    return registry[name]


def plain(value: object) -> Any:
    """Return `value` as JSON can hold it; raise LookupError if it cannot."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    raise LookupError(type(value).__name__)
