"""Augmentations that are functions or objects called with (x, generator), as classes: parts are built by name."""

import inspect
from collections.abc import Callable
from typing import Any

CALLED = "_called"  # the attribute of such a class that holds what it calls


def takes_samples(part: Callable[..., Any]) -> bool:
    """Return whether this is a function of (x, generator), unless it builds an augmentation from two settings."""
    if not inspect.isfunction(part):
        return False
    parameters = inspect.signature(part).parameters.values()
    required = [each for each in parameters if each.default is each.empty and each.kind is not each.KEYWORD_ONLY]
    return len([each for each in required if each.kind is not each.VAR_POSITIONAL]) == 2


def class_calling(part: Callable[..., Any], *, importable: bool = True) -> type:
    """Return a class whose instances call this function or object. It has its module, if it is found there."""

    def call(_: object, *arguments: Any) -> Any:
        return part(*arguments)

    name = getattr(part, "__qualname__", type(part).__name__)
    module = part.__module__ if importable else __name__
    return type(name, (), {"__call__": call, "__module__": module, "__qualname__": name, CALLED: staticmethod(part)})


def called_by(factory: object) -> object:
    """Return what the instances of such a class call; None if it is none."""
    return getattr(factory, CALLED, None)
