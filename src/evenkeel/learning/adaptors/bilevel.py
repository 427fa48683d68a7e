"""The outer step that adaptors share: train what corrects the logits for the head that will predict without it.

A virtual step of the head with the corrected loss; then a step of the adaptor's weights down a loss of the moved, plain
head. Only the head is unrolled, on features that are constants: no second forward, no backward through the backbone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.optim import SGD, Optimizer

from evenkeel.errors import MethodError, SettingsError
from evenkeel.learning.heads import GrowingHead
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods.base import Method, sum_of_cross_entropies
from evenkeel.learning.nets import Net
from evenkeel.learning.torch_utils import running_statistics, scratch_buffers
from evenkeel.learning.types import View

Gradients = Sequence[Tensor | None]
Objective = Callable[[Sequence[View]], Tensor]


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


@dataclass(frozen=True)
class VirtualStep:
    """A virtual step of the head with the corrected loss of `groups`."""

    method: Method
    head: nn.Module
    optimizer: Optimizer
    groups: Sequence[View]
    correct: Callable[[Tensor], tuple[Tensor, Tensor]]  # logits to adapted and comparable ones
    through: bool  # whether gradients by the logits flow through `correct`; else it adds a constant to them

    def outer_gradients(
        self, objective: Objective, views: Sequence[View], weights: Sequence[Tensor]
    ) -> tuple[Tensor, Gradients]:
        """Return the outer loss, and its gradients by the adaptor's weights.

        It is the `objective` of `views` as the plain head sees them after the step. A gradient is None if the corrected
        loss does not depend on that weight.
        """
        if is_linear(self.head):
            return self._by_logits(objective, views, weights)
        trained = {name: weight for name, weight in self.head.named_parameters() if weight.requires_grad}
        with scratch_buffers(self.head):
            seen = ((view, _seen_by(self.head, trained, view).logits) for view in self.groups)
            corrected = self._loss((view, logits, *self.correct(logits)) for view, logits in seen)
            slopes = torch.autograd.grad(corrected, list(trained.values()), create_graph=True, materialize_grads=True)
            moved = self._moved(trained, slopes)
            loss = objective([_seen_by(self.head, moved, view) for view in views])
        return loss, torch.autograd.grad(loss, list(weights), allow_unused=True)

    def _by_logits(
        self, objective: Objective, views: Sequence[View], weights: Sequence[Tensor]
    ) -> tuple[Tensor, Gradients]:
        """Return the same for a linear head, without a second derivative through it.

        With D the gradient of the corrected loss by the logits and h the features, the head's gradient is D^T h, and
        D^T 1 of its bias. If V and v are the gradients of the outer loss by these two, only D depends on the adaptor:
        d(outer) = d<D, h V^T + v>.
        """
        every = dict(self.head.named_parameters())
        trained = {name: weight for name, weight in every.items() if weight.requires_grad}
        features, logits = (_joined(self.groups, name) for name in ("features", "logits"))
        by_logits = self._slope(logits)
        moved = self._moved(trained, _slopes(self.head, trained, features, by_logits.detach()))
        queried = _joined(views, "features")
        loss, by_output = _outer(objective, views, _linear(self.head, {**every, **moved}, queried).detach())
        by_moved = zip(trained.items(), _slopes(self.head, trained, queried, by_output), strict=True)
        by_slope = {name: step_size(self.optimizer, weight) * slope for (name, weight), slope in by_moved}
        frozen = {name: torch.zeros_like(weight) for name, weight in every.items() if name not in trained}
        direction = _linear(self.head, {**frozen, **by_slope}, features)
        return loss, torch.autograd.grad(by_logits, list(weights), direction, allow_unused=True)

    def _slope(self, logits: Tensor) -> Tensor:
        """Return the gradient of the corrected loss by the logits of all groups, with its graph to the adaptor."""
        if not self.through and _is(self.method.loss, sum_of_cross_entropies):
            adapted, _ = self.correct(logits)
            return _slope_of_cross_entropies(adapted, self.groups)
        kinds = (logits.requires_grad_(), *self.correct(logits))
        sizes = [len(view.y) for view in self.groups]
        split = {id(kind): kind.split(sizes) for kind in kinds}  # kinds that are one tensor stay one in a view
        corrected = self._loss(zip(self.groups, *(split[id(kind)] for kind in kinds), strict=True))
        (slope,) = torch.autograd.grad(corrected, logits, create_graph=True, materialize_grads=True)
        return slope

    def _loss(self, groups: Iterable[tuple[View, Tensor, Tensor, Tensor]]) -> Tensor:
        """Return the loss of the groups, each with its logits: plain, adapted and comparable ones."""
        new, *old = (_corrected(*group) for group in groups)
        return self.method.loss(new, old)

    def _moved(self, trained: Mapping[str, Tensor], slopes: Sequence[Tensor]) -> dict[str, Tensor]:
        pairs = zip(trained.items(), slopes, strict=True)
        return {name: unrolled_step(self.optimizer, weight, slope) for (name, weight), slope in pairs}


def is_linear(head: nn.Module) -> bool:
    """Return whether a head is made of linear layers only, which do nothing else."""
    parts = [part for _, part in _linear_parts(head)]
    return (type(head) is GrowingHead or parts == [head]) and all(
        type(part) is nn.Linear and not part._forward_hooks and not part._forward_pre_hooks for part in parts
    )


def _linear_parts(head: nn.Module) -> list[tuple[str, nn.Linear]]:
    """Return the parts of a head, each with what comes before the names of its weights."""
    if isinstance(head, GrowingHead):
        return [(f"parts.{place}.", part) for place, part in enumerate(head.parts)]  # type: ignore[misc]
    return [("", head)]  # type: ignore[list-item]


def _linear(head: nn.Module, weights: Mapping[str, Tensor], features: Tensor) -> Tensor:
    """Return what a linear head gives with these weights."""
    outputs = [
        F.linear(features, weights[f"{name}weight"], weights.get(f"{name}bias")) for name, _ in _linear_parts(head)
    ]
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)[:, : head.out_features]


def _slopes(head: nn.Module, trained: Mapping[str, Tensor], features: Tensor, by_output: Tensor) -> list[Tensor]:
    """Return the gradients of a linear head's trained weights, from those of its outputs."""
    parts = _linear_parts(head)
    rows = [part.out_features for _, part in parts]
    spare = sum(rows) - by_output.shape[1]  # rows of a grown head that have no output
    by_row = (F.pad(by_output, (0, spare)) if spare else by_output).split(rows, dim=1)
    slopes = {}
    for (name, _), mine in zip(parts, by_row, strict=True):
        slopes[f"{name}weight"], slopes[f"{name}bias"] = mine.T @ features, mine.sum(dim=0)
    return [slopes[name] for name in trained]


def _outer(objective: Objective, views: Sequence[View], logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the objective of views with these logits, and its gradient by them."""
    closed = _is(objective, Method.query_loss)
    logits.requires_grad_(not closed)
    parts = [logits] if len(views) == 1 else logits.split([len(view.y) for view in views])
    loss = objective([_with_logits(view, part) for view, part in zip(views, parts, strict=True)])
    if closed:
        return loss, _slope_of_cross_entropies(logits, views, terms=len(views))
    return loss, torch.autograd.grad(loss, logits, materialize_grads=True)[0]


def _is(method: Callable[..., Tensor], function: Callable[..., Tensor]) -> bool:
    """Return whether a bound method is this function, rather than one of a subclass or of a single object."""
    return getattr(method, "__func__", None) is function


def _slope_of_cross_entropies(logits: Tensor, views: Sequence[View], terms: int = 1) -> Tensor:
    """Return the gradient, by the logits of all views, of the sum of their mean cross-entropies, divided by `terms`."""
    slope = logits.softmax(dim=1) - F.one_hot(_joined(views, "y"), logits.shape[1])
    divisors = [terms * len(view.y) for view in views]
    if len(set(divisors)) == 1:
        return slope / divisors[0]
    return slope / torch.cat(
        [slope.new_full((len(view.y), 1), each) for view, each in zip(views, divisors, strict=True)]
    )


def _joined(views: Sequence[View], name: str) -> Tensor:
    """Return a column of all views, as a constant."""
    parts: list[Tensor] = [getattr(view, name).detach() for view in views]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _with_logits(view: View, logits: Tensor) -> View:
    return _corrected(view, logits, logits, logits)


def _corrected(view: View, logits: Tensor, adapted: Tensor, comparable: Tensor) -> View:
    return View(view.x, view.y, view.stored, view.features.detach(), logits, adapted, comparable, view.on_host)


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


def assign_gradients(
    name: str, method: Method, loss: Tensor, weights: Sequence[Tensor], gradients: Gradients
) -> Tensor:
    """Give the adaptor's weights their gradients of the outer loss, for a step of its optimizer.

    Return the loss for the learner to read, NaN if a gradient is not finite: the update is then refused, and rolled
    back in adaptor and network.
    """
    known = [gradient for gradient in gradients if gradient is not None]
    if not known:
        raise MethodError(
            f"{name} has nothing to learn from: the loss of {type(method).__name__} does not depend on view.adapted. "
            "Take the cross-entropy of view.adapted instead of view.logits, or omit the adaptor."
        )
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient
    # 0, but NaN if a number in a gradient is NaN or infinite.
    return loss.detach() + 0 * torch.cat([gradient.flatten() for gradient in known]).sum()


def unrolled_step(optimizer: Optimizer, weight: Tensor, gradient: Tensor) -> Tensor:
    """Return `weight` after a step of the optimizer, as a function of `gradient`; the optimizer is not changed."""
    group = _group_of(optimizer, weight)
    if group is None:
        return weight
    moved: Tensor = UNROLLED[type(optimizer)](group, optimizer.state.get(weight, {}), weight.detach(), gradient)
    return moved


def step_size(optimizer: Optimizer, weight: Tensor) -> float:
    """Return the derivative of a moved weight by its gradient: a number, because a step is linear in all it takes."""
    group = _group_of(optimizer, weight)
    if group is None:
        return 0.0
    state = {name: 0.0 for name, value in optimizer.state.get(weight, {}).items() if value is not None}
    return float(UNROLLED[type(optimizer)](group, state, 0.0, 1.0))


def _group_of(optimizer: Optimizer, weight: Tensor) -> Mapping[str, Any] | None:
    """Return the group of a weight; None if the optimizer does not update it."""
    return next((group for group in optimizer.param_groups if any(p is weight for p in group["params"])), None)


def _sgd(group: Mapping[str, Any], state: Mapping[str, Any], weight: Any, gradient: Any) -> Any:
    direction = -gradient if group["maximize"] else gradient
    if group["weight_decay"]:
        direction = direction + group["weight_decay"] * weight
    if group["momentum"]:
        before = state.get("momentum_buffer")
        velocity = direction
        if before is not None:
            velocity = group["momentum"] * before + (1 - group["dampening"]) * direction
        direction = direction + group["momentum"] * velocity if group["nesterov"] else velocity
    return weight - group["lr"] * direction


UNROLLED: dict[type[Optimizer], Callable[[Mapping[str, Any], Mapping[str, Any], Any, Any], Any]] = {SGD: _sgd}
"""The step of each optimizer that can be unrolled, with all its options, from a group, a weight's state and gradient.

Each is linear in state, weight and gradient, which are tensors or numbers. Subclasses do not count: they may step
differently.
"""
