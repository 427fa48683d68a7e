"""The learner owns the step: it draws, forwards, corrects, steps and stores; the method defines what to minimise."""

import os
from collections.abc import Hashable, Mapping, Sequence
from math import isfinite, nan
from statistics import fmean
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from evenkeel.errors import CheckpointError, InputError, SettingsError
from evenkeel.learning import checkpoint
from evenkeel.learning.adaptors import Adaptor
from evenkeel.learning.augment import Augment, in_order
from evenkeel.learning.classifier import Classifier
from evenkeel.learning.compatibility import (
    make_cosine,
    memory_for,
    require_empty,
    require_held,
    require_parts,
    require_room,
    require_settings,
)
from evenkeel.learning.hashing import hash_keys
from evenkeel.learning.inputs import InputSpec, Moments
from evenkeel.learning.labels import LabelMap, as_labels
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.optimizers import MakeOptimizer, make_optimizer
from evenkeel.learning.registry import named_arguments
from evenkeel.learning.rng import Generators, make_generator, next_seed
from evenkeel.learning.step import Outcome, Step
from evenkeel.learning.types import Statistics, StepRecord

PARTS = ("net", "method", "adaptor", "memory", "optimizer", "augment", "normalize", "classes")
"""The arguments of a learner that are not plain settings: a checkpoint and a config describe each in its own way."""


class Learner:
    """A classifier that learns from a stream, batch by batch, and can be queried at any time.

    net: any `Net`. method: what to minimise. adaptor: corrects logits in training, such as `CBA()`; or None. memory:
    samples, bytes ("8MB") or a `Memory`. optimizer: one over `net.parameters()`, or a function that creates one.
    augment: applied to every training view; of a list, one after the other. normalize: (mean, std) per channel.
    classes: fix the labels and their outputs; otherwise they take outputs in order of arrival and the head grows. The
    other arguments are settings, described in the signature: a config, `evenkeel list` and a checkpoint take them from
    there.

    >>> from evenkeel.learning.zoo import mlp
    >>> from evenkeel.learning.methods import ER
    >>> learner = Learner(mlp(features=4, classes=2), ER(), memory=10)
    >>> record = learner.learn(torch.ones(2, 4), ["cat", "dog"])
    >>> learner.classes, record.stored, learner.predict(torch.ones(1, 4)).shape
    (['cat', 'dog'], 2, (1,))
    """

    def __init__(
        self,
        net: Net,
        method: Method,
        *,
        adaptor: Adaptor | None = None,
        memory: int | str | Memory = 500,
        optimizer: Optimizer | MakeOptimizer | None = None,
        augment: Augment | Sequence[Augment] | None = None,
        normalize: Moments | None = None,
        classes: Sequence[Hashable] | None = None,
        replay: Annotated[int, "Samples per draw from memory"] = 32,
        repeats: Annotated[
            int, "Updates per incoming batch, each with new views and draws; 10 is Repeated Augmented Rehearsal (RAR)"
        ] = 1,
        statistics: Annotated[
            Statistics, "Batches that update batch norm's running statistics: all, or only replayed ones"
        ] = "all",
        seed: Annotated[int, "Seed of everything random in here"] = 0,
    ) -> None:
        require_parts(net, method, adaptor, augment)
        require_settings(method, replay=replay, repeats=repeats, statistics=statistics, seed=seed)
        # A net that arrives entirely in evaluation mode (a pretrained one, say) is trained all the same, but parts put
        # into that mode on purpose (a frozen backbone, a frozen batch norm) stay in it.
        if not net.backbone.training and any(weight.requires_grad for weight in net.backbone.parameters()):
            net.train()
        self.net = net
        self.method = method
        self.adaptor = adaptor
        self.memory = memory if isinstance(memory, Memory) else memory_for(method, memory)
        require_empty(self.memory)
        self.augment = in_order(augment)
        self.replay = int(replay)  # numpy's numbers, too
        self.repeats = int(repeats)
        self.statistics = statistics
        self.seed = int(seed)
        self.step = 0  # calls of `learn`
        self.labels = LabelMap(classes)
        if len(self.labels.names) > net.outputs:
            raise SettingsError(
                f"classes has {len(self.labels.names)} labels, but the head has only {net.outputs} outputs."
            )
        if method.cosine_head:
            make_cosine(net, method, optimizer)
        self.optimizer = make_optimizer(optimizer, net)
        self._inputs = InputSpec(next(net.head.parameters()), normalize)
        self._classifier = Classifier(net, method, self.memory, self.labels, self._inputs)
        self._generators = Generators(self.seed)
        if adaptor is not None:
            adaptor.attach(net, self.optimizer, self.seed)
        method.prepare(net, self._generators["method"])
        method.split_memory(self.memory)
        require_held(method)
        for each in self.memories:
            each.to_network = self._inputs.to_network
        self._step = Step(
            net=net,
            method=method,
            adaptor=adaptor,
            memory=self.memory,
            optimizer=self.optimizer,
            augment=self.augment,
            inputs=self._inputs,
            generators=self._generators,
            replay=self.replay,
            statistics=statistics,
        )

    def __setattr__(self, name: str, value: object) -> None:
        if "_step" in self.__dict__ and name in Step.__dataclass_fields__:
            raise AttributeError(f"{name} cannot be replaced in a learner. Create another learner with another {name}.")
        super().__setattr__(name, value)

    @property
    def classes(self) -> list[Hashable]:
        """Return the labels known so far, in the order of the head's outputs."""
        return list(self.labels.names)

    @property
    def memories(self) -> list[Memory]:
        """Return the memory and, if the method has one of its own, that too."""
        return [self.memory] if self.method.held is None else [self.memory, self.method.held]

    @property
    def stored(self) -> dict[Hashable, int]:
        """Return the number of samples in memory for each known label."""
        counts = torch.zeros(len(self.labels.names), dtype=torch.int64)
        for memory in self.memories:
            if len(memory):
                counts += memory.column("y").cpu().bincount(minlength=len(counts))
        return dict(zip(self.labels.names, counts.tolist(), strict=True))

    # Learning

    def learn(self, x: object, y: object, *, key: object = None) -> StepRecord:
        """Learn one batch. `key`: identifies the samples for a later `forget`, one per sample or one for all."""
        batch, labels = self._inputs.check(x), as_labels(y)
        if len(batch) == 0:
            raise InputError("The batch is empty.")
        if len(batch) != len(labels):
            raise InputError(f"x has {len(batch)} samples but y has {len(labels)} labels.")
        keys = hash_keys(key, len(batch)).to(batch.device)
        new = self.labels.unknown(labels)
        if self._inputs.shape is None:
            self._inputs.fits(batch, self._classifier.classify)
            require_room(self.memories, batch)
            if self.augment is not None:
                self.augment(batch[:1].clone(), torch.Generator())  # raises if it cannot process such samples
        if len(self.labels.names) + len(new) > self.net.outputs:
            self.grow(len(self.labels.names) + len(new))
        self._inputs.accept(batch)
        self.labels.add(new)
        rows = {"x": batch, "y": self.labels.outputs(labels).to(batch.device), "key": keys}
        try:
            rows, apart = self._without_held_out(rows)
            outcomes = self._train(rows)
        except BaseException:
            self.labels.drop(new)  # a label that was not learned must not be predicted
            raise
        if self.method.held is not None and len(apart["y"]):
            self.method.held.insert(apart, self._generators["memory"])
        self.step += 1
        outer = [outcome.outer_loss for outcome in outcomes if outcome.outer_loss is not None]
        return StepRecord(
            step=self.step,
            samples=len(batch),
            updates=len(outcomes),
            loss=fmean(outcome.loss for outcome in outcomes) if outcomes else None,
            outer_loss=fmean(outer) if outer else None,
            replayed=sum(outcome.replayed for outcome in outcomes),
            stored=sum(map(len, self.memories)),
            seen=sum(memory.seen for memory in self.memories),
            classes=len(self.labels.names),
        )

    def _without_held_out(self, rows: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the rows to train on and those that the method holds out; most methods have no memory for any."""
        if self.method.held is None:
            return rows, {}
        chosen = self.method.hold_out(rows["x"], rows["y"], self.memory, self._generators["memory"])
        kept, apart = ({name: column[which] for name, column in rows.items()} for which in (~chosen, chosen))
        return kept, apart

    def _train(self, rows: Mapping[str, Tensor]) -> list[Outcome]:
        """Update on the rows that are not held out, then store them."""
        if not len(rows["y"]):
            return []
        with torch.inference_mode(False), torch.enable_grad():
            outcomes = [self._step(rows["x"], rows["y"]) for _ in range(self.repeats)]
        columns = self._step.remembered(outcomes[0].new)  # as it was before any update on these samples
        if self.method.rehearses:
            self.memory.insert({**rows, **columns}, self._generators["memory"])
        return outcomes

    def boundary(self) -> None:
        """Signal the end of a task. Most methods ignore it; for one with `needs_boundaries`, everything belongs to the
        first task until this is called.
        """
        with torch.inference_mode(False), torch.enable_grad():
            self.method.boundary(self.net, self.memory)
        if self.adaptor is not None:
            self.adaptor.boundary()

    def forget(self, key: Hashable) -> int:
        """Remove all samples learned with this key from memory, and return how many there were.

        The weights keep what they learned from them; nothing here can undo that.
        """
        return sum(memory.remove(key) for memory in self.memories)

    def grow(self, outputs: int) -> None:
        """Make room for `outputs` classes: in the head, in each net the method holds, in the adaptor, in stored logits.

        `learn` calls it when a new label has no free output. The existing logits keep every bit.
        """
        self.net.require_growable(outputs)
        seed = next_seed(self._generators["grow"])
        for new, old in self.net.grow(outputs, seed):
            for group in self.optimizer.param_groups:
                if any(weight is old for weight in group["params"]):
                    group["params"].append(new)
        for part in self.method.modules():
            if isinstance(part, Net) and part.outputs < outputs:  # not the net itself, if the method holds it
                part.grow(outputs, seed)
        self.method.grow(outputs)
        for name in self.method.logit_columns:
            self.memory.widen(name, outputs)
        if self.adaptor is not None:
            self.adaptor.grow(outputs)

    # Predicting

    def logits(self, x: object) -> Tensor:
        """Return (n, outputs) scores of all outputs, labelled or not. Changes nothing; the adaptor is not used."""
        return self._classifier.logits(x)

    def predict_proba(self, x: object) -> NDArray[np.float64]:
        """Return (n, classes) probabilities, in the order of `classes`."""
        return self._classifier.predict_proba(x)

    def predict(self, x: object) -> NDArray[Any]:
        """Return the most likely known label of each sample. Changes nothing; the adaptor is not used."""
        return self._classifier.predict(x)

    def snapshot(self) -> Classifier:
        """Return a frozen copy for prediction that is safe to use while this learner keeps learning."""
        return self._classifier.snapshot()

    def alignment(self, x: object, y: object) -> tuple[float, float, float] | None:
        """Return the gradient alignment on a possible next batch (Theorem 1 of the CBA paper). Changes nothing.

        The cosine between the gradients of the training loss, with the adaptor, and of the memory loss, without it; and
        their norms. None while the memory is empty, if a label is new, or if a gradient is zero.
        """
        batch, labels = self._inputs.check(x), as_labels(y)
        if not len(self.memory) or any(label not in self.labels for label in labels):
            return None
        generator = make_generator(self.seed, f"alignment {self.step}")
        with torch.inference_mode(False), torch.enable_grad():
            training, memory = self._step.gradients(batch, self.labels.outputs(labels).to(batch.device), generator)
        norms = float(training.norm()), float(memory.norm())
        cosine = float(training @ memory) / (norms[0] * norms[1]) if all(norms) else nan
        return (cosine, *norms) if isfinite(cosine) else None

    # Saving and resuming

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, for `load` to resume bit for bit. An interrupted save keeps the older file."""
        checkpoint.write(path, *self.state())

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the whole state of this learner: facts as JSON, and nested dicts of tensors (not copied)."""
        facts = {
            **checkpoint.facts_of(self._step),
            "settings": {name: getattr(self, name) for name in named_arguments(Learner) if name not in PARTS},
            "labels": self.labels.state(),
            "step": self.step,
        }
        return facts, checkpoint.tensors_of(self._step)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        net: Net | None = None,
        method: Method | None = None,
        adaptor: Adaptor | None = None,
        memory: Memory | None = None,
        optimizer: Optimizer | MakeOptimizer | None = None,
        augment: Augment | Sequence[Augment] | None = None,
        labels: Sequence[Hashable] | None = None,
    ) -> "Learner":
        """Return the learner of a checkpoint; it resumes bit for bit on the same kind of machine and number of threads.

        Parts of this library are rebuilt from the file. Your own parts must be passed again, as they were at the start:
        `net`, `method`, ..., `optimizer` (a function of parameters), and `labels` of types that JSON cannot hold.
        """
        facts, tensors = checkpoint.read(path)
        parts = checkpoint.rebuild_parts(
            facts, net=net, method=method, adaptor=adaptor, memory=memory, optimizer=optimizer, augment=augment
        )
        learner = cls(**parts, **facts["settings"])
        learner.labels = learner._classifier.labels = LabelMap.from_state(facts["labels"], labels)
        learner.step = facts["step"]
        try:
            checkpoint.fill(learner._step, facts, tensors)
        except (RuntimeError, ValueError) as error:
            reason = str(error).strip().replace("\n\t", " ")
            raise CheckpointError(f"{str(path)!r} does not match the parts given: {reason}") from error
        return learner
