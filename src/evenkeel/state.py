"""Everything that learns, as a checkpoint holds it: facts in JSON to build the parts again, tensors to fill them."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from evenkeel.adaptor import ADAPTORS, CBA
from evenkeel.config import describe, rebuild
from evenkeel.data.augment import AUGMENTS, Augment
from evenkeel.memory import MEMORIES, Memory
from evenkeel.methods import METHODS, Method
from evenkeel.nets import Net
from evenkeel.optimizers import MakeOptimizer, make_optimizer_again, optimizer_facts
from evenkeel.step import Step
from evenkeel.zoo import NETS


def facts_of(step: Step) -> dict[str, Any]:
    net = step.net
    return {
        "net": {"class": type(net).__name__, **(net.recipe or {})},
        "cosine": net.cosine_scale is not None,
        "growth": net.growth,
        "frozen": [name for name, weight in net.named_parameters() if not weight.requires_grad],
        "evaluating": [name for name, part in net.named_modules() if not part.training],
        "method": describe(step.method, METHODS),
        "adaptor": step.adaptor and describe(step.adaptor, ADAPTORS),
        "memory": describe(step.memory, MEMORIES),
        "optimizer": optimizer_facts(step.optimizer, net),
        "augment": step.augment and describe(step.augment, AUGMENTS),
        "normalize": step.intake.normalize,
        "sample": {"shape": step.intake.shape, "uint8": step.intake.dtype == torch.uint8},
    }


def tensors_of(step: Step) -> dict[str, Any]:
    """Nested dicts of tensors, not copied."""
    return {
        "net": step.net.state_dict(),
        "method": step.method.state_dict(),
        "adaptor": None if step.adaptor is None else step.adaptor.state_dict(),
        "memory": step.memory.state_dict(),
        "optimizer": step.optimizer.state_dict(),
        "streams": step.streams.state_dict(),
    }


def built_again(
    facts: Mapping[str, Any],
    *,
    net: Net | None,
    method: Method | None,
    adaptor: CBA | None,
    memory: Memory | None,
    optimizer: Optimizer | MakeOptimizer | None,
    augment: Augment | None,
) -> dict[str, Any]:
    """The parts that `facts` describe, as arguments of a learner; what is a user's own is the one given."""
    net = rebuild(facts["net"], net, NETS, "net")
    if facts.get("cosine"):
        net.make_cosine()
    for outputs in facts["growth"]:
        if outputs > net.outputs:
            net.grow(outputs, seed=0)
    return {
        "net": net,
        "method": rebuild(facts["method"], method, METHODS, "method"),
        "adaptor": rebuild(facts["adaptor"], adaptor, ADAPTORS, "adaptor"),
        "memory": rebuild(facts["memory"], memory, MEMORIES, "memory"),
        "optimizer": make_optimizer_again(facts["optimizer"], optimizer, net),
        "augment": rebuild(facts["augment"], augment, AUGMENTS, "augment"),
        "normalize": facts["normalize"],
    }


def fill(step: Step, facts: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    """Put new parts into the state of the old ones."""
    net = step.net
    if facts["sample"]["shape"] is not None:
        step.intake.shape = tuple(facts["sample"]["shape"])
        step.intake.dtype = torch.uint8 if facts["sample"]["uint8"] else next(net.head.parameters()).dtype
    for name, weight in net.named_parameters():
        weight.requires_grad_(name not in facts["frozen"])
    for name, part in net.named_modules():
        part.training = name not in facts["evaluating"]
    net.load_state_dict(tensors["net"])
    step.method.load_state_dict(tensors["method"])
    step.optimizer.load_state_dict(tensors["optimizer"])
    step.memory.load_state_dict(tensors["memory"], next(net.parameters()).device)
    step.streams.load_state_dict(tensors["streams"])
    if step.adaptor is not None:
        step.adaptor.load_state_dict(tensors["adaptor"])
