"""Frozen records passed between memory, network, method and adaptor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

Decay = float | Literal["auto"]  # of averaged weights
Precision = Literal["float32", "bf16"]  # of forwards, and of losses in training
PredictWith = Literal["mean", "average", "working"]  # the weights that predict, if they are averaged
Statistics = Literal["all", "replay"]  # the batches that update batch norm's running statistics


@dataclass(frozen=True)
class Draw:
    """A group of samples on its way into the network: augmented, normalised, not yet forwarded."""

    x: Tensor  # (n, ...) network input
    y: Tensor  # (n,) int64 outputs
    stored: Mapping[str, Tensor] = field(default_factory=dict)  # columns of `remember` and `recall`, each (n, ...)
    on_host: Tensor | None = None  # `y` on the host, if it is known there

    @property
    def y_host(self) -> Tensor:
        """Return `y` on the host, for decisions by class: to read `y` itself would make the host wait for a device."""
        return self.y.cpu() if self.on_host is None else self.on_host

    def rows(self, which: Tensor) -> "Draw":
        """Return these samples alone, in this order."""
        return Draw(self.x[which], self.y[which], {name: column[which] for name, column in self.stored.items()})


@dataclass(frozen=True)
class View:
    """A group of samples as the network sees it. Without an adaptor all three kinds of logits are the same tensor."""

    x: Tensor  # (n, ...) network input
    y: Tensor  # (n,) int64 outputs
    stored: Mapping[str, Tensor]  # columns of `remember` and `recall`, each (n, ...)
    features: Tensor  # (n, features) the input of the head
    logits: Tensor  # (n, outputs) of the plain head
    adapted: Tensor  # (n, outputs) corrected by the adaptor, for cross-entropies
    comparable: Tensor  # (n, outputs) without what fits this update only (a prior): to store, or to compare with stored
    on_host: Tensor | None = None  # `y` on the host, if it is known there

    @property
    def y_host(self) -> Tensor:
        """Return `y` on the host, for decisions by class: to read `y` itself would make the host wait for a device."""
        return self.y.cpu() if self.on_host is None else self.on_host


@dataclass(frozen=True)
class StepRecord:
    """A summary of one call of `Learner.learn`."""

    step: int  # calls of `learn` so far, this one included
    samples: int  # in the incoming batch
    updates: int  # optimizer steps taken (the learner's repeats; 0 if the whole batch was held out)
    loss: float | None  # mean of the training loss over these updates; None if the whole batch was held out
    outer_loss: float | None  # mean loss of the adaptor's outer steps; None if there was none
    replayed: int  # samples drawn from memory for training, over all updates
    stored: int  # samples in memory afterwards
    seen: int  # samples offered to memory since the start
    classes: int  # labels known afterwards
