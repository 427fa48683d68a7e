"""Small streams and learners shared by several test files."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.optim import SGD

import evenkeel as ek

Batch = tuple[Tensor, list[int]]
MakeMethod = Callable[[], ek.Method]
MakeAdaptor = Callable[[], ek.Adaptor | None]

METHODS: dict[str, MakeMethod] = {
    **ek.METHODS,
    "gdumb": partial(ek.GDumb, epochs=31, batch=4),
    "clser-stable": partial(ek.CLSER, predictor="stable"),
    "er-joint": partial(ek.ER, joint_forward=True),
    "er_ace-boundaries": partial(ek.ERACE, task_free=False),
}
ADAPTABLE = [name for name, make in METHODS.items() if not make().no_adaptor]
ADAPTORS: dict[str, MakeAdaptor] = {
    "none": lambda: None,
    "cba": partial(ek.CBA, hidden=(8,), every=2, lr=1e-2),
    "cba-paper": partial(ek.CBA.as_paper, hidden=(8,)),
    "cba-prior": partial(ek.CBA, hidden=(8,), every=2, lr=1e-2, prior=True),
    "prior": ek.Prior,
    "prior-learned": partial(ek.Prior, tau="learned", every=2),
    "joint": partial(ek.CBA, hidden=(8,), every=1, training="joint"),
    "joint+memory": partial(ek.CBA, hidden=(8,), every=1, training="joint+memory"),
}


def pairs(*adaptors: str) -> list[tuple[str, str]]:
    """Return each (method, adaptor) that can be combined, for the adaptors named, or all."""
    return [
        (method, adaptor)
        for method in METHODS
        for adaptor in (adaptors or ADAPTORS)
        if adaptor == "none" or method in ADAPTABLE
    ]


def images(batches: int = 12, size: int = 6, classes: int = 4, tasks: int = 2, seed: int = 0) -> list[Batch]:
    """Return a class-incremental stream of 1x8x8 uint8 images: each class is a random pattern with noise."""
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randint(256, (classes, 1, 8, 8), generator=generator)
    per_task = classes // tasks
    stream = []
    for place in range(batches):
        y = torch.randint(per_task, (size,), generator=generator) + per_task * (place * tasks // batches)
        noise = torch.randint(-40, 41, (size, 1, 8, 8), generator=generator)
        stream.append(((patterns[y] + noise).clamp(0, 255).to(torch.uint8), y.tolist()))
    return stream


def learner(
    method: ek.Method,
    adaptor: ek.Adaptor | None = None,
    *,
    outputs: int = 4,
    memory: int | str | ek.Memory = 10,
    repeats: int = 1,
) -> ek.Learner:
    """Return a learner with everything that has state: batch norm, augmentation, momentum."""
    return ek.Learner(
        ek.convnet(classes=outputs, width=4),
        method,
        adaptor=adaptor,
        memory=memory,
        replay=6,
        repeats=repeats,
        optimizer=partial(SGD, lr=0.05, momentum=0.9, weight_decay=1e-3),
        augment=ek.CropFlip(padding=1),
        normalize=([0.5], [0.25]),
    )


def learn_all(one: ek.Learner, stream: Sequence[Batch]) -> list[ek.StepRecord]:
    return [one.learn(x, y) for x, y in stream]
