"""Logit adjustment by a running class prior: what balance asks for is known from labels alone, at every update.

A stream shows a classifier far more of the newest classes than of the old ones in its memory. If the loss sees f + o
with o = tau log pi, pi the shares of the classes in training, then f itself is the classifier for equal shares (Menon
et al. 2021). Prediction never uses o.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from evenkeel.errors import SettingsError, above_zero, at_least_zero, whole_number
from evenkeel.learning.adaptors.base import Adaptor
from evenkeel.learning.adaptors.bilevel import (
    VirtualStep,
    assign_gradients,
    balanced_loss,
    lacks_a_stored_class,
    require_trained_head,
    require_unrollable,
)
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods.base import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.torch_utils import sent
from evenkeel.learning.types import View

LEARNED = "learned"
LEAST = 1e-3  # a class has at least this share, divided by the number of classes: it bounds o from below


class Prior(Adaptor):
    """The running class prior of one learner: its settings and its state.

    pi_now = a (class shares of the incoming batch) + (1 - a) (class shares of memory), a the method's `share_of_new`;
    the batch alone while nothing is replayed. pi = (1 - rate) pi + rate pi_now at every update (with repeats, several
    times per batch, as the network moves several times), and pi_now itself at the first.
    o(c) = tau log max(pi(c), 1e-3 / number of classes with pi > 0), added to `adapted`, but not to `comparable`.

    tau: the strength of the correction, or "learned": it starts at 1, and Adam fits log tau (at the rate `lr`, at every
    n-th update, `every`, in which memory holds a class that the batch lacks) to the moved plain head: CBA's outer step
    for a single number. Its loss is the cross-entropy over a fresh memory draw and the incoming batch, in which every
    known class has the same weight. It needs an optimizer that can be unrolled; a fixed tau works with any. rate: of
    the running average; 0.2 remembers about five updates.

    >>> Prior(tau="learned")
    Prior(tau='learned', rate=0.2, every=5, lr=0.01)
    """

    def __init__(self, *, tau: float | str = 1.0, rate: float = 0.2, every: int = 5, lr: float = 0.01) -> None:
        if isinstance(tau, str) and tau != LEARNED:
            raise SettingsError(f"tau={tau!r} must be a number of at least 0, or 'learned'.")
        self.tau = tau if isinstance(tau, str) else at_least_zero("tau", tau)
        self.rate = above_zero("rate", rate)
        if rate > 1:
            raise SettingsError(f"rate={rate!r} must be at most 1, which keeps nothing of earlier updates.")
        self.every = whole_number("every", every, at_least=1)
        self.lr = above_zero("lr", lr)
        self.uses_query = self.is_learned
        self.title = "Prior, learned" if self.is_learned else "Prior"
        self._updates = 0
        self._pi: Tensor | None = None  # (outputs,) the running prior; zeros before the first update
        self._stored: Tensor  # (outputs,) class shares of memory at the update being made

    @property
    def is_learned(self) -> bool:
        """Return whether tau is fitted."""
        return self.tau == LEARNED

    @property
    def strength(self) -> float:
        """Return tau as it is now."""
        return float(self._log_tau.detach().exp()) if self.is_learned else float(self.tau)

    def attach(self, net: Net, optimizer: Optimizer, seed: int) -> None:
        if self._pi is not None:
            raise SettingsError("This Prior already belongs to a learner; create a new one for each learner.")
        if self.is_learned:
            require_unrollable("Prior(tau='learned')", optimizer, "a fixed tau, such as Prior(tau=1.0)")
            require_trained_head("Prior(tau='learned')", net, optimizer)
        like = next(net.head.parameters()).detach()
        self._pi = like.new_zeros(net.outputs)
        self._log_tau = nn.Parameter(like.new_zeros(()))
        self._optimizer = Adam([self._log_tau], lr=self.lr)

    @property
    def pi(self) -> Tensor:
        """Return (outputs,) the running class prior."""
        assert self._pi is not None
        return self._pi

    @torch.no_grad()
    def observe(self, method: Method, groups: Sequence[View], memory: Memory) -> None:
        """Move the running prior toward the class shares of this update."""
        new, *old = groups
        now = self._shares(new.y_host)
        self._stored = self._shares(memory.column("y")) if len(memory) else torch.zeros_like(now)
        if old:
            share = method.share_of_new(len(new.y), len(old[0].y))
            now = share * now + (1 - share) * self._stored
        self._pi = self.pi.lerp(now, self.rate) if self._updates else now

    def _shares(self, y: Tensor) -> Tensor:
        """Return (outputs,) the shares of these classes, which are on the host."""
        counts = torch.zeros(len(self.pi), dtype=y.dtype).index_add_(0, y, torch.ones_like(y))
        return sent(counts.to(self.pi.dtype) / len(y), self.pi.device)

    def correct(self, view: View, *, learning: bool = False) -> View:
        """Return the view with o added to its `adapted` logits."""
        return replace(view, adapted=view.adapted + self.offset(learning=learning))

    def offset(self, *, learning: bool = False) -> Tensor:
        """Return (outputs,) o = tau log pi. tau is a constant unless `learning`."""
        least = LEAST / (self.pi > 0).sum().to(self.pi.dtype)
        log_pi = torch.maximum(self.pi, least).log()
        if not self.is_learned:
            return float(self.tau) * log_pi
        return (self._log_tau if learning else self._log_tau.detach()).exp() * log_pi

    def due(self, y: Tensor, memory: Memory) -> bool:
        if not self.is_learned or not len(memory) or self._updates % self.every:
            return False
        return lacks_a_stored_class(y, memory)

    def update(
        self, method: Method, head: nn.Module, optimizer: Optimizer, groups: Sequence[View], query: Sequence[View]
    ) -> Tensor:
        """Take one outer step, Adam on log tau, and return the outer loss."""
        views, weights = [groups[0], *query], [self._log_tau]
        offset = self.offset(learning=True)
        step = VirtualStep(method, head, optimizer, groups, lambda logits: (logits + offset, logits), through=False)
        loss, gradients = step.outer_gradients(self.balanced, views, weights)
        outer = assign_gradients("Prior(tau='learned')", method, loss, weights, gradients)
        self._optimizer.step()
        self._optimizer.zero_grad()
        return outer

    def balanced(self, views: Sequence[View]) -> Tensor:
        """Return the outer loss of the incoming batch, which is the first view, and the memory draws after it."""
        return balanced_loss(views[0], views[1:], self._stored)

    def after_step(self, *, learned: bool) -> None:
        self._updates += 1

    def grow(self, outputs: int) -> None:
        """Widen the prior: a class has no share before its first sample."""
        self._pi = nn.functional.pad(self.pi, (0, outputs - len(self.pi)))

    def state_dict(self) -> dict[str, Any]:
        state = {"pi": self.pi, "updates": self._updates}
        if self.is_learned:
            state |= {"log_tau": self._log_tau.detach(), "optimizer": self._optimizer.state_dict()}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._pi = state["pi"].to(self.pi).clone()
        self._updates = state["updates"]
        if self.is_learned:
            with torch.no_grad():
                self._log_tau.copy_(state["log_tau"])
            self._optimizer.load_state_dict(state["optimizer"])
            self._optimizer.zero_grad()  # a refused update may have left a gradient
