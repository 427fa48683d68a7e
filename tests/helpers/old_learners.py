"""Learners whose checkpoints are kept as test data, the batches they continue with, and digests of their state."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import SGD

import evenkeel as ek
from evenkeel.learning.probes import snapshot
from tests.helpers.streams import Batch, images

CUT = 9  # batches learned before the checkpoint is written
STREAM = images(batches=16, classes=6, tasks=2)


def _learner(method: ek.Method, *, outputs: int = 6, adaptor: ek.CBA | None = None, repeats: int = 1) -> ek.Learner:
    return ek.Learner(
        ek.convnet(classes=outputs, width=4),
        method,
        adaptor=adaptor,
        memory=20,
        replay=6,
        repeats=repeats,
        optimizer=partial(SGD, lr=0.05, momentum=0.9, weight_decay=1e-3),
        augment=ek.CropFlip(padding=1),
        normalize=([0.5], [0.25]),
    )


LEARNERS: dict[str, Callable[[], ek.Learner]] = {
    "er-cba-grown": lambda: _learner(ek.ER(), outputs=2, adaptor=ek.CBA(hidden=(8,), every=2, lr=1e-2)),
    "clser": lambda: _learner(ek.CLSER(predictor="stable")),
    "bic": lambda: _learner(ek.BiC()),
    "rar-clser": lambda: _learner(ek.CLSER(), repeats=3),
}


def learn(learner: ek.Learner, batches: list[Batch], first: int) -> list[dict[str, Any]]:
    """Learn these batches of STREAM, where `first` is the place of the first; a boundary follows the eighth."""
    records = []
    for place, (x, y) in enumerate(batches, first):
        records.append(asdict(learner.learn(x, y)))
        if place == 7:
            learner.boundary()
    return records


def digests(learner: ek.Learner) -> dict[str, str]:
    """Return a digest of each tensor in the learner's state, by its path."""
    tensors = {path: value for path, value in snapshot(learner).items() if isinstance(value, Tensor)}
    return {path.removeprefix("/1"): _digest(value) for path, value in tensors.items()}


def arithmetic() -> str:
    """Return a digest of a small computation; if it differs from the one on file, this machine rounds differently."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(6, 4, 8, 8, generator=generator)
    weight = torch.rand(8, 4, 3, 3, generator=generator, requires_grad=True)
    features = F.batch_norm(F.conv2d(x, weight, padding=1), None, None, training=True).relu().flatten(1)
    matrix = torch.rand(512, 150, generator=generator)
    loss = (features @ matrix).log_softmax(dim=1).square().mean()
    (gradient,) = torch.autograd.grad(loss, weight)
    wide = torch.rand(20, 384, generator=generator) @ torch.rand(384, 512, generator=generator)
    return _digest(torch.cat([gradient.flatten(), wide.flatten()]))


def _digest(value: Tensor) -> str:
    return hashlib.sha256(value.detach().cpu().contiguous().numpy().tobytes()).hexdigest()[:16]
