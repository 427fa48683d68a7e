"""Checks that the parts of a learner are compatible, and what a method requires of net and memory."""

from torch.optim import Optimizer

from evenkeel.errors import SettingsError
from evenkeel.learning.adaptors.cba import CBA
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods import Method
from evenkeel.learning.nets import Net


def require_parts(net: object, method: object, adaptor: object, augment: object) -> None:
    """Raise SettingsError unless each part has the right type and they are compatible."""
    if not isinstance(net, Net):
        raise SettingsError(f"net is a {type(net).__name__}; pass Net(backbone, head) or Net.split(model, ...).")
    if not isinstance(method, Method):
        raise SettingsError(f"method={method!r} is not a Method. Give an instance, such as ER().")
    if adaptor is not None and not isinstance(adaptor, CBA):
        raise SettingsError(f"adaptor={adaptor!r} is not an adaptor. Give an instance, such as CBA().")
    if augment is not None and not callable(augment):
        raise SettingsError(f"augment={augment!r} cannot be called. Give an instance, such as CropFlip().")
    if "repeats" in (*vars(method), *vars(type(method))):
        raise SettingsError(
            f"{type(method).__name__} sets `repeats`, which is a setting of the learner now: Learner(..., repeats=10)."
        )
    if method.held_out and not method.rehearses:
        raise SettingsError(f"{method!r} keeps no memory, so it cannot hold out {method.held_out} of it.")
    if adaptor is not None and method.no_adaptor:
        raise SettingsError(f"{method!r} cannot be combined with an adaptor: {method.no_adaptor}.")


def memory_for(method: Method, capacity: int | str, policy: str | None = None) -> Memory:
    """Return an empty memory with the policy of `method`, unless the user chooses another `policy`."""
    return Memory(capacity, policy=policy or method.memory_policy, held_out=method.held_out)


def require_memory(memory: Memory, method: Method) -> None:
    """Raise SettingsError unless the memory is empty and holds out what `method` needs."""
    if memory.seen:
        raise SettingsError("This memory already holds samples of another learner; give each learner an empty one.")
    if memory.held_out != method.held_out:
        raise SettingsError(
            f"{method!r} holds out {method.held_out} of its memory, but {memory!r} holds out {memory.held_out}; give "
            f"Memory(..., held_out={method.held_out}), or only its capacity."
        )


def make_cosine(net: Net, method: Method, optimizer: object) -> None:
    """Give `net` the cosine head that `method` needs, unless it has one."""
    if net.cosine_scale is None and isinstance(optimizer, Optimizer):
        raise SettingsError(
            f"{method!r} needs a cosine head. Call net.make_cosine({method.cosine_head}) before you create the "
            "optimizer over its parameters, or give a function that creates the optimizer."
        )
    net.make_cosine(method.cosine_head)
