"""Learners of every method with every kind of adaptor, on batches of five vectors: for one device or another."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim import SGD

import evenkeel as ek
from evenkeel.learning.adaptors import Adaptor
from evenkeel.learning.rng import global_seed

Batch = tuple[Tensor, list[int]]

METHODS: dict[str, Callable[[], ek.Method]] = {**ek.METHODS, "gdumb": lambda: ek.GDumb(epochs=1)}
CORRECTIONS: dict[str, Callable[[], Adaptor | None]] = {
    "none": lambda: None,
    "cba": lambda: ek.CBA(hidden=(5,), every=2),
    "cba as in the paper": lambda: ek.CBA.as_paper(hidden=(5,)),
    "cba, jointly": lambda: ek.CBA(hidden=(5,), every=2, training="joint+memory"),
    "cba with prior": lambda: ek.CBA(hidden=(5,), every=2, prior=True),
    "prior": ek.Prior,
    "prior, learned": lambda: ek.Prior(tau="learned", every=2),
}
PAIRS = [
    (method, adaptor)
    for method in METHODS
    for adaptor in CORRECTIONS
    if adaptor == "none" or not METHODS[method]().no_adaptor
]


def make_net(outputs: int = 4) -> ek.Net:
    with global_seed(0):
        return ek.Net(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU()), nn.Linear(8, outputs))


def batches(classes: list[int], count: int = 1) -> list[Batch]:
    """Return batches of five vectors, of these classes."""
    generator = torch.Generator().manual_seed(classes[0])
    drawn = [torch.randint(len(classes), (5,), generator=generator).tolist() for _ in range(count)]
    return [(torch.randn(5, 6, generator=generator), [classes[place] for place in each]) for each in drawn]


def make_learner(method: str, adaptor: str, device: str) -> ek.Learner:
    return ek.Learner(
        make_net(),
        METHODS[method](),
        adaptor=CORRECTIONS[adaptor](),
        memory=8,
        replay=4,
        normalize=(0.1, 2.0),
        optimizer=lambda weights: SGD(weights, lr=0.1, momentum=0.5),
        device=device,
    )
