"""iCaRL: incremental classifier and representation learning."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenkeel.learning.memory import Memory
from evenkeel.learning.methods._exemplars import class_means, features_of, herd
from evenkeel.learning.methods._teacher import UNSEEN, Distilling, joined
from evenkeel.learning.nets import Net
from evenkeel.learning.torch_utils import version
from evenkeel.learning.types import View


class ICaRL(Distilling):
    """iCaRL (Rebuffi et al. 2017): binary cross-entropies to learn features, the nearest class mean to predict.

    The loss is the mean, over samples and seen classes, of the binary cross-entropy between sigmoid(logit) and a
    target: for classes of earlier tasks the teacher's sigmoid, for those of the current one 1 for the label, else 0.
    (The label of an incoming sample is always 1: in a blurry stream it may be an old class.) Prediction is by the
    nearest class mean, over L2-normalised features of the samples in memory; while it is empty, by the head.

    The original reads a task again at its end, to choose exemplars by herding. Here, strictly in one pass, memory keeps
    an equal share of each class during the stream; at a boundary herding orders the stored samples, and when a class
    must make room for later ones, the last in that order leave first.
    """

    title = "iCaRL"
    asks_memory = True
    no_average = ""  # the class means are those of the net that predicts
    no_adaptor = (
        "it predicts by the nearest class mean, while an adaptor trains the head to predict without bias, and the head "
        "is not used here"
    )

    def __init__(self) -> None:
        super().__init__()
        self._means: tuple[object, Tensor, Tensor] | None = None  # versions of net and memory, means, their classes

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        views, task_of = [new, *old], self.task_of_with(new.y)
        logits = joined(views, "logits")
        target = F.one_hot(joined(views, "y"), len(task_of)).to(logits.dtype)
        is_old, _ = self.old_and_new(task_of)
        if bool(is_old.any()):
            distilled = torch.where(is_old, joined(views, "teacher").sigmoid(), target)
            distilled[: len(new.y)] = torch.maximum(distilled[: len(new.y)], target[: len(new.y)])
            target = distilled
        seen = task_of != UNSEEN
        return F.binary_cross_entropy_with_logits(logits[:, seen], target[:, seen])

    def boundary(self, net: Net, memory: Memory) -> None:
        if len(memory):
            herd(memory, features_of(net, memory))
        super().boundary(net, memory)

    def classify(self, net: Net, memory: Memory, x: Tensor) -> Tensor:
        if not len(memory):
            logits: Tensor = net(x)
            return logits
        means, classes = self.class_means(net, memory)
        distance = torch.cdist(F.normalize(net.features(x), dim=1), means)
        scores = distance.new_full((len(x), net.outputs), torch.finfo(distance.dtype).min)
        scores[:, classes] = -distance.square()
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
    """The scores of iCaRL from constant class means, without memory.

    Without torch.cdist, which uses another algorithm from 25 samples on, while an exported graph can hold only one.
    """

    means: Tensor  # (outputs, features)
    missing: Tensor  # (outputs,) whether an output has no mean

    def __init__(self, net: Net, means: Tensor, classes: Tensor) -> None:
        super().__init__()
        self.net = net
        every = means.new_zeros(net.outputs, means.shape[1]).index_copy(0, classes, means)
        missing = torch.ones(net.outputs, dtype=torch.bool, device=means.device).index_fill(0, classes, False)
        self.register_buffer("means", every, persistent=False)
        self.register_buffer("missing", missing, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        features = F.normalize(self.net.features(x), dim=1)
        ours, theirs = features.square().sum(dim=1, keepdim=True), self.means.square().sum(dim=1)
        square = ours - 2 * F.linear(features, self.means) + theirs
        return (-square).masked_fill(self.missing, -torch.inf)
