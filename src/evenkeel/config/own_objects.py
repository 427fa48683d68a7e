"""Parts given as objects, from Python: instances, classes, functions, networks."""

import copy
import hashlib
import inspect
from collections.abc import Mapping
from typing import Any

from evenkeel.config.called import called_by, class_calling
from evenkeel.config.own import OBJECT, reference_of, register
from evenkeel.config.schema import PARTS
from evenkeel.errors import SettingsError
from evenkeel.learning.nets import Net
from evenkeel.learning.registry import describe

LAMBDA = "<lambda>"


def table_of(kind: str, part: object, place: int = 0) -> Any:
    """Return the table of a config for a part given as an object: an instance, a class or function, or its name.

    place: of a part in a list.
    """
    if isinstance(part, str):
        return {"name": part}
    if part is None or isinstance(part, Mapping):
        return part
    if isinstance(part, list | tuple):
        return [table_of(kind, each, place) for place, each in enumerate(part)]
    if isinstance(part, Net):
        return {"name": _kept(kind, copy.deepcopy(part))}
    is_lambda = inspect.isfunction(part) and part.__name__ == LAMBDA
    if (inspect.isclass(part) or inspect.isfunction(part)) and not (is_lambda and kind == "augment"):
        register(kind, reference_of(part), part)
        return {"name": reference_of(part)}
    return _table_of_instance(kind, part, place)


def _table_of_instance(kind: str, part: object, place: int) -> dict[str, Any]:
    registry = PARTS[kind].registry
    table = describe(part, registry)
    if "name" not in table and not inspect.isfunction(part):
        register(kind, reference_of(type(part)), type(part))
        table = describe(part, registry)
    if "name" in table:
        return table
    if kind == "augment" and callable(part):
        # The latest has the name, so that runs with new objects of one kind are one group.
        name = f"{OBJECT}{getattr(part, '__name__', type(part).__name__)}{f':{place + 1}' if place else ''}"
        if called_by(registry.get(name)) is not part:
            register(kind, name, class_calling(part, importable=False))
        return {"name": name}
    raise SettingsError(
        f"{kind}={part!r} has settings that a record cannot hold. The arguments of its constructor must be numbers, "
        "texts, or lists of them, kept under their names."
    )


def _kept(kind: str, net: Net) -> str:
    """Register a network that was passed in under a name made of its weights; each run trains a copy."""
    content = hashlib.sha256(repr(net).encode())
    for name, value in net.state_dict().items():
        content.update(name.encode() + value.detach().cpu().numpy().tobytes())
    name = f"{OBJECT}{type(net).__name__}:{content.hexdigest()[:16]}"

    def copied() -> Net:
        return copy.deepcopy(net)

    register(kind, name, copied)
    return name
