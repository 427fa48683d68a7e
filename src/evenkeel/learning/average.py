"""Averaged weights: a copy of the network that follows it slowly, for prediction and as a teacher."""

import copy
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from evenkeel.learning.methods._teacher import distillation
from evenkeel.learning.nets import Net
from evenkeel.learning.torch_utils import batch_norm_like, lerp_, mean_into, scratch_buffers, tensors_of, version
from evenkeel.learning.types import Decay, View

TEMPERATURE = 4.0  # of momentum distillation
PART, LONGEST = 10, 0.99  # "auto" averages over the last tenth of the updates, but at most some hundred


class Average:
    """A moving average of a net's weights: a <- a + s (w - a), with s = max(1 / (n + 1), 1 - decay) after n updates.

    With decay = "auto", s = max(10 / (n + 10), 0.01): it spans the last tenth of the updates so far, at most a hundred.
    Running statistics of batch norm are averaged like weights; buffers of whole numbers are copied. Predictions come
    from the average, from the mean of average and working weights, which is computed when it is first needed after a
    change, or from the working weights themselves.
    """

    def __init__(self, net: Net, decay: Decay) -> None:
        self.working = net
        self.decay = decay
        self.updates = 0  # n, from 0
        self.net = _frozen(net)
        self._mean: tuple[object, Net] | None = None  # versions of both nets, and their mean

    @property
    def share(self) -> float:
        """Return s, by which the next update moves the average toward the working weights."""
        if self.decay == "auto":
            return max(PART / (self.updates + PART), 1 - LONGEST)
        return max(1 / (self.updates + 1), 1 - self.decay)

    def follow(self) -> None:
        """Move toward the working weights, after an update of theirs."""
        lerp_(tensors_of(self.net), tensors_of(self.working), self.share)
        self.updates += 1

    def predictor(self, predict_with: str) -> Net:
        """Return the net of these weights: "working" in its own mode, "average" and "mean" in evaluation mode."""
        return {"working": lambda: self.working, "average": lambda: self.net, "mean": self._current_mean}[
            predict_with
        ]()

    def _current_mean(self) -> Net:
        now = version(self.working), version(self.net)
        if self._mean is None or self._mean[0] != now:
            mean = _frozen(self.net) if self._mean is None else self._mean[1]
            mean_into(tensors_of(mean), tensors_of(self.net), tensors_of(self.working))
            self._mean = now, mean
        return self._mean[1]

    def distillation(self, groups: Sequence[View], *, joint: bool) -> Tensor:
        """Return T^2 KL(average / T || net / T), mean over the samples of all groups, on plain logits.

        The average forwards each group as the net does: with the statistics of the batch, or of all groups as one batch
        if `joint`. Its own running statistics do not move.
        """
        inputs = [view.x for view in groups]
        taught = [self._taught(x) for x in ([torch.cat(inputs)] if joint else inputs)]
        logits = torch.cat([view.logits for view in groups])
        return TEMPERATURE**2 * distillation(logits, torch.cat(taught), TEMPERATURE)

    @torch.no_grad()
    def _taught(self, x: Tensor) -> Tensor:
        with scratch_buffers(self.net), batch_norm_like(self.working, self.net) if len(x) > 1 else nullcontext():
            logits: Tensor = self.net(x)
        return logits

    def grow(self, outputs: int, seed: int) -> None:
        """Widen the head like that of the working net, which was initialised by the same seed."""
        self.net.grow(outputs, seed)
        self._mean = None

    def state_dict(self) -> dict[str, Any]:
        return {"net": self.net.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.net.load_state_dict(state["net"])
        self.updates = int(state["updates"])


def _frozen(net: Net) -> Net:
    return copy.deepcopy(net).requires_grad_(False).eval()
