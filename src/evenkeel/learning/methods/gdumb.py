"""GDumb: a balanced memory, and a net that is trained on it from scratch when it is asked."""

import copy
from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts

from evenkeel.errors import SettingsError, above_zero, at_least_zero, probability, whole_number
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods._teacher import leave_out
from evenkeel.learning.methods.base import Method, cross_entropy
from evenkeel.learning.nets import Net
from evenkeel.learning.rng import global_seed, next_seed
from evenkeel.learning.torch_utils import running_statistics, sent, trainable, version
from evenkeel.learning.types import Draw, View

CLIP = 10.0  # the greatest norm of a gradient, as in the original
WARM_UP = 0.1  # of the rate, in the first pass


class GDumb(Method):
    """GDumb (Prabhu et al. 2020): keep a class-balanced memory; train on it alone, from scratch, only when asked.

    Incoming batches are stored and not learned. The first prediction after a change trains a copy of the untrained net
    on memory: SGD with momentum 0.9, in batches of `batch`, for `epochs` passes. The first has a tenth of the rate; in
    the others it falls from `lr` to `least_lr` along a cosine, again and again, each time over twice as many passes, so
    that 256 end with a fall. Samples are augmented as in any other method; a batch of images is mixed by CutMix with
    probability `cutmix`. Only classes in memory compete, in training and in prediction. The trained net is kept until
    net or memory change, and is in no checkpoint: training again gives the same bits. With an anytime curve a run
    trains a net for each of its points, so leave that out (evaluation.every = 0).
    """

    memory_policy = "balanced"
    trains = False
    no_adaptor = "it is trained on memory alone, in which all classes have equal shares"
    no_average = "the net that predicts is trained from scratch when it is asked"
    seed: Tensor  # () of each training

    def __init__(
        self, *, epochs: int = 256, batch: int = 16, lr: float = 0.05, least_lr: float = 5e-4, cutmix: float = 0.5
    ) -> None:
        super().__init__()
        self.epochs = whole_number("epochs", epochs, at_least=1)
        self.batch = whole_number("batch", batch, at_least=1)
        self.lr = above_zero("lr", lr)
        self.least_lr = at_least_zero("least_lr", least_lr)
        self.cutmix = probability("cutmix", cutmix)
        if self.least_lr > self.lr:
            raise SettingsError(f"least_lr={least_lr!r} must not be above lr={lr!r}, from which the rate falls to it.")
        self.register_buffer("seed", torch.zeros((), dtype=torch.int64))
        self._fitted: tuple[object, Net] | None = None  # versions of net and memory, and the net trained on it

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        self.seed.fill_(next_seed(generator))

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return cross_entropy(new)

    def fitted(self, net: Net, memory: Memory) -> Net:
        if not len(memory):
            return net
        now = (version(net), id(memory), memory.version)
        if self._fitted is None or self._fitted[0] != now:
            self._fitted = now, self.fit(net, memory)
        return self._fitted[1]

    def fit(self, net: Net, memory: Memory) -> Net:
        """Return a copy of `net` trained on memory."""
        seed, y = int(self.seed), memory.column("y")
        generator, classes = torch.Generator().manual_seed(seed), y.unique()
        with global_seed(seed, next(net.parameters()).device), trainable():
            net = copy.deepcopy(net)
            trained = [weight for weight in net.parameters() if weight.requires_grad]
            optimizer = SGD(trained, lr=self.lr, momentum=0.9, weight_decay=1e-6)
            schedule = CosineAnnealingWarmRestarts(optimizer, T_0=1, T_mult=2, eta_min=self.least_lr)
            for epoch in range(self.epochs):
                optimizer.param_groups[0]["lr"] = schedule.get_last_lr()[0] if epoch else WARM_UP * self.lr
                for rows in torch.randperm(len(memory), generator=generator).split(self.batch):
                    self._step(net, optimizer, memory.views(rows, generator), classes, generator)
                if epoch:
                    schedule.step()
            if len(classes) < net.outputs:
                net.head = KnownOutputs(net.head, classes)
        return net.eval().requires_grad_(False)

    def _step(self, net: Net, optimizer: SGD, draw: Draw, classes: Tensor, generator: torch.Generator) -> None:
        x, other, kept = draw.x, draw.y, 1.0
        if x.dim() == 4 and float(torch.rand((), generator=generator)) < self.cutmix:
            x, other, kept = cut_mix(draw, generator)
        classes = sent(classes, x.device)
        with running_statistics(net) if len(x) == 1 else nullcontext():
            logits = net(x)[:, classes]
        targets = (torch.searchsorted(classes, y) for y in (draw.y, other))
        own, mixed = (F.cross_entropy(logits, target) for target in targets)
        optimizer.zero_grad()
        (kept * own + (1 - kept) * mixed).backward()
        nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        optimizer.step()


class KnownOutputs(nn.Module):
    """A head of which only the outputs that were trained can win."""

    untrained: Tensor  # (outputs,)

    def __init__(self, head: nn.Module, classes: Tensor) -> None:
        super().__init__()
        self.head = head
        self.in_features, self.out_features = head.in_features, head.out_features
        weight = next(head.parameters())
        untrained = torch.ones(int(self.out_features), dtype=torch.bool, device=weight.device)  # type: ignore[arg-type]
        self.register_buffer("untrained", untrained.index_fill(0, sent(classes, weight.device), False))

    def forward(self, features: Tensor) -> Tensor:
        return leave_out(self.head(features), self.untrained)


def cut_mix(draw: Draw, generator: torch.Generator) -> tuple[Tensor, Tensor, float]:
    """Return images with a rectangle of another one each, the labels of those, and the share of pixels kept.

    CutMix (Yun et al. 2019) with a share drawn uniformly; the rectangle may lie across the edge.
    """
    height, width = draw.x.shape[2:]
    share, down, right = torch.rand(3, generator=generator).tolist()
    order = torch.randperm(len(draw.y), generator=generator).to(draw.y.device)
    half_height, half_width = (side * (1 - share) ** 0.5 / 2 for side in (height, width))
    top, bottom = (max(0, min(height, int(down * height + half))) for half in (-half_height, half_height))
    left, end = (max(0, min(width, int(right * width + half))) for half in (-half_width, half_width))
    mixed = draw.x.clone()
    mixed[:, :, top:bottom, left:end] = draw.x[order][:, :, top:bottom, left:end]
    return mixed, draw.y[order], 1 - (bottom - top) * (end - left) / (height * width)
