"""The learner owns the step: it draws, forwards, corrects, steps and stores; the method defines what to minimise."""

import os
from collections.abc import Hashable, Sequence
from statistics import fmean
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from evenkeel.errors import CheckpointError, InputError
from evenkeel.learning import checkpoint, compatibility, growth
from evenkeel.learning.adaptors import Adaptor
from evenkeel.learning.augment import Augment, in_order
from evenkeel.learning.augment.base import require_view
from evenkeel.learning.classifier import Classifier
from evenkeel.learning.construction import connect
from evenkeel.learning.devices import computing, find_device
from evenkeel.learning.hashing import hash_keys
from evenkeel.learning.inputs import Moments
from evenkeel.learning.labels import LabelMap, as_labels
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.optimizers import MakeOptimizer
from evenkeel.learning.registry import named_arguments
from evenkeel.learning.rng import make_generator
from evenkeel.learning.step import Step
from evenkeel.learning.torch_utils import trainable
from evenkeel.learning.types import Decay, Precision, PredictWith, Statistics, StepRecord

PARTS = ("net", "method", "adaptor", "memory", "optimizer", "augment", "normalize", "classes", "device")
"""The arguments of a learner that are not plain settings: a checkpoint and a config describe each in its own way."""


class Learner:
    """A classifier that learns from a stream, batch by batch, and can be queried at any time.

    net: any `Net`. method: what to minimise. adaptor: corrects logits in training, such as `CBA()`; or None. memory:
    samples, bytes ("8MB") or a `Memory`. optimizer: one over `net.parameters()`, or a function that creates one.
    augment: applied to every training view; of a list, one after the other. normalize: (mean, std) per channel.
    classes: fix the labels and their outputs; otherwise they take outputs in order of arrival and the head grows.
    device: "cpu", "cuda", "cuda:1", "mps", or "auto": an accelerator if there is one; the net is moved to it, and your
    own optimizer with it. The other arguments are settings, described in the signature: a config, `evenkeel list` and a
    checkpoint take them from there.

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
        device: str | torch.device = "auto",
        replay: Annotated[int, "Samples per draw from memory"] = 32,
        repeats: Annotated[
            int, "Updates per incoming batch, each with new views and draws; 10 is Repeated Augmented Rehearsal (RAR)"
        ] = 1,
        statistics: Annotated[
            Statistics, "Batches that update batch norm's running statistics: all, or replay, only replayed ones"
        ] = "all",
        average: Annotated[
            Decay | None, "Decay of averaged weights: 0.99 spans 1/(1 - 0.99) updates; auto a tenth of all, up to 100"
        ] = None,
        predict_with: Annotated[
            PredictWith, "Weights that predict if they are averaged: the mean of both kinds, average or working ones"
        ] = "mean",
        distill: Annotated[float, "Weight of momentum distillation, by which averaged weights teach; 5.5, say"] = 0.0,
        precision: Annotated[
            Precision, "Of forwards and losses in training; bf16 is faster where there are units for it"
        ] = "float32",
        compile: Annotated[
            bool, "Compile the backbone with torch.compile: the first steps take long, later ones less"
        ] = False,
        seed: Annotated[int, "Seed of everything random in here"] = 0,
    ) -> None:
        compatibility.require_parts(net, method, adaptor, augment)
        compatibility.require_settings(
            method,
            replay=replay,
            repeats=repeats,
            statistics=statistics,
            average=average,
            predict_with=predict_with,
            distill=distill,
            precision=precision,
            seed=seed,
        )
        self.replay = int(replay)  # numpy's numbers, too
        self.repeats = int(repeats)
        self.statistics = statistics
        self.average = average
        self.distill = distill
        self.precision = precision
        self.compile = compile
        self.seed = int(seed)
        self.step = 0  # calls of `learn`
        self.labels = LabelMap(classes)
        compatibility.require_outputs(net, len(self.labels.names))
        step = connect(
            net,
            method,
            adaptor=adaptor,
            memory=memory,
            optimizer=optimizer,
            augment=in_order(augment),
            normalize=normalize,
            device=find_device(device, net),
            replay=self.replay,
            statistics=statistics,
            average=average,
            distill=distill,
            precision=precision,
            compile=compile,
            seed=self.seed,
        )
        self.net, self.method, self.adaptor, self.augment = net, method, adaptor, step.augment
        self.memory, self.optimizer = step.memory, step.optimizer
        self._inputs, self._generators = step.inputs, step.generators
        self._classifier = Classifier(
            net, method, self.memory, self.labels, self._inputs, average=step.average, predict_with=predict_with
        )
        self._step = step

    def __setattr__(self, name: str, value: object) -> None:
        if "_step" in self.__dict__ and name in Step.__dataclass_fields__:
            raise AttributeError(f"{name} cannot be replaced in a learner. Create another learner with another {name}.")
        super().__setattr__(name, value)

    @property
    def device(self) -> torch.device:
        """Return where the network is, and so where it computes."""
        return self._step.device

    @property
    def classes(self) -> list[Hashable]:
        """Return the labels known so far, in the order of the head's outputs."""
        return list(self.labels.names)

    @property
    def predict_with(self) -> PredictWith:
        """Return which weights predict, if they are averaged: "mean", "average" or "working"; it may be changed."""
        return self._classifier.predict_with

    @predict_with.setter
    def predict_with(self, value: PredictWith) -> None:
        compatibility.require_average(self.method, self.average, value, self.distill)
        self._classifier.predict_with = value

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
                counts += memory.column("y").bincount(minlength=len(counts))
        return dict(zip(self.labels.names, counts.tolist(), strict=True))

    # Learning

    def learn(self, x: object, y: object, *, key: object = None) -> StepRecord:
        """Learn one batch. `key`: identifies the samples for a later `forget`, one per sample or one for all."""
        with computing(self.device), trainable():
            return self._learn(x, y, key)

    def _learn(self, x: object, y: object, key: object) -> StepRecord:
        batch, labels = self._inputs.check(x), as_labels(y)
        if len(batch) == 0:
            raise InputError("The batch is empty.")
        if len(batch) != len(labels):
            raise InputError(f"x has {len(batch)} samples but y has {len(labels)} labels.")
        keys = hash_keys(key, len(batch))
        new = self.labels.unknown(labels)
        is_first = self._inputs.shape is None
        if is_first:
            self._inputs.fits(batch, self._classifier.classify)
            compatibility.require_room(self.memories, self._inputs.encode(batch[:1]))
            if self.augment is not None:
                require_view("augment", self.augment(batch[:1].clone(), torch.Generator()), batch[:1])
        if len(self.labels.names) + len(new) > self.net.outputs:
            self.grow(len(self.labels.names) + len(new))
        self._inputs.accept(batch)
        self.labels.add(new)
        rows = {"x": self._inputs.encode(batch), "y": self.labels.outputs(labels), "key": keys}
        try:
            rows, apart = self._step.without_held_out(rows, batch)
            outcomes = self._step.train(rows, self.repeats)
        except BaseException:
            self.labels.drop(new)  # a label that was not learned must not be predicted
            if is_first:
                self._inputs.forget_shape()
            raise
        if self.method.held is not None and len(apart["y"]):
            self.method.held.insert(apart, self._generators["memory"])
        self.step += 1
        losses = [outcome.loss for outcome in outcomes]
        outer = [outcome.outer_loss for outcome in outcomes if outcome.outer_loss is not None]
        return StepRecord(
            step=self.step,
            samples=len(batch),
            updates=len(outcomes),
            loss=fmean(losses) if losses else None,
            outer_loss=fmean(outer) if outer else None,
            replayed=sum(outcome.replayed for outcome in outcomes),
            stored=sum(map(len, self.memories)),
            seen=sum(memory.seen for memory in self.memories),
            classes=len(self.labels.names),
        )

    def boundary(self) -> None:
        """Signal the end of a task. Most methods ignore it; for one with `needs_boundaries`, everything belongs to the
        first task until this is called.
        """
        with computing(self.device), trainable():
            self.method.boundary(self.net, self.memory)
        if self.adaptor is not None:
            self.adaptor.boundary()

    def forget(self, key: Hashable) -> int:
        """Remove all samples learned with this key from memory, and return how many there were.

        The weights keep what they learned from them; nothing here can undo that.
        """
        with trainable():
            return sum(memory.remove(key) for memory in self.memories)

    def grow(self, outputs: int) -> None:
        """Make room for `outputs` classes: in the head, in each net the method holds, in the adaptor, in stored logits.

        `learn` calls it when a new label has no free output. The existing logits keep every bit.
        """
        with trainable():
            growth.grow(self._step, outputs)

    # Predicting

    def fit(self) -> None:
        """Do now what the next prediction would do first, where a method learns only when it is asked (GDumb)."""
        self._classifier.fit()

    def logits(self, x: object, *, fold: bool = False, precision: Precision = "float32") -> Tensor:
        """Return (n, outputs) scores of all outputs, labelled or not. Changes nothing; the adaptor is not used.

        fold: fold batch norm into convolutions first, which pays for many samples; scores are the same up to rounding.
        precision: "bf16" is faster where there are units for it; scores are less exact, and of float32 all the same.
        """
        return self._classifier.logits(x, fold=fold, precision=precision)

    def logits_of_stored(self, x: Tensor) -> Tensor:
        """Return (n, outputs) scores of samples as memory holds them: what an encoder returned, if there is one."""
        return self._classifier.logits_of_stored(x)

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
        with trainable():
            return self._step.alignment(self._inputs.encode(batch), self.labels.outputs(labels), generator)

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
    @trainable()
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
        device: str | torch.device = "auto",
        labels: Sequence[Hashable] | None = None,
    ) -> "Learner":
        """Return the learner of a checkpoint; it resumes bit for bit on the same kind of machine and number of threads.

        A checkpoint belongs to no device: it is loaded to `device`, wherever it was saved. Parts of this library are
        rebuilt from the file. Your own parts must be passed again, as they were at the start: `net`, `method`, ...,
        `optimizer` (a function of parameters), and `labels` of types that JSON cannot hold.
        """
        facts, tensors = checkpoint.read(path)
        parts = checkpoint.rebuild_parts(
            facts, net=net, method=method, adaptor=adaptor, memory=memory, optimizer=optimizer, augment=augment
        )
        learner = cls(**parts, **facts["settings"], device=device)
        learner.labels = learner._classifier.labels = LabelMap.from_state(facts["labels"], labels)
        learner.step = facts["step"]
        try:
            checkpoint.fill(learner._step, facts, tensors)
        except (RuntimeError, ValueError) as error:
            reason = str(error).strip().replace("\n\t", " ")
            raise CheckpointError(f"{str(path)!r} does not match the parts given: {reason}") from error
        return learner
