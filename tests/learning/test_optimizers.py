"""A step of Adam without what surrounds it in torch."""

import copy

import torch
from torch import nn
from torch.optim import Adam

from evenkeel.learning.optimizers import lean_step


def test_a_lean_step_of_adam_has_every_bit_of_torchs_own() -> None:
    torch.manual_seed(0)
    lean = [nn.Parameter(torch.randn(shape)) for shape in ((5, 3), (5,), (2, 5))]
    usual = copy.deepcopy(lean)
    options = {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.1, "maximize": True, "fused": True}
    ours, theirs = Adam(lean, **options), Adam(usual, **options)  # type: ignore[arg-type]
    for missing in (None, None, 1, 1, None):  # a weight may have no gradient
        for place, (one, other) in enumerate(zip(lean, usual, strict=True)):
            one.grad = other.grad = None if place == missing else torch.randn_like(one)
        lean_step(ours)
        theirs.step()
        assert all(torch.equal(one, other) for one, other in zip(lean, usual, strict=True))
    states = zip(ours.state.values(), theirs.state.values(), strict=True)
    assert all(torch.equal(one[name], other[name]) for one, other in states for name in one)
