"""LUCIR: learning a unified classifier incrementally via rebalancing."""

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import SGD

from evenkeel.errors import above_zero, at_least_zero, whole_number
from evenkeel.learning.heads import CosineHead, cosine_parts
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods._exemplars import class_means, features_of, herd
from evenkeel.learning.methods._teacher import UNSEEN, Distilling, columns, joined
from evenkeel.learning.nets import Net
from evenkeel.learning.torch_utils import evaluating, sent
from evenkeel.learning.types import Draw, View


class LUCIR(Distilling):
    """LUCIR (Hou et al. 2019): a cosine head, features that stay in place, a margin between old and new classes.

    CE(s cos, y) + lambda (1 - cos(features, teacher's)) + max(0, margin - cos of the true class + cos of a new class),
    the last over samples of old classes and their `nearest` most similar new ones; each a mean over new and replayed
    samples. s is learned, starting at `scale` (the original's 1 needs more than one pass to rise). lambda = less_forget
    sqrt(old classes / new classes). Rows of old classes are fixed unless the incoming batch has samples of them. At a
    boundary only the head is fine-tuned on memory, which is balanced: `epochs` passes, the second half at a tenth of
    the rate `lr`. (A head that is already a cosine head keeps its scale.)

    The original reads a task two more times: before it, to imprint the mean features of new classes as their rows, and
    after it, to choose exemplars by herding. Here, strictly in one pass, a row is imprinted from the first batch that
    has its class, and herding orders the samples that memory has kept of the stream.
    """

    title = "LUCIR"
    imprinted: Tensor  # (outputs,) whether a row has been imprinted; on the device, which knows whether it could be
    generator: torch.Generator

    def __init__(
        self,
        *,
        scale: float = 10.0,
        less_forget: float = 5.0,
        margin: float = 0.5,
        nearest: int = 2,
        epochs: int = 20,
        lr: float = 0.01,
    ) -> None:
        super().__init__()
        self.scale = self.cosine_head = above_zero("scale", scale)
        self.less_forget = at_least_zero("less_forget", less_forget)
        self.margin = at_least_zero("margin", margin)
        self.nearest = whole_number("nearest", nearest, at_least=1)
        self.epochs = whole_number("epochs", epochs, at_least=0)
        self.lr = above_zero("lr", lr)

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        super().prepare(net, generator)
        assert net.cosine_scale is not None
        self._scale = (net.cosine_scale,)  # in a tuple, so that it is not registered: it belongs to the net
        self._kept: list[tuple[CosineHead, Tensor, Tensor]] = []  # parts of the head, fixed rows, their values
        self.generator = generator
        device = net.cosine_scale.device
        self.register_buffer("imprinted", torch.zeros(net.outputs, dtype=torch.bool, device=device))

    def grow(self, outputs: int) -> None:
        super().grow(outputs)
        self.imprinted = F.pad(self.imprinted, (0, outputs - len(self.imprinted)))

    def taught(self, x: Tensor) -> Tensor:
        return self.teacher.features(x)

    @torch.no_grad()
    def before_step(self, net: Net, new: Draw) -> None:
        is_old, _ = self.old_and_new(self.task_of_with(new.y_host))
        fixed = is_old.clone()
        fixed[new.y_host] = False
        first = (self.task_of == UNSEEN)[new.y_host].nonzero().flatten()
        if len(first):
            with evaluating(net):
                features = F.normalize(net.features(new.x[sent(first, new.x.device)]), dim=1)
            means, classes = class_means(features, new.y_host[first])
            places, length = sent(classes, means.device), means.norm(dim=1)
            usable = (length > 0) & length.isfinite()  # otherwise the row would be spoiled for good
            self._imprint(net, F.normalize(means, dim=1), classes, usable & ~self.imprinted[places])
            self.imprinted[places] |= usable
        self._kept = []
        for part, mine in _by_part(net, fixed):
            part.fixed.copy_(mine, non_blocking=True)
            rows = sent(mine.nonzero().flatten(), part.weight.device)
            self._kept.append((part, rows, part.weight[rows]))

    @torch.no_grad()
    def after_step(self, net: Net) -> None:
        for part, rows, values in self._kept:  # even without a gradient, momentum and weight decay move them
            part.weight[rows] = values

    def _imprint(self, net: Net, directions: Tensor, classes: Tensor, now: Tensor) -> None:
        """Point new rows to their class's mean, with the mean length of known classes' rows (at first, of all).

        now: which of the classes, on the device; `classes` is on the host.
        """
        known = self.task_of != UNSEEN
        known = known if bool(known.any()) else torch.ones_like(known)
        lengths = [
            part.weight[sent(mine.nonzero().flatten(), part.weight.device)] for part, mine in _by_part(net, known)
        ]
        length = torch.cat(lengths).norm(dim=1).mean()
        begin = 0
        for part in cosine_parts(net.head):
            mine = ((classes >= begin) & (classes < begin + part.out_features)).nonzero().flatten()
            rows, mine = (sent(each, directions.device) for each in (classes[mine] - begin, mine))
            part.weight[rows] = torch.where(now[mine, None], length * directions[mine], part.weight[rows])
            begin += part.out_features

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        views = [new, *old]
        y = joined(views, "y")
        loss = F.cross_entropy(joined(views, "adapted"), y)
        is_old, is_new = self.old_and_new(self.task_of_with(new.y_host))
        if bool(is_old.any()):
            moved = 1 - F.cosine_similarity(joined(views, "features"), joined(views, "teacher"), dim=1)
            ratio = sqrt(int(is_old.sum()) / int(is_new.sum()))
            loss = loss + self.less_forget * ratio * moved.mean()
            cosines = joined(views, "logits") / self._scale[0]
            old_samples = is_old[joined(views, "y_host")].nonzero().flatten()
            loss = loss + margin_ranking(
                cosines, y, old_samples=old_samples, is_new=is_new, nearest=self.nearest, margin=self.margin
            )
        return loss

    def boundary(self, net: Net, memory: Memory) -> None:
        if len(memory):
            features = features_of(net, memory)
            herd(memory, features)
            if self.task > 0:
                self._finetune(net, features, memory.column("y").to(features.device))
        super().boundary(net, memory)

    def _finetune(self, net: Net, features: Tensor, y: Tensor) -> None:
        """Fine-tune only the head, on the features of the samples in memory, which do not change meanwhile."""
        for part in cosine_parts(net.head):
            part.fixed.fill_(False)
        optimizer = SGD(net.head.parameters(), lr=self.lr)
        for epoch in range(self.epochs):
            optimizer.param_groups[0]["lr"] = self.lr * (0.1 if 2 * epoch >= self.epochs else 1)
            order = torch.randperm(len(y), generator=self.generator).to(y.device)
            for rows in order.split(32):
                optimizer.zero_grad()
                F.cross_entropy(net.head(features[rows]), y[rows]).backward()
                optimizer.step()
        optimizer.zero_grad()


def margin_ranking(
    cosines: Tensor, y: Tensor, *, old_samples: Tensor, is_new: Tensor, nearest: int, margin: float
) -> Tensor:
    """Return the mean max(0, margin - cos_y + cos_k), over samples of old classes and their `nearest` new classes k.

    old_samples: the rows of such samples; is_new: (outputs,) which classes are new. Both are on the host.
    """
    rivals = int(is_new.sum())
    if not len(old_samples) or not rivals:
        return cosines.new_zeros(())
    rows = sent(old_samples, cosines.device)
    samples = cosines[rows]
    truth = samples.gather(1, y[rows][:, None])
    hardest = columns(samples, is_new).topk(min(nearest, rivals), dim=1).values
    return F.relu(margin - truth + hardest).mean()


def _by_part(net: Net, which: Tensor) -> list[tuple[CosineHead, Tensor]]:
    """Return the parts of the head, each with its slice of a mask over all outputs; spare rows are False."""
    parts = cosine_parts(net.head)
    sizes = [part.out_features for part in parts]
    return list(zip(parts, F.pad(which, (0, sum(sizes) - len(which))).split(sizes), strict=True))
