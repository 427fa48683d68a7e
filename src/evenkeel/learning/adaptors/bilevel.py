"""The outer step that adaptors share: train what corrects the logits for the head that will predict without it.

A virtual step of the head with the corrected loss; then a step of the adaptor's weights down a loss of the moved, plain
head. Only the head is unrolled, on features that are constants: no second forward, no backward through the backbone.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.optim import SGD, Optimizer

from evenkeel.errors import MethodError, SettingsError
from evenkeel.learning.finite import largest
from evenkeel.learning.heads import GrowingHead
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods.base import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.torch_utils import running_statistics, scratch_buffers
from evenkeel.learning.types import View


def require_unrollable(name: str, optimizer: Optimizer, instead: str) -> None:
    """Raise SettingsError unless a step of the optimizer can be unrolled; the sentence ends with `instead`."""
    if type(optimizer) not in UNROLLED:
        able = " or ".join(each.__name__ for each in UNROLLED)
        raise SettingsError(
            f"{name} unrolls one step of the optimizer, which works for {able} (with any of its options), but not for "
            f"{type(optimizer).__name__}. Use {able}, or {instead}."
        )


def require_trained_head(name: str, net: Net, optimizer: Optimizer) -> None:
    """Raise SettingsError if the optimizer moves no weight of the head."""
    moved = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    if not any(id(weight) in moved and weight.requires_grad for weight in net.head.parameters()):
        raise SettingsError(f"{name} acts through the head, but the optimizer updates none of the head's parameters.")


def lacks_a_stored_class(y: Tensor, memory: Memory) -> bool:
    """Return whether memory holds a class that the incoming outputs `y` lack: there is something to forget."""
    return not bool(torch.isin(memory.column("y"), y).all())


def after_virtual_step(
    method: Method,
    head: nn.Module,
    optimizer: Optimizer,
    groups: Sequence[View],
    views: Sequence[View],
    *,
    correct: Callable[[View], View],
) -> list[View]:
    """Return `views` as the plain head sees them after one virtual step with the corrected loss of `groups`.

    Their logits have a graph to whatever `correct` depends on.
    """
    weights = {name: weight for name, weight in head.named_parameters() if weight.requires_grad}
    slopes = _slopes_of_linear if is_linear(head) else _slopes
    with scratch_buffers(head):
        gradients = slopes(method, head, weights, groups, correct)
        moved = {name: unrolled_step(optimizer, weight, gradients[name]) for name, weight in weights.items()}
        return [_seen_by(head, moved, view) for view in views]


Slopes = Mapping[str, Tensor]  # gradients of the corrected loss by the head's weights, with a graph


def _slopes(
    method: Method,
    head: nn.Module,
    weights: Mapping[str, Tensor],
    groups: Sequence[View],
    correct: Callable[[View], View],
) -> Slopes:
    """Return the gradients of the corrected loss, for any head."""
    new, *old = (correct(_seen_by(head, weights, view)) for view in groups)
    gradients = torch.autograd.grad(
        method.loss(new, old), list(weights.values()), create_graph=True, materialize_grads=True
    )
    return dict(zip(weights, gradients, strict=True))


def _slopes_of_linear(
    method: Method,
    head: nn.Module,
    weights: Mapping[str, Tensor],
    groups: Sequence[View],
    correct: Callable[[View], View],
) -> Slopes:
    """Return the same for linear parts: D^T h and D^T 1, D the gradient by the logits and h the features.

    Only D has a graph to what `correct` depends on, so nothing is differentiated twice through the head: with V the
    gradient of the outer loss by the moved weights, autograd arrives at d<D^T h, V>.
    """
    logits = [view.logits.detach().requires_grad_() for view in groups]
    new, *old = (correct(_with_logits(view, leaf)) for view, leaf in zip(groups, logits, strict=True))
    by_logits = torch.autograd.grad(method.loss(new, old), logits, create_graph=True, materialize_grads=True)
    slope, features = torch.cat(by_logits), torch.cat([view.features.detach() for view in groups])
    by_part = slope.split(_shown_outputs(head), dim=1)
    slopes = {}
    for (name, part), mine in zip(_linear_parts(head), by_part, strict=True):
        hidden = (0, 0, 0, part.out_features - mine.shape[1])  # spare rows of a grown head: no logit, no gradient
        slopes[f"{name}weight"] = F.pad(mine.T @ features, hidden)
        slopes[f"{name}bias"] = F.pad(mine.sum(dim=0), hidden[2:])
    return {name: slopes[name] for name in weights}


def is_linear(head: nn.Module) -> bool:
    """Return whether a head is made of linear layers only, which do nothing else."""
    grown = type(head) is GrowingHead
    return (
        not head._forward_hooks
        and not head._forward_pre_hooks
        and (grown or type(head) is nn.Linear)
        and all(
            type(part) is nn.Linear and not part._forward_hooks and not part._forward_pre_hooks
            for _, part in _linear_parts(head)
        )
    )


def _linear_parts(head: nn.Module) -> list[tuple[str, nn.Linear]]:
    """Return the parts of a head, each with what comes before the names of its weights."""
    if isinstance(head, GrowingHead):
        return [(f"parts.{place}.", part) for place, part in enumerate(head.parts)]  # type: ignore[misc]
    return [("", head)]  # type: ignore[list-item]


def _shown_outputs(head: nn.Module) -> list[int]:
    """Return how many outputs of each linear part are shown: all, but for the last of a grown head."""
    rows = [part.out_features for _, part in _linear_parts(head)]
    shown = head.out_features
    assert isinstance(shown, int)
    return [*rows[:-1], shown - sum(rows[:-1])]


def _with_logits(view: View, logits: Tensor) -> View:
    return replace(view, features=view.features.detach(), logits=logits, adapted=logits, comparable=logits)


def _seen_by(head: nn.Module, weights: Mapping[str, Tensor], view: View) -> View:
    features = view.features.detach()
    with running_statistics(head) if len(features) == 1 else nullcontext():
        logits: Tensor = functional_call(head, dict(weights), (features,))
    return _with_logits(view, logits)


def balanced_loss(new: View, query: Sequence[View], stored: Tensor) -> Tensor:
    """Return the cross-entropy of the plain logits, every known class with the same weight; `stored`: memory's shares.

    A sample has the weight 1 / (number of samples of its class to expect here): those in the batch, and a share of the
    query. With more classes than a draw has samples, weights by the samples that happen to be there would give half of
    the loss to the few classes of the batch.
    """
    logits, y = torch.cat([view.logits for view in (new, *query)]), torch.cat([view.y for view in (new, *query)])
    drawn = sum(len(view.y) for view in query)
    expected = (drawn * stored).index_add(0, new.y, torch.ones_like(new.y, dtype=stored.dtype))
    return F.cross_entropy(logits, y, weight=1 / expected.where(expected > 0, 1))


def assign_gradients(name: str, method: Method, loss: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """Give the adaptor's weights their gradients of the outer loss, for a step of its optimizer.

    Return the loss for the learner to read, NaN if a gradient is not finite: the update is then refused, and rolled
    back in adaptor and network.
    """
    gradients = torch.autograd.grad(loss, list(weights), allow_unused=True)
    known = [gradient for gradient in gradients if gradient is not None]
    if not known:
        raise MethodError(
            f"{name} has nothing to learn from: the loss of {type(method).__name__} does not depend on view.adapted. "
            "Take the cross-entropy of view.adapted instead of view.logits, or omit the adaptor."
        )
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient
    size = largest(known, norm=2)
    assert size is not None
    return torch.where(size.isfinite(), loss.detach(), torch.nan)


def unrolled_step(optimizer: Optimizer, weight: Tensor, gradient: Tensor) -> Tensor:
    """Return `weight` after a step of the optimizer, as a function of `gradient`; the optimizer is not changed."""
    group = next((group for group in optimizer.param_groups if any(p is weight for p in group["params"])), None)
    if group is None:  # the optimizer does not update this weight
        return weight
    return UNROLLED[type(optimizer)](group, optimizer.state.get(weight, {}), weight.detach(), gradient)


def _sgd(group: Mapping[str, Any], state: Mapping[str, Any], weight: Tensor, gradient: Tensor) -> Tensor:
    direction = -gradient if group["maximize"] else gradient
    direction = direction + group["weight_decay"] * weight
    if group["momentum"]:
        before = state.get("momentum_buffer")
        velocity = direction
        if before is not None:
            velocity = group["momentum"] * before + (1 - group["dampening"]) * direction
        direction = direction + group["momentum"] * velocity if group["nesterov"] else velocity
    moved: Tensor = weight - group["lr"] * direction
    return moved


UNROLLED: dict[type[Optimizer], Callable[[Mapping[str, Any], Mapping[str, Any], Tensor, Tensor], Tensor]] = {SGD: _sgd}
"""The step of each optimizer that can be unrolled, with all its options, from a group, a weight's state and gradient.

Subclasses do not count: they may step differently.
"""
