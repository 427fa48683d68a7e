"""The network's optimizer: created by the user, described for a checkpoint, and created again from it."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import Tensor
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
    """Take a step of an Adam over a single group, if it is fused without what its own `step` does around the kernel.

    For a few small weights that takes several times as long. The kernel takes all numbers to be side by side, also
    where there is room between the rows of a matrix that grows; such a matrix is copied for it, and back.
    """
    (group,) = optimizer.param_groups
    if not group["fused"]:
        optimizer.step()
        return
    weights = [weight for weight in group["params"] if weight.grad is not None]
    states = [optimizer.state[weight] or _begun(optimizer, weight) for weight in weights]
    averages, squares, steps = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq", "step"))
    changed = [weights, averages, squares]
    dense = [[each.contiguous() for each in tensors] for tensors in changed]
    gradients = [weight.grad.contiguous() for weight in weights]
    options = {name: group[name] for name in ("lr", "weight_decay", "eps", "amsgrad", "maximize")}
    beta1, beta2 = group["betas"]
    torch._foreach_add_(steps, 1)
    torch._fused_adam_(dense[0], gradients, dense[1], dense[2], [], steps, beta1=beta1, beta2=beta2, **options)
    for tensor, copy in zip(chain(*changed), chain(*dense), strict=True):
        if copy is not tensor:
            tensor.copy_(copy)


def _begun(optimizer: Adam, weight: Tensor) -> dict[str, Tensor]:
    """Return the state of Adam before its first step."""
    state: dict[str, Tensor] = optimizer.state[weight]
    state["step"] = torch.zeros((), device=weight.device)
    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
    return state
