"""The Continual Bias Adaptor: a small network behind the logits, trained by bi-level optimisation (the CBA paper).

During training the loss sees F = f + g_omega(f) instead of the plain logits f, so g can absorb the bias toward the
newest classes and f need not. omega is trained for the performance of f without it: a virtual step of the head with the
corrected loss, then a step of omega down the plain loss of the moved head on memory. Prediction never uses g.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Adam, Optimizer

from evenkeel.errors import SettingsError, one_of, whole_number
from evenkeel.learning.adaptors.base import Adaptor
from evenkeel.learning.adaptors.bilevel import (
    VirtualStep,
    assign_gradients,
    lacks_a_stored_class,
    require_trained_head,
    require_unrollable,
)
from evenkeel.learning.adaptors.prior import Prior
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods.base import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.optimizers import lean_step
from evenkeel.learning.rng import derive, global_seed
from evenkeel.learning.torch_utils import copied, row_length, with_columns, with_row_length, with_rows
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
    ("joint") or with the memory loss of the plain head added ("joint+memory"). prior: F = f + o + g with the offset o
    of `Prior()`, so that g has left to learn only what is no shift of class shares: it starts at zero, and the outer
    loss is that of `Prior(tau="learned")`, with the same weight for every known class.

    >>> CBA.as_paper()
    CBA(hidden=(256,), every=1, start='first', lr=0.001, input='logits', through=True, training='bilevel', prior=False)
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
        prior: bool = False,
    ) -> None:
        one_of("start", start, STARTS)
        one_of("input", input, INPUTS)
        one_of("training", training, TRAININGS)
        one_of("prior", prior, (True, False))
        if prior and training != "bilevel":
            raise SettingsError(f"prior=True has an outer loss of its own, which training={training!r} does not use.")
        if isinstance(hidden, int) or not len(hidden):
            raise SettingsError(f"hidden={hidden!r} must list the units of at least one hidden layer, as in (256,).")
        self.hidden = tuple(whole_number("hidden", units, at_least=1) for units in hidden)
        self.every = whole_number("every", every, at_least=1)
        self.start = start
        self.lr = float(lr)
        self.input = input
        self.through = through
        self.training = training
        self.prior = bool(prior)
        self.title = "CBA with prior" if prior else "CBA"
        self.needs_boundaries = start == "second-task"
        self.joint = training != "bilevel"
        self.uses_query = training != "joint"
        self._updates = 0  # since the last boundary
        self._boundaries = 0
        self._outputs = 0
        self._prior = Prior() if prior else None

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
        if self.training == "bilevel":
            require_unrollable("CBA", optimizer, "CBA(training='joint')")
        require_trained_head("CBA", net, optimizer)
        self._outputs = net.outputs
        sizes = (net.outputs, *self.hidden, net.outputs)
        with global_seed(derive(seed, "adaptor")):
            linear = [nn.Linear(a, b) for a, b in pairwise(sizes)]
            for layer in linear:
                nn.init.xavier_normal_(layer.weight)
                nn.init.zeros_(layer.bias)
        if self._prior is not None:
            self._prior.attach(net, optimizer, seed)
            nn.init.zeros_(linear[-1].weight)
        layers = [part for layer in linear for part in (layer, nn.ReLU())][:-1]
        self.g = nn.Sequential(*layers).to(next(net.head.parameters()))
        # A fused step takes half of the time, and rounds differently.
        self.optimizer = Adam(self.g.parameters(), lr=self.lr, fused=None if self.joint else True)

    def observe(self, method: Method, groups: Sequence[View], memory: Memory) -> None:
        if self._prior is not None:
            self._prior.observe(method, groups, memory)

    def due(self, y: Tensor, memory: Memory) -> bool:
        """Return whether omega is trained at this update; `y` are the outputs of the incoming batch."""
        if not len(memory) or self._updates % self.every:
            return False
        if self.start == "second-task":
            return self._boundaries > 0
        return self.start == "first" or lacks_a_stored_class(y, memory)

    def after_step(self, *, learned: bool) -> None:
        """Count an update after the network's step, and step omega too if it has `learned`, that is, has gradients."""
        if learned:
            self._step()
        self._updates += 1
        if self._prior is not None:
            self._prior.after_step(learned=False)

    def boundary(self) -> None:
        """Count a boundary between tasks, and restart the count of updates."""
        self._boundaries += 1
        self._updates = 0

    def correct(self, view: View, *, learning: bool = False) -> View:
        adapted, comparable = self._adapted(view.logits, learning=learning)
        return View(view.x, view.y, view.stored, view.features, view.logits, adapted, comparable, view.on_host)

    def _adapted(self, logits: Tensor, *, learning: bool) -> tuple[Tensor, Tensor]:
        """Return the adapted logits, and the comparable ones, which have no offset of a prior."""
        corrected = self.corrected(logits, learning=learning)
        return corrected if self._prior is None else corrected + self._prior.offset(), corrected

    def corrected(self, logits: Tensor, *, learning: bool = False) -> Tensor:
        """Return F = f + g(f), (n, outputs). omega is a constant unless `learning`."""
        residual = logits if self.through else logits.detach()
        if self.input == "probabilities":
            residual = residual.softmax(dim=1)
        weights = iter(self._omega if learning else [weight.detach() for weight in self._omega])
        residual = F.linear(residual, next(weights), next(weights))
        for weight in weights:  # without calls of modules, which take longer than this arithmetic
            residual = F.linear(residual.relu_(), weight, next(weights))
        return logits + residual

    def update(
        self, method: Method, head: nn.Module, optimizer: Optimizer, groups: Sequence[View], query: Sequence[View]
    ) -> Tensor:
        """Take one outer step, Adam on omega, and return the outer loss. Nothing else changes.

        It is L_buf(W'(omega)), with W' the head after one virtual step (Eq. 5 and 6, unrolled in the head).
        """
        views = query if self._prior is None else [groups[0], *query]
        objective = method.query_loss if self._prior is None else self._prior.balanced
        step = VirtualStep(method, head, optimizer, groups, partial(self._adapted, learning=True), self.through)
        loss, gradients = step.outer_gradients(objective, views, self._omega)
        outer = assign_gradients("CBA", method, loss, self._omega, gradients)
        self._step()
        return outer

    @property
    def _omega(self) -> list[Tensor]:
        """Return the weight and the bias of each layer of g, in order."""
        (group,) = self.optimizer.param_groups
        weights: list[Tensor] = group["params"]
        return weights

    def _step(self) -> None:
        """Step Adam on omega with the gradients it has."""
        lean_step(self.optimizer)
        for weight in self._omega:
            weight.grad = None

    @torch.no_grad()
    def grow(self, outputs: int) -> None:
        """Widen g to `outputs`. Old weights stay; new inputs and outputs start at zero, in Adam's averages too."""
        rows = partial(with_rows, rows=outputs)
        self._outputs = outputs
        first, last = self._first, self.g[-1]
        assert isinstance(last, nn.Linear)
        first.in_features = last.out_features = outputs
        first.weight = self._widened(first.weight, partial(with_columns, columns=outputs))
        last.weight = self._widened(last.weight, rows)
        last.bias = self._widened(last.bias, rows)
        if self._prior is not None:
            self._prior.grow(outputs)

    @property
    def _first(self) -> nn.Linear:
        first = self.g[0]
        assert isinstance(first, nn.Linear)
        return first

    def _widened(self, weight: Tensor, widen: Callable[[Tensor], Tensor]) -> nn.Parameter:
        """Return a wider parameter that replaces `weight` in Adam, which keeps its averages."""
        new = nn.Parameter(widen(weight))
        averages = self.optimizer.state.pop(weight, {})
        self.optimizer.state[new] = {
            name: widen(value) if value.shape == weight.shape else value for name, value in averages.items()
        }
        (group,) = self.optimizer.param_groups
        group["params"] = [new if each is weight else each for each in group["params"]]
        return new

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the state, without the room to spare that a tensor may have.

        The length of the input layer's rows is part of it: a product with other rows might round differently.
        """
        counts = {"updates": self._updates, "boundaries": self._boundaries}
        prior = {} if self._prior is None else {"prior": self._prior.state_dict()}
        length = row_length(self._first.weight)
        room = {} if length == self._outputs else {"row_length": length}
        state = {"g": dict(self.g.state_dict()), "optimizer": self.optimizer.state_dict(), **counts, **prior, **room}
        copy: dict[str, Any] = copied(state)
        return copy

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        length = state.get("row_length", self._outputs)  # without growth there is no room to spare
        if length != row_length(self._first.weight):
            self._first.weight = self._widened(self._first.weight, partial(with_row_length, length=length))
        self.g.load_state_dict(state["g"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.optimizer.zero_grad()  # a refused update may have left gradients
        self._updates, self._boundaries = state["updates"], state["boundaries"]
        if self._prior is not None:
            self._prior.load_state_dict(state["prior"])

    def backup(self) -> Mapping[str, Any] | None:
        """Return what an outer step changes, in a third of the time of `state_dict`; None if none can be due."""
        if self._prior is None and self._updates % self.every:
            return None
        omega = [
            (weight, weight.detach().clone(), copied(self.optimizer.state.get(weight, {}))) for weight in self._omega
        ]
        return {"omega": omega, "prior": None if self._prior is None else self._prior.backup()}

    @torch.no_grad()
    def restore(self, kept: Mapping[str, Any]) -> None:
        self.optimizer.state.clear()
        for weight, value, averages in kept["omega"]:
            weight.copy_(value)
            weight.grad = None
            if averages:
                self.optimizer.state[weight] = averages
        if self._prior is not None:
            self._prior.restore(kept["prior"])
