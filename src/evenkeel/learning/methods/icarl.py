"""iCaRL: incremental classifier and representation learning."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel.learning.memory import Memory
from evenkeel.learning.methods._exemplars import features_of, herd
from evenkeel.learning.methods._nearest_mean import NearestMeanMethod
from evenkeel.learning.methods._teacher import UNSEEN, Distilling, columns, joined
from evenkeel.learning.nets import Net
from evenkeel.learning.torch_utils import sent
from evenkeel.learning.types import View


class ICaRL(NearestMeanMethod, Distilling):
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
    no_adaptor = (
        "it predicts by the nearest class mean, while an adaptor trains the head to predict without bias, and the head "
        "is not used here"
    )

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        views, task_of = [new, *old], self.task_of_with(new.y_host)
        logits = joined(views, "logits")
        target = F.one_hot(joined(views, "y"), len(task_of)).to(logits.dtype)
        is_old, _ = self.old_and_new(task_of)
        if bool(is_old.any()):
            distilled = torch.where(sent(is_old, logits.device), joined(views, "teacher").sigmoid(), target)
            distilled[: len(new.y)] = torch.maximum(distilled[: len(new.y)], target[: len(new.y)])
            target = distilled
        seen = task_of != UNSEEN
        return F.binary_cross_entropy_with_logits(columns(logits, seen), columns(target, seen))

    def boundary(self, net: Net, memory: Memory) -> None:
        if len(memory):
            herd(memory, features_of(net, memory))
        super().boundary(net, memory)
