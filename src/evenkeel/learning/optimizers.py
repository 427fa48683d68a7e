"""The network's optimizer: created by the user, described for a checkpoint, and created again from it."""

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import SGD, Adam, AdamW, Optimizer

from evenkeel.errors import CheckpointError, SettingsError
from evenkeel.learning.nets import Net

MakeOptimizer = Callable[[Any], Optimizer]  # from parameters or groups of them, such as a class of torch.optim
LR = 0.03  # unless another is chosen: the rate of the CBA authors' own commands
OPTIMIZERS: dict[str, type[Optimizer]] = {"SGD": SGD, "Adam": Adam, "AdamW": AdamW}
"""By the names used in configs, which are those of the classes; all take `lr` and `weight_decay`."""


def make_optimizer(given: Optimizer | MakeOptimizer | None, net: Net) -> Optimizer:
    """Return the optimizer given, or create it; raise SettingsError if it holds parameters that are not the net's."""
    if given is None:
        return SGD(net.parameters(), lr=LR)
    if not isinstance(given, Optimizer) and not callable(given):
        raise SettingsError(
            f"optimizer={given!r} is neither an optimizer nor a function that creates one from parameters."
        )
    optimizer = given if isinstance(given, Optimizer) else given(net.parameters())
    known = {id(weight) for weight in net.parameters()}
    if not all(id(weight) in known for group in optimizer.param_groups for weight in group["params"]):
        raise SettingsError("The optimizer holds parameters that are not the net's. Create it over net.parameters().")
    return optimizer


def optimizer_facts(optimizer: Optimizer, net: Net) -> dict[str, Any]:
    """Return what a checkpoint needs besides the optimizer's state: its class, and the parameters of each group.

    A group with the method's own parameters is left out: it is added whenever a learner is built.
    """
    names = {id(weight): name for name, weight in net.named_parameters()}
    of_net = [group["params"] for group in optimizer.param_groups if all(id(each) in names for each in group["params"])]
    groups = [[names[id(weight)] for weight in weights] for weights in of_net]
    return {"class": type(optimizer).__name__, "groups": groups}


def make_optimizer_again(facts: dict[str, Any], given: Optimizer | MakeOptimizer | None, net: Net) -> Optimizer:
    """Return the optimizer of a checkpoint, over the same groups of parameters; its options are part of its state."""
    if isinstance(given, Optimizer):
        return given
    make: MakeOptimizer | None = given or OPTIMIZERS.get(facts["class"]) or getattr(torch.optim, facts["class"], None)
    if make is None:
        raise CheckpointError(
            f"The checkpoint's optimizer, {facts['class']}, is not one of torch.optim. Pass optimizer=..., a function "
            "that creates it from parameters."
        )
    weights = dict(net.named_parameters())
    missing = [name for names in facts["groups"] for name in names if name not in weights]
    if missing:
        raise CheckpointError(
            f"The net given has no parameter {missing[0]!r}, which the checkpoint's optimizer updates."
        )
    return make([{"params": [weights[name] for name in names]} for names in facts["groups"]])


@torch.no_grad()
def lean_step(optimizer: Adam) -> None:
    """Take a step of a fused Adam over a single group, without what its own `step` does around the same operations.

    For a few small weights that takes several times as long. The first step creates the averages, so it is torch's.
    """
    (group,) = optimizer.param_groups
    weights = [weight for weight in group["params"] if weight.grad is not None]
    states = [optimizer.state[weight] for weight in weights]
    if not (group["fused"] and all(states)):
        optimizer.step()
        return
    averages, squares, steps = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq", "step"))
    options = {name: group[name] for name in ("lr", "weight_decay", "eps", "amsgrad", "maximize")}
    beta1, beta2 = group["betas"]
    torch._foreach_add_(steps, 1)
    gradients = [weight.grad for weight in weights]
    torch._fused_adam_(weights, gradients, averages, squares, [], steps, beta1=beta1, beta2=beta2, **options)
