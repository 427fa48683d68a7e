"""Prediction by the nearest class mean of the samples in memory."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenkeel.learning.memory import Memory
from evenkeel.learning.methods._exemplars import class_means, features_of
from evenkeel.learning.methods.base import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.torch_utils import sent, version


class NearestMeanMethod(Method):
    """A method that predicts the class whose mean, over L2-normalised features of memory, is nearest.

    While memory is empty, the head predicts.
    """

    asks_memory = True
    no_average = ""  # the class means are those of the net that predicts

    def __init__(self) -> None:
        super().__init__()
        self._means: tuple[object, Tensor, Tensor] | None = None  # versions of net and memory, means, their classes

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "NearestMeanMethod":
        self._means = None  # they are on the device of before
        moved: NearestMeanMethod = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return moved

    def classify(self, net: Net, memory: Memory, x: Tensor) -> Tensor:
        if not len(memory):
            logits: Tensor = net(x)
            return logits
        means, classes = self.class_means(net, memory)
        distance = torch.cdist(F.normalize(net.features(x), dim=1), means)
        scores = distance.new_full((len(x), net.outputs), torch.finfo(distance.dtype).min)
        scores[:, sent(classes, scores.device)] = -distance.square()
        return scores

    def exported(self, net: Net, memory: Memory) -> nn.Module:
        return NearestMean(net, *self.class_means(net, memory)) if len(memory) else net

    def class_means(self, net: Net, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return the class means and their classes, recomputed only if the net or the memory changed."""
        now = (version(net), id(memory), memory.version)
        if self._means is None or self._means[0] != now:
            features = F.normalize(features_of(net, memory), dim=1)
            self._means = (now, *class_means(features, memory.column("y")))
        return self._means[1:]


class NearestMean(nn.Module):
    """The scores of the nearest class mean from constant means, without memory.

    Without torch.cdist, which uses another algorithm from 25 samples on, while an exported graph can hold only one.
    """

    means: Tensor  # (outputs, features)
    missing: Tensor  # (outputs,) whether an output has no mean

    def __init__(self, net: Net, means: Tensor, classes: Tensor) -> None:
        super().__init__()
        self.net = net
        classes = classes.to(means.device)
        every = means.new_zeros(net.outputs, means.shape[1]).index_copy(0, classes, means)
        missing = torch.ones(net.outputs, dtype=torch.bool, device=means.device).index_fill(0, classes, False)
        self.register_buffer("means", every, persistent=False)
        self.register_buffer("missing", missing, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        features = F.normalize(self.net.features(x), dim=1)
        ours, theirs = features.square().sum(dim=1, keepdim=True), self.means.square().sum(dim=1)
        square = ours - 2 * F.linear(features, self.means) + theirs
        return (-square).masked_fill(self.missing, -torch.inf)
