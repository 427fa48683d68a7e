"""Checks that the parts of a learner are compatible, and what a method requires of net and memory."""

from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor
from torch.optim import Optimizer

from evenkeel.errors import InputError, MethodError, SettingsError, at_least_zero, fraction, one_of, whole_number
from evenkeel.learning.adaptors import Adaptor
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.types import Decay, Precision, PredictWith, Statistics


def require_parts(net: object, method: object, adaptor: object, augment: object) -> None:
    """Raise SettingsError unless each part has the right type and they are compatible."""
    if not isinstance(net, Net):
        raise SettingsError(f"net is a {type(net).__name__}; pass Net(backbone, head) or Net.split(model, ...).")
    if not isinstance(method, Method):
        raise SettingsError(f"method={method!r} is not a Method. Give an instance, such as ER().")
    if adaptor is not None and not isinstance(adaptor, Adaptor):
        raise SettingsError(
            f"adaptor={adaptor!r} is not an Adaptor. Give an instance, such as CBA(); a class of your own derives from "
            "Adaptor."
        )
    for each in augment if isinstance(augment, list | tuple) else [augment]:
        if each is not None and not callable(each):
            raise SettingsError(f"augment={each!r} cannot be called. Give an instance, such as CropFlip().")
    if net.encoder is not None and augment:
        raise SettingsError(
            f"augment={augment!r} cannot be combined with an encoder: memory stores the encoder's outputs, so that it "
            "runs once for each sample, and these cannot be augmented. Leave augment out."
        )
    if "repeats" in (*vars(method), *vars(type(method))):
        raise SettingsError(
            f"{type(method).__name__} sets `repeats`, which is a setting of the learner now: Learner(..., repeats=10)."
        )
    if adaptor is not None and method.no_adaptor:
        raise SettingsError(
            f"{method!r} cannot be combined with an adaptor: {method.no_adaptor}. Leave the adaptor out (in a config: "
            'adaptor.name = "none").'
        )


def require_settings(
    method: Method,
    *,
    replay: int,
    repeats: int,
    statistics: str,
    average: Decay | None,
    predict_with: str,
    distill: float,
    precision: str,
    seed: int,
    **_unrestricted: object,
) -> None:
    """Raise SettingsError unless each setting of a learner has a valid value and suits `method`."""
    whole_number("replay", replay, at_least=1)
    whole_number("repeats", repeats, at_least=1)
    whole_number("seed", seed, at_least=0)
    one_of("statistics", statistics, get_args(Statistics))
    one_of("precision", precision, get_args(Precision))
    require_average(method, average, predict_with, at_least_zero("distill", distill))
    if repeats > 1 and not method.trains:
        raise SettingsError(f"repeats={repeats} changes nothing for {method!r}, which learns no batch as it arrives.")
    if statistics == "replay" and method.joint_forward:
        raise SettingsError(
            "statistics='replay' needs new and old samples forwarded separately, but this method joins them."
        )


def require_average(method: Method, average: Decay | None, predict_with: str, distill: float) -> None:
    """Raise SettingsError unless averaged weights have a decay, can predict for `method`, and exist where needed."""
    one_of("predict_with", predict_with, get_args(PredictWith))
    if average is None:
        wanting = [f"distill={distill}"] * bool(distill) + ["predict_with='average'"] * (predict_with == "average")
        if wanting:
            raise SettingsError(f"{wanting[0]} needs averaged weights; set average='auto', or 0.99, say.")
        return
    if average != "auto" and not fraction("average", average, alternative="auto"):
        raise SettingsError(f"average={average!r} averages nothing; use 0.99, say, or leave it out.")
    reason = method.no_average
    if reason is None and type(method).classify is not Method.classify:
        reason = "it overrides `classify`. If that holds for any net it is given, set no_average = '' in the class"
    if reason:
        raise SettingsError(f"{method!r} cannot predict with averaged weights: {reason}.")


def memory_for(method: Method, capacity: int | str, policy: str | None = None, device: str = "auto") -> Memory:
    """Return an empty memory with the policy of `method`, unless the user chooses another `policy`."""
    return Memory(capacity, policy=policy or method.memory_policy, device=device)


def require_outputs(net: Net, classes: int) -> None:
    """Raise SettingsError if the head has fewer outputs than there are classes."""
    if classes > net.outputs:
        raise SettingsError(f"classes has {classes} labels, but the head has only {net.outputs} outputs.")


def require_precision(precision: Precision, net: Net) -> None:
    """Raise SettingsError if the weights are too coarse to be trained, or not of float32 where that is needed."""
    dtype = next(net.head.parameters()).dtype
    if dtype not in (torch.float32, torch.float64):
        kind = str(dtype).removeprefix("torch.")
        raise SettingsError(
            f"The weights of this net are of {kind}, in which small updates are lost. Give net.float(), and "
            "precision='bf16' for the speed; an encoder, which is not trained, may have any dtype."
        )
    if precision != "float32" and dtype != torch.float32:
        kind = str(dtype).removeprefix("torch.")
        raise SettingsError(f"precision={precision!r} is for weights of float32, but those of this net are of {kind}.")


def require_empty(memory: Memory) -> None:
    """Raise SettingsError if the memory has been used."""
    if memory.seen:
        raise SettingsError("This memory already holds samples of another learner; give each learner an empty one.")


def require_held(method: Method) -> None:
    """Raise MethodError if a method holds samples out, but took no part of the memory for them."""
    if method.held is None and type(method).hold_out is not Method.hold_out:
        raise MethodError("`hold_out` has no `held` for its samples; create it in `split_memory`.")


def require_room(memories: Sequence[Memory], x: Tensor) -> None:
    """Raise InputError if a sample like those of `x` is larger than one of the memories, parts of one capacity."""
    needed = x[:1].nbytes + 3 * 8  # with its output, key and priority
    if any(memory.budget is not None and needed > memory.budget for memory in memories):
        whole, *parts = (memory.capacity for memory in memories)
        apart = "".join(f", of which {part} are held out," for part in parts)
        raise InputError(f"memory={whole!r}{apart} cannot hold one sample, which takes {needed:,} bytes.")


def make_cosine(net: Net, method: Method, optimizer: object) -> None:
    """Give `net` the cosine head that `method` needs, unless it has one."""
    if net.cosine_scale is None and isinstance(optimizer, Optimizer):
        raise SettingsError(
            f"{method!r} needs a cosine head. Call net.make_cosine({method.cosine_head}) before you create the "
            "optimizer over its parameters, or give a function that creates the optimizer."
        )
    net.make_cosine(method.cosine_head)
