"""Stored samples as features: class means, and the order in which samples represent their class."""

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel.learning.memory import Memory
from evenkeel.learning.nets import PREDICT_BATCH, Net
from evenkeel.learning.torch_utils import evaluating, sent


@torch.no_grad()
def features_of(net: Net, memory: Memory) -> Tensor:
    """Return the (len(memory), features) of all stored samples, in evaluation mode and without augmentation."""
    with evaluating(net):
        rows = torch.arange(len(memory))
        return torch.cat([net.features(memory.samples(part).x) for part in rows.split(PREDICT_BATCH)])


def class_means(features: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return (classes, features) the plain mean of each class's rows, and (classes,) which these are, on the host.

    y: (n,) the classes of the rows, on the host.
    """
    classes, place, counts = y.unique(return_inverse=True, return_counts=True)
    sums = features.new_zeros(len(classes), features.shape[1])
    sums.index_add_(0, sent(place, features.device), features)
    return sums / sent(counts, features.device)[:, None], classes


def herding(features: Tensor) -> Tensor:
    """Return (n,) rows in the order in which their running mean stays closest to the mean of all (Welling 2009)."""
    mean, total = features.mean(dim=0), torch.zeros_like(features[0])
    left = torch.ones(len(features), dtype=torch.bool, device=features.device)
    order = []
    for count in range(1, len(features) + 1):
        distance = (mean - (total + features) / count).norm(dim=1)
        best = distance.masked_fill(~left, torch.inf).argmin()
        total = total + features[best]
        left[best] = False
        order.append(best)
    return torch.stack(order)


def herd(memory: Memory, features: Tensor) -> None:
    """Make the samples of each class leave memory in the reverse order of herding, so that its mean stays close."""
    features, y = F.normalize(features, dim=1), memory.column("y")
    for label in y.unique():
        rows = (y == label).nonzero().flatten()
        memory.prefer(rows[herding(features[rows]).cpu()])
