"""Whether the parts of a learner go together, and what a method asks of net and memory."""

from torch.optim import Optimizer

from evenkeel.errors import SettingsError
from evenkeel.learning.adaptors.cba import CBA
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods import Method
from evenkeel.learning.nets import Net


def require_parts(net: object, method: object, adaptor: object, augment: object) -> None:
    """SettingsError unless each is what it should be, and they go together."""
    if not isinstance(net, Net):
        raise SettingsError(f"net is a {type(net).__name__}; make it Net(backbone, head) or Net.split(model, ...).")
    if not isinstance(method, Method):
        raise SettingsError(f"method={method!r} is not a Method. Give an instance, such as ER().")
    if adaptor is not None and not isinstance(adaptor, CBA):
        raise SettingsError(f"adaptor={adaptor!r} is not an adaptor. Give an instance, such as CBA().")
    if augment is not None and not callable(augment):
        raise SettingsError(f"augment={augment!r} cannot be called. Give an instance, such as CropFlip().")
    if method.held_out and not method.rehearses:
        raise SettingsError(f"{method!r} keeps no memory, so it cannot hold out {method.held_out} of it.")
    if adaptor is not None and method.no_adaptor:
        raise SettingsError(f"{method!r} cannot be combined with an adaptor: {method.no_adaptor}.")


def memory_for(method: Method, capacity: int | str, policy: str | None = None) -> Memory:
    """An empty memory of the kind that `method` wants, unless the user wants another policy."""
    return Memory(capacity, policy=policy or method.memory_policy, held_out=method.held_out)


def require_memory(memory: Memory, method: Method) -> None:
    """SettingsError unless it is empty and of the kind that `method` needs."""
    if memory.seen:
        raise SettingsError("This memory already holds samples of another learner; give each an empty one.")
    if memory.held_out != method.held_out:
        raise SettingsError(
            f"{method!r} holds out {method.held_out} of its memory, but {memory!r} {memory.held_out}; give "
            f"Memory(..., held_out={method.held_out}), or only its capacity."
        )


def make_cosine(net: Net, method: Method, optimizer: object) -> None:
    """Give `net` the cosine head that `method` wants, unless it has one."""
    if net.cosine_scale is None and isinstance(optimizer, Optimizer):
        raise SettingsError(
            f"{method!r} needs a cosine head. Call net.make_cosine({method.cosine_head}) before you make the optimizer "
            "over its parameters, or give a function that makes the optimizer."
        )
    net.make_cosine(method.cosine_head)
