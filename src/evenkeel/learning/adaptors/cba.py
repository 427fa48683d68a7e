"""The Continual Bias Adaptor: a small network behind the logits, trained by bi-level optimisation (the CBA paper).

During training the loss sees F = f + g_omega(f) instead of the plain logits f, so g can absorb the bias toward the
newest classes and f need not. omega is trained for the performance of f without it: a virtual step of the head with the
corrected loss, then a step of omega down the plain loss of the moved head on memory. Prediction never uses g.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import SGD, Adam, Optimizer

from evenkeel.errors import DivergenceError, MethodError, SettingsError, one_of, whole_number
from evenkeel.learning.adaptors.base import Adaptor
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods.base import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.rng import derive, global_seed
from evenkeel.learning.torch_utils import are_finite, running_statistics, scratch_buffers
from evenkeel.learning.types import View

STARTS = ("old-classes", "second-task", "first")
INPUTS = ("probabilities", "logits")
TRAININGS = ("bilevel", "joint", "joint+memory")


class CBA(Adaptor):
    """The Continual Bias Adaptor of one learner: its settings and its state.

    The defaults are those of the authors' released code, except for `start`: there it is "second-task", which depends
    on calls of `boundary()`.

    hidden: units of the hidden layers. every: the outer step is due at every n-th update, counted from a boundary.
    start: when outer steps begin: "old-classes" as soon as memory holds a class that the incoming batch lacks,
    "second-task" after the first `boundary()`, "first" as soon as memory holds anything. lr: of Adam on omega. input:
    the form in which g gets the logits. through: whether the gradient of the training loss also flows through g into
    the network. training: "bilevel", or the ablations that train omega with the network, on the training loss alone
    ("joint") or with the memory loss of the plain head added ("joint+memory").

    >>> CBA.as_paper()
    CBA(hidden=(256,), every=1, start='first', lr=0.001, input='logits', through=True, training='bilevel')
    """

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (256,),
        every: int = 5,
        start: str = "old-classes",
        lr: float = 1e-3,
        input: str = "probabilities",
        through: bool = False,
        training: str = "bilevel",
    ) -> None:
        one_of("start", start, STARTS)
        one_of("input", input, INPUTS)
        one_of("training", training, TRAININGS)
        if isinstance(hidden, int) or not len(hidden):
            raise SettingsError(f"hidden={hidden!r} must list the units of at least one hidden layer, as in (256,).")
        self.hidden = tuple(whole_number("hidden", units, at_least=1) for units in hidden)
        self.every = whole_number("every", every, at_least=1)
        self.start = start
        self.lr = float(lr)
        self.input = input
        self.through = through
        self.training = training
        self.needs_boundaries = start == "second-task"
        self.joint = training != "bilevel"
        self.uses_query = training != "joint"
        self._updates = 0  # since the last boundary
        self._boundaries = 0
        self._outputs = 0

    @classmethod
    def as_paper(cls, *, hidden: Sequence[int] = (256,), lr: float = 1e-3) -> "CBA":
        """Return a CBA closer to the paper's text: logits in, gradient through g, an outer step at every update.

        It still has Adam on omega, no softmax at the output, and omega before the network: docs/design.md explains why.
        """
        return cls(hidden=hidden, every=1, start="first", lr=lr, input="logits", through=True)

    def attach(self, net: Net, optimizer: Optimizer, seed: int) -> None:
        """Create g for the head of `net`, once. `optimizer` is the network's: the virtual step imitates it."""
        if self._outputs:
            raise SettingsError("This CBA already belongs to a learner; create a new one for each learner.")
        if self.training == "bilevel" and type(optimizer) not in UNROLLED:
            able = " or ".join(each.__name__ for each in UNROLLED)
            raise SettingsError(
                f"CBA unrolls one step of the optimizer, which works for {able} (with any of its options), but not for "
                f"{type(optimizer).__name__}. Use {able}, or CBA(training='joint')."
            )
        moved = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
        if not any(id(weight) in moved and weight.requires_grad for weight in net.head.parameters()):
            raise SettingsError("CBA acts through the head, but the optimizer updates none of the head's parameters.")
        self._outputs = net.outputs
        sizes = (net.outputs, *self.hidden, net.outputs)
        with global_seed(derive(seed, "adaptor")):
            linear = [nn.Linear(a, b) for a, b in pairwise(sizes)]
            for layer in linear:
                nn.init.xavier_normal_(layer.weight)
                nn.init.zeros_(layer.bias)
        layers = [part for layer in linear for part in (layer, nn.ReLU())][:-1]
        self.g = nn.Sequential(*layers).to(next(net.head.parameters()))
        self.optimizer = Adam(self.g.parameters(), lr=self.lr)

    def due(self, y: Tensor, memory: Memory) -> bool:
        """Return whether omega is trained at this update; `y` are the outputs of the incoming batch."""
        if not len(memory) or self._updates % self.every:
            return False
        if self.start == "second-task":
            return self._boundaries > 0
        return self.start == "first" or not bool(torch.isin(memory.column("y"), y).all())

    def after_step(self, *, learned: bool) -> None:
        """Count an update after the network's step, and step omega too if it has `learned`, that is, has gradients."""
        if learned:
            self._step()
        self._updates += 1

    def boundary(self) -> None:
        """Count a boundary between tasks, and restart the count of updates."""
        self._boundaries += 1
        self._updates = 0

    def correct(self, view: View, *, learning: bool = False) -> View:
        return replace(view, adapted=self.corrected(view.logits, learning=learning))

    def corrected(self, logits: Tensor, *, learning: bool = False) -> Tensor:
        """Return F = f + g(f), (n, outputs). omega is a constant unless `learning`."""
        inputs = logits if self.through else logits.detach()
        if self.input == "probabilities":
            inputs = inputs.softmax(dim=1)
        if learning:
            residual: Tensor = self.g(inputs)
        else:
            constant = {name: weight.detach() for name, weight in self.g.named_parameters()}
            residual = functional_call(self.g, constant, (inputs,))
        return logits + residual

    def outer_loss(
        self, method: Method, head: nn.Module, optimizer: Optimizer, groups: Sequence[View], query: Sequence[View]
    ) -> Tensor:
        """Return L_buf(W'(omega)), with W' the head after one virtual step (Eq. 5 and 6, unrolled in the head).

        Only the features of the views are used, as constants: no second forward, no backward through the backbone.
        """
        weights = {name: weight for name, weight in head.named_parameters() if weight.requires_grad}
        with scratch_buffers(head):
            new, *old = (self._seen_by(head, weights, view, corrected=True) for view in groups)
            gradients = torch.autograd.grad(
                method.loss(new, old), list(weights.values()), create_graph=True, materialize_grads=True
            )
            moved = {
                name: unrolled_step(optimizer, weight, gradient)
                for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
            }
            return method.query_loss([self._seen_by(head, moved, view, corrected=False) for view in query])

    def update(
        self, method: Method, head: nn.Module, optimizer: Optimizer, groups: Sequence[View], query: Sequence[View]
    ) -> float:
        """Take one outer step, Adam on omega, and return the outer loss. Nothing else changes."""
        loss = self.outer_loss(method, head, optimizer, groups, query)
        omega = list(self.g.parameters())
        gradients = torch.autograd.grad(loss, omega, allow_unused=True)
        known = [gradient for gradient in gradients if gradient is not None]
        if not known:
            raise MethodError(
                f"CBA has nothing to learn from: the loss of {type(method).__name__} does not depend on view.adapted. "
                "Take the cross-entropy of view.adapted instead of view.logits, or omit the adaptor."
            )
        if not are_finite(loss, *known):
            raise DivergenceError(
                "The outer loss of CBA or its gradient is NaN or infinite; the update was rolled back in the adaptor "
                "and the network. A lower learning rate may help."
            )
        for weight, gradient in zip(omega, gradients, strict=True):
            weight.grad = gradient
        self._step()
        return float(loss.detach())

    def _step(self) -> None:
        """Step Adam on omega with the gradients it has."""
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _seen_by(self, head: nn.Module, weights: Mapping[str, Tensor], view: View, *, corrected: bool) -> View:
        features = view.features.detach()
        with running_statistics(head) if len(features) == 1 else nullcontext():
            logits: Tensor = functional_call(head, dict(weights), (features,))
        seen = replace(view, features=features, logits=logits, adapted=logits)
        return self.correct(seen, learning=True) if corrected else seen

    @torch.no_grad()
    def grow(self, outputs: int) -> None:
        """Widen g to `outputs`. Old weights stay; new inputs and outputs start at zero, in Adam's averages too."""
        extra = outputs - self._outputs
        self._outputs = outputs
        first, last = self.g[0], self.g[-1]
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        first.in_features = last.out_features = outputs
        first.weight = self._widened(first.weight, (0, extra))
        last.weight = self._widened(last.weight, (0, 0, 0, extra))
        last.bias = self._widened(last.bias, (0, extra))

    def _widened(self, weight: Tensor, padding: tuple[int, ...]) -> nn.Parameter:
        """Return a wider parameter that replaces `weight` in Adam, which keeps its averages."""
        new = nn.Parameter(nn.functional.pad(weight, padding))
        averages = self.optimizer.state.pop(weight, {})
        self.optimizer.state[new] = {
            name: nn.functional.pad(value, padding) if value.shape == weight.shape else value
            for name, value in averages.items()
        }
        (group,) = self.optimizer.param_groups
        group["params"] = [new if each is weight else each for each in group["params"]]
        return new

    def state_dict(self) -> dict[str, Any]:
        counts = {"updates": self._updates, "boundaries": self._boundaries}
        return {"g": self.g.state_dict(), "optimizer": self.optimizer.state_dict(), **counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.g.load_state_dict(state["g"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.optimizer.zero_grad()  # a refused update may have left gradients
        self._updates, self._boundaries = state["updates"], state["boundaries"]

    def backup(self) -> Mapping[str, Any] | None:
        """Return a copy of the state at updates that may have an outer step; at others omega stays as it is."""
        return None if self._updates % self.every else super().backup()


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
