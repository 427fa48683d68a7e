"""One update: forward the new batch and memory draws, train the adaptor if due, step the network."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from math import isfinite, nan
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from evenkeel.errors import MethodError, SettingsError
from evenkeel.learning import finite
from evenkeel.learning.adaptors import Adaptor
from evenkeel.learning.augment import Augment
from evenkeel.learning.average import Average
from evenkeel.learning.devices import autocast
from evenkeel.learning.inputs import InputSpec
from evenkeel.learning.memory import OWN_COLUMNS, Memory
from evenkeel.learning.methods import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.rng import Generators, global_seed, next_seed
from evenkeel.learning.rollback import Before
from evenkeel.learning.torch_utils import full, running_statistics, scratch_buffers, sent
from evenkeel.learning.types import Draw, Precision, View


@dataclass(frozen=True)
class Outcome:
    """The result of one update."""

    columns: Mapping[str, Tensor]  # what the method stores with the batch, if this is the first update on it
    loss: float
    outer_loss: float | None
    replayed: int


@dataclass(frozen=True)
class Step:
    """The parts involved in an update. Call it with a batch and its outputs."""

    net: Net
    method: Method
    adaptor: Adaptor | None
    memory: Memory
    optimizer: Optimizer
    augment: Augment | None
    inputs: InputSpec
    generators: Generators
    replay: int
    statistics: str
    average: Average | None
    distill: float
    precision: Precision
    device: torch.device  # where the network is

    def __call__(self, batch: Tensor, y: Tensor, *, first: bool = True) -> Outcome:
        before = self._before()
        with global_seed(next_seed(self.generators["net"]), self.device):
            try:
                outcome, jointly = self._gradients(batch, y, before, first=first)
            except BaseException:  # of any kind: a batch that was not learned must leave no trace
                before.restore()
                raise
            self.optimizer.step()
            if self.adaptor is not None:
                self.adaptor.after_step(learned=jointly)
            self.method.after_step(self.net)
            if self.average is not None:
                self.average.follow()
        return outcome

    def without_held_out(self, rows: dict[str, Tensor], given: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the rows to train on and those that the method holds out; most methods have no memory for any.

        `given`: the samples as they came. An encoder's outputs differ in their last bits from batch to batch.
        """
        if self.method.held is None:
            return rows, {}
        chosen = self.method.hold_out(given, rows["y"], self.memory, self.generators["memory"])
        kept, apart = ({name: column[which] for name, column in rows.items()} for which in (~chosen, chosen))
        return kept, apart

    def train(self, rows: Mapping[str, Tensor], repeats: int) -> list[Outcome]:
        """Make `repeats` updates on the rows, then store them."""
        if not len(rows["y"]):
            return []
        x = sent(rows["x"], self.memory.place or self.device)
        updates = repeats if self.method.trains else 0
        outcomes = [self(x, rows["y"], first=place == 0) for place in range(updates)]
        columns = outcomes[0].columns if outcomes else {}  # as they were before any update on these samples
        if self.method.rehearses:
            self.memory.insert({**rows, "x": x, **columns}, self.generators["memory"])
        return outcomes

    def _before(self) -> Before:
        return Before.of(self.net, self.method, self.adaptor, self.generators)

    def _gradients(self, batch: Tensor, y: Tensor, before: Before, *, first: bool) -> tuple[Outcome, bool]:
        """Do everything up to the optimizer's step; return the outcome and whether the adaptor has gradients too."""
        augment = self.generators["augment"]
        draws = self._training_draws(batch, y, self.generators["draw"], augment)
        self.method.before_step(self.net, draws[0])
        groups = self._forward(draws)
        numbers: dict[str, Sequence[Tensor | float]] = {"A logit": finite.sizes([view.logits for view in groups])}
        # An input of 1e30 may overflow a running variance although every logit is finite.
        moving = [(now, then) for now, then in before.statistics if now.device == self.device]
        numbers["A running statistic"] = finite.spoiled(moving)

        jointly, query = False, list[View]()
        if self.adaptor is not None:
            self.adaptor.observe(self.method, groups, self.memory)
            due = self.adaptor.due(y, self.memory)
            jointly = due and self.adaptor.joint
            if due and self.adaptor.uses_query and len(self.memory):
                query = self._query(self.generators["query"], with_gradient=jointly)
            if due and not jointly:
                outer = self.adaptor.update(self.method, self.net.head, self.optimizer, groups, query)
                numbers[self._outer] = [] if outer is None else [outer]
            groups = [self.adaptor.correct(view, learning=jointly) for view in groups]

        new, *old = groups
        loss = self._training_loss(groups)
        if jointly and query:
            with self._autocast():
                loss = loss + self.method.query_loss(query)
        if not loss.requires_grad:
            raise SettingsError("There is nothing to train: the loss depends on no weight that requires a gradient.")
        weights = [*self.net.parameters(), *self.method.parameters()]
        for weight in weights:
            weight.grad = None
        loss.backward()
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        numbers |= {"The loss": [loss], "A gradient": finite.sizes(gradients)}
        columns = self.remembered(_first(new, len(y))) if first else {}
        if self.memory.place == self.device:
            values, _ = finite.read(numbers)
        else:
            values, on_host = finite.read(numbers, list(columns.values()))
            columns = dict(zip(columns, on_host, strict=True))
        replayed = sum(len(view.y) for view in old) // (1 + self.method.second_view)
        outer_loss = next(iter(values.get(self._outer, [])), None)
        return Outcome(columns, values["The loss"][0], outer_loss, replayed), jointly

    @property
    def _outer(self) -> str:
        return f"The outer loss of {type(self.adaptor).__name__} or its gradient"

    def _training_loss(self, groups: Sequence[View]) -> Tensor:
        with self._autocast():
            loss = self.method.loss(groups[0], groups[1:])
            if self.average is None or not self.distill:
                return loss
            return loss + self.distill * self.average.distillation(groups, joint=self.method.joint_forward)

    def _autocast(self) -> AbstractContextManager[object]:
        return autocast(self.device, self.precision)

    def _shown(self, x: Tensor, y: Tensor, columns: Mapping[str, Tensor], generator: torch.Generator) -> Draw:
        """Return samples as the network is shown them: augmented and, if the method wants that, also as they are.

        y: their outputs, on the host.
        """
        plain = self.inputs.to_network(x) if self.method.second_view else None
        x = self.inputs.to_network(x if self.augment is None else self.augment(x, generator))
        stored = {name: sent(column, x.device) for name, column in columns.items()}
        if plain is not None:
            stored = {name: torch.cat([column, column]) for name, column in stored.items()}
            x, y = torch.cat([x, plain]), torch.cat([y, y])
        return Draw(x, sent(y, x.device), stored, on_host=y)

    def _training_draws(self, batch: Tensor, y: Tensor, draw: torch.Generator, augment: torch.Generator) -> list[Draw]:
        """Return the incoming batch, and as many memory draws as the method uses."""
        # The batch itself is stored later, so that no augmentation may write into it.
        new = self._shown(batch if self.augment is None else batch.clone(), y, {}, augment)
        drawn = partial(self._draw, draw, augment)
        old = [
            self.method.retrieve(self.net, self.optimizer, new, drawn, self.replay)
            for _ in range(self.method.draws if len(self.memory) else 0)
        ]
        return [self._recalled(new) if self.method.recalls_new else new, *map(self._recalled, old)]

    def _draw(self, draw: torch.Generator, augment: torch.Generator, count: int) -> Draw:
        columns = self.memory.draw(count, draw)
        return self._shown(columns.pop("x"), columns.pop("y"), columns, augment)

    def _recalled(self, draw: Draw) -> Draw:
        if type(self.method).recall is Method.recall:  # most methods recall nothing
            return draw
        with torch.no_grad(), self._autocast():
            recalled = {name: full(column) for name, column in self.method.recall(draw).items()}
        return replace(draw, stored={**draw.stored, **recalled})

    def remembered(self, view: View) -> dict[str, Tensor]:
        """Return the columns that the method stores with the samples of `view`; raise MethodError if one is invalid."""
        columns = {name: column.detach() for name, column in self.method.remember(view).items()}
        known = self.memory.extra_columns
        if known is not None and columns.keys() != known:
            raise MethodError(
                f"`remember` must always return the same columns: {sorted(known)}, not {sorted(columns)}."
            )
        for name, column in columns.items():
            if name in OWN_COLUMNS:
                raise MethodError(f"`remember` returned a column {name!r}, but the memory uses that name itself.")
            if len(column) != len(view.y):
                raise MethodError(f"`remember` returned {len(column)} rows of {name!r} for {len(view.y)} samples.")
        return columns

    def alignment(self, batch: Tensor, y: Tensor, generator: torch.Generator) -> tuple[float, float, float] | None:
        """Return the cosine between the two `gradients` and their norms; None if one of them is zero."""
        training, memory = self.gradients(batch, y, generator)
        norms = float(training.norm()), float(memory.norm())
        cosine = float(training @ memory) / (norms[0] * norms[1]) if all(norms) else nan
        return (cosine, *norms) if isfinite(cosine) else None

    def gradients(self, batch: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the flat gradients of the training loss with the adaptor and of the memory loss without it.

        They are those of a possible next step, with views and draws from `generator`, with respect to the net's
        weights. Changes nothing.
        """
        before = self._before()
        try:
            with global_seed(next_seed(generator), self.device), scratch_buffers(self.net):
                draws = self._training_draws(batch, y, generator, generator)
                self.method.before_step(self.net, draws[0])
                groups = self._forward(draws)
                if self.adaptor is not None:
                    self.adaptor.observe(self.method, groups, self.memory)
                    groups = [self.adaptor.correct(view) for view in groups]
                training = self._training_loss(groups)
            memory = self.method.query_loss(self._query(generator, with_gradient=True))
            weights = [weight for weight in self.net.parameters() if weight.requires_grad]
            by_weight = (
                torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
                for loss in (training, memory)
            )
            of_training, of_memory = (torch.cat([part.flatten() for part in parts]) for parts in by_weight)
        finally:
            before.restore()
        return of_training, of_memory

    def _query(self, generator: torch.Generator, *, with_gradient: bool) -> list[View]:
        """Return fresh memory draws for the outer objective, forwarded without moving the running statistics."""
        with (
            global_seed(next_seed(generator), self.device),
            scratch_buffers(self.net),
            torch.set_grad_enabled(with_gradient),
        ):
            return [
                self._joint(self._draw(generator, generator, self.replay))[0] for _ in range(max(1, self.method.draws))
            ]

    def _forward(self, draws: Sequence[Draw]) -> list[View]:
        """Forward the new batch, then the old ones, each with its own batch statistics unless the method joins them."""
        if self.method.joint_forward:
            return self._joint(*draws)
        with scratch_buffers(self.net) if self.statistics == "replay" else nullcontext():
            views = self._joint(draws[0])
        for draw in draws[1:]:
            views += self._joint(draw)
        return views

    def _joint(self, *draws: Draw) -> list[View]:
        """Forward all the draws as one batch and split the result; a view's logits are one tensor until corrected."""
        x = torch.cat([draw.x for draw in draws]) if len(draws) > 1 else draws[0].x
        with running_statistics(self.net) if len(x) == 1 else nullcontext(), self._autocast():
            features = self.net.features(x)
            logits: Tensor = self.net.head(features)
        features, logits = full(features), full(logits)
        if len(draws) == 1:
            parts = [(draws[0], features, logits)]
        else:
            sizes = [len(draw.y) for draw in draws]
            parts = list(zip(draws, features.split(sizes), logits.split(sizes), strict=True))
        return [
            View(draw.x, draw.y, draw.stored, feature, logit, logit, logit, draw.on_host)
            for draw, feature, logit in parts
        ]


def _first(view: View, count: int) -> View:
    """Return the first samples of a view, without the second views of them."""
    if len(view.y) == count:
        return view
    parts = {each.name: getattr(view, each.name) for each in fields(view) if each.name != "stored"}
    stored = {name: column[:count] for name, column in view.stored.items()}
    rows: dict[str, Any] = {name: None if part is None else part[:count] for name, part in parts.items()}
    return View(**rows, stored=stored)
