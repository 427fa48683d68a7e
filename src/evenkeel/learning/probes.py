"""What the contract looks at: the whole state of a learner, attributes outside it, and the global generators."""

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from functools import wraps
from inspect import isroutine
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evenkeel.errors import MethodError
from evenkeel.learning.learner import Learner
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods import Method
from evenkeel.learning.torch_utils import copied

INTERNAL = {*vars(nn.Module()), "_version"}  # torch's own attributes of a module: state, hooks, mode
HOOKS = [name for name, each in vars(Method).items() if isroutine(each) and not name.startswith("_")]
GLOBAL: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {  # how to get and to set their states
    "torch's": (torch.get_rng_state, torch.set_rng_state),
    "numpy's": (np.random.get_state, np.random.set_state),
    "Python's": (random.getstate, random.setstate),
}
PLAIN: dict[type, Callable[[Any], Any]] = {  # what is compared of values that are more than they show
    Tensor: copied,
    np.ndarray: np.ndarray.tolist,
    torch.Generator: torch.Generator.get_state,
    random.Random: random.Random.getstate,
    np.random.Generator: lambda value: repr(value.bit_generator.state),
    Set: lambda value: sorted(map(repr, value)),
}
ODD = 987_654_321  # a seed that nobody uses


def flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested dicts and lists by their paths."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from flat(f"{path}/{name}", inner)
    elif isinstance(value, list | tuple | deque):
        for place, inner in enumerate(value):
            yield from flat(f"{path}/{place}", inner)
    else:
        yield path, value


def same(a: Any, b: Any) -> bool:
    """Return whether two leaves are bit-identical."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) & (a.signbit() == b.signbit())).all())
    equal = a == b
    return bool(equal.all()) if not isinstance(equal, bool) else equal


def snapshot(learner: Learner) -> dict[str, Any]:
    """Return a copy of the whole state of a learner, flattened: path -> tensor or plain value."""
    return {path: copied(value) for path, value in flat("", learner.state())}


def differences(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """Return the paths at which two snapshots are not bit-identical."""
    return [
        path for path in sorted(a.keys() | b.keys()) if path not in a or path not in b or not same(a[path], b[path])
    ]


def hidden_state(method: Method) -> dict[str, Any]:
    """Return what a method and its submodules hold outside their state, by attribute: copies of plain values."""
    owners = {f"self.{path}.".replace("..", "."): part for path, part in method.named_modules()}
    attributes = {
        f"{owner}{name}": _copied(value, set())
        for owner, part in owners.items()
        for name, value in vars(part).items()
        if name not in INTERNAL
    }
    return {**attributes, **_of_classes(type(method))}


def _of_classes(kind: type[Method]) -> dict[str, Any]:
    """Return what the classes of a method hold, up to `Method` itself: a counter there counts for all learners."""
    own = kind.__mro__[: kind.__mro__.index(Method)]
    return {
        f"{each.__name__}.{name}": _copied(value, set())
        for each in own
        for name, value in vars(each).items()
        if not name.startswith(("__", "_abc_")) and not isroutine(value) and not isinstance(value, property)
    }


def _copied(value: Any, above: set[int]) -> Any:
    """Return a copy that can be compared; None for what belongs to the learner, and for what cannot be compared."""
    if isinstance(value, nn.Module | Memory) or id(value) in above:
        return None
    for kind, plain in PLAIN.items():
        if isinstance(value, kind):
            return plain(value)
    above = {*above, id(value)}
    if isinstance(value, list | tuple | deque):
        return [_copied(inner, above) for inner in value]
    named = value if isinstance(value, Mapping) else getattr(value, "__dict__", None)
    if named:
        return {repr(name): _copied(inner, above) for name, inner in named.items()}
    return None if " at 0x" in (text := repr(value)) else text


def require_nothing_hidden(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Raise MethodError if a plain attribute differs."""
    changed = [name for name in {**before, **after} if not _equal(before.get(name), after.get(name))]
    if changed:
        raise MethodError(
            f"What changes in {', '.join(changed[:3])} while it learns is in no checkpoint, so that a resumed learner "
            "has other values. Keep all state in parameters, buffers or submodules created by `__init__` or `prepare`, "
            "or return it in `get_extra_state`."
        )


def _equal(a: Any, b: Any) -> bool:
    first, second = dict(flat("", a)), dict(flat("", b))
    return first.keys() == second.keys() and all(same(each, second[path]) for path, each in first.items())


@contextmanager
def odd_generators() -> Iterator[None]:
    """Seed the global generators with an odd number, else seeding with a usual one might change nothing; restore."""
    before = {whose: get() for whose, (get, _) in GLOBAL.items()}
    torch.manual_seed(ODD), np.random.seed(ODD), random.seed(ODD)
    try:
        yield
    finally:
        for whose, (_, put) in GLOBAL.items():
            put(before[whose])


def _states() -> dict[str, object]:
    """Return the states of the global generators, in a form that is compared at once."""
    numpys = np.random.get_state(legacy=False)
    inner = numpys.pop("state")
    return {
        "torch's": torch.get_rng_state().numpy().tobytes(),
        "numpy's": (inner["key"].tobytes(), inner["pos"], numpys),
        "Python's": random.getstate(),
    }


def watch_generators(method: Method) -> None:
    """Let each hook of a method raise MethodError if it draws from a global generator or seeds it."""
    for name in HOOKS:
        setattr(method, name, leaving_generators_alone(getattr(method, name), f"`{name}`"))


def leaving_generators_alone(call: Callable[..., Any], what: str) -> Callable[..., Any]:
    """Return `call` so that it raises MethodError if it draws from a global generator or seeds it."""

    @wraps(call)
    def watched(*args: Any, **settings: Any) -> Any:
        before = _states()
        result = call(*args, **settings)
        for whose, state in _states().items():
            if state != before[whose]:
                raise MethodError(
                    f"{what} draws from {whose} global generator, or seeds it; draw from the generator passed to "
                    "`prepare`."
                )
        return result

    return watched
