"""An update that is refused because a number is not finite: the error names it, and nothing stays changed."""

import copy
from collections.abc import Callable, Sequence
from itertools import product

import pytest
import torch
from torch import Tensor, nn

import evenkeel as ek
from evenkeel.learning.adaptors import Adaptor
from evenkeel.learning.rng import global_seed
from evenkeel.learning.types import Draw, View
from tests.helpers.cases import thinned
from tests.helpers.simulated import NAME, on_simulated_device, read_backs, require_same

CORRECTIONS: dict[str, Callable[[], Adaptor | None]] = {
    "none": lambda: None,
    "cba": lambda: ek.CBA(hidden=(5,), every=1, start="first"),
    "cba with prior": lambda: ek.CBA(hidden=(5,), every=1, start="first", prior=True),
    "prior": ek.Prior,
    "prior, learned": lambda: ek.Prior(tau="learned", every=1),
}
ORDINARY, LARGE = 1.0, 1e25  # sizes of an input; of a large one the variance overflows, but no logit
FAULTS = ("A logit", "A running statistic", "The outer loss", "The loss", "A gradient")
CASES = [
    (adaptor, fault, device)
    for adaptor, fault, device in product(CORRECTIONS, FAULTS, ("cpu", NAME))
    if fault != "The outer loss" or adaptor == "cba"  # the others have none, or one that is no business of the method
]


class Spoiled(ek.ER):
    """ER with a number that can be spoiled."""

    fault = ""

    @torch.no_grad()
    def before_step(self, net: ek.Net, new: Draw) -> None:
        if self.fault == "A logit":
            next(net.head.parameters()).fill_(torch.nan)

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        loss = super().loss(new, old)
        if self.fault == "The loss" and new.features.requires_grad:
            return loss * torch.nan
        if self.fault == "A gradient" and new.features.requires_grad:
            return loss + (0 * new.logits.sum()).sqrt()
        return loss

    def query_loss(self, old: Sequence[View]) -> Tensor:
        return super().query_loss(old) * (torch.nan if self.fault == "The outer loss" else 1)


def a_batch(size: float, seed: int, label: int) -> tuple[Tensor, list[int]]:
    return size * torch.randn(5, 6, generator=torch.Generator().manual_seed(seed)), [label] * 5


@pytest.mark.parametrize(("adaptor", "fault", "device"), thinned(CASES))
@on_simulated_device
def test_the_number_is_named_and_nothing_stays_changed(adaptor: str, fault: str, device: str) -> None:
    """Neither weights nor omega, prior, averages, running statistics, memory, labels and generators."""
    with global_seed(0):
        net = ek.Net(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU()), nn.Linear(8, 3))
    method, correction = Spoiled(), CORRECTIONS[adaptor]()
    learner = ek.Learner(net, method, adaptor=correction, memory=8, replay=4, average=0.9, distill=1.0, device=device)
    for seed in range(4):
        learner.learn(*a_batch(ORDINARY, seed, seed % 2))
    before = copy.deepcopy(learner.state())
    method.fault = fault
    with read_backs() as read, pytest.raises(ek.DivergenceError, match=rf"^{fault}.* is NaN or infinite"):
        learner.learn(*a_batch(LARGE if fault == "A running statistic" else ORDINARY, 4, 2))
    assert len(read) == (device == NAME)
    require_same(learner.state(), before)
    method.fault = ""
    assert learner.learn(*a_batch(ORDINARY, 5, 2)).loss is not None
