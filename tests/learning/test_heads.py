"""Cosine heads."""

from functools import partial
from pathlib import Path

import pytest
import torch
from torch.optim import SGD

import evenkeel as ek
from evenkeel.learning.heads import GrowingHead, cosine_parts
from evenkeel.learning.probes import differences, snapshot
from tests.helpers.comparison_methods import dot, points, unit
from tests.helpers.methods import (
    FEATURES,
    OUTPUTS,
    linear_net,
    random,
)

# ---- cosine heads ----


def test_a_cosine_head_is_scale_times_cosine() -> None:
    head = ek.CosineHead(4, 3, scale=2.5).double()
    features = random(6, 4, seed=1)
    with torch.no_grad():
        logits = head(features)
    for row, answers in zip(features.tolist(), logits.tolist(), strict=True):
        expected = [2.5 * dot(unit(row), unit(weight)) for weight in head.weight.tolist()]
        assert answers == pytest.approx(expected, rel=1e-12)
    assert float(logits.abs().max()) <= 2.5
    assert torch.allclose(head(7 * features), logits, rtol=1e-12)  # lengths do not matter
    assert bool(torch.isfinite(head(torch.zeros(2, 4, dtype=torch.float64))).all())
    head.fixed[1] = True
    assert torch.equal(head(features), logits)
    (gradient,) = torch.autograd.grad(head(features)[:, 1:].square().sum(), head.weight)
    assert gradient.ne(0).any(dim=1).tolist() == [False, False, True]


def test_a_linear_head_turned_into_a_cosine_head_keeps_its_rows() -> None:
    net = linear_net()
    weight = net.head.get_parameter("weight")
    net.make_cosine(scale=3.0)
    head = net.head
    assert isinstance(head, ek.CosineHead)
    assert head.weight is weight
    assert (net.outputs, head.in_features, head.scale.item(), head.scale.dtype) == (
        OUTPUTS,
        FEATURES,
        3.0,
        torch.float64,
    )
    net.make_cosine()
    assert net.head is head
    grown = linear_net(3)
    grown.grow(5, seed=0)
    with pytest.raises(ek.SettingsError, match=r"only an nn\.Linear can be turned into a cosine head"):
        grown.make_cosine()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_growth_of_a_cosine_head_keeps_old_logits_to_the_bit_and_the_scale_in_one_place(dtype: torch.dtype) -> None:
    net = ek.mlp(features=FEATURES, classes=3, hidden=(16,)).to(dtype)
    net.make_cosine()
    scale = net.cosine_scale
    assert scale is not None
    with torch.no_grad():
        scale.fill_(4.0)
    x = random(33, FEATURES, seed=0).to(dtype)
    before = net(x)
    for outputs in (4, 6, 7, 13):
        pairs = net.grow(outputs, seed=outputs)
        after = net(x)
        assert after.shape == (33, outputs)
        assert torch.equal(after[:, : before.shape[1]], before)
        assert all(new.shape[1:] == old.shape[1:] and new.dtype == dtype for new, old in pairs)
        assert not any(new is scale for new, _ in pairs)
        assert net.cosine_scale is scale
        before = after
    assert isinstance(net.head, GrowingHead)
    assert len(net.head.parts) == 4
    assert all(part.scale is scale for part in cosine_parts(net.head))
    assert sum(weight is scale for weight in net.parameters()) == 1
    with torch.no_grad():
        scale.fill_(8.0)
    assert torch.equal(net(x), 2 * before)


def test_a_grown_cosine_net_is_saved_and_loaded(tmp_path: Path) -> None:
    net = ek.mlp(features=FEATURES, classes=2, hidden=(8,)).double()
    one = ek.Learner(net, ek.LUCIR(), memory=20, replay=5, optimizer=partial(SGD, lr=0.1, momentum=0.5))
    for seed, y in enumerate([[0, 1, 0], [1, 0, 2], [2, 3, 4]]):
        one.learn(*points(y, seed))
    assert one.net.outputs == 5
    one.boundary()
    one.learn(*points([5, 6, 5], 4))
    one.save(tmp_path / "learner")
    again = ek.Learner.load(tmp_path / "learner", net=ek.mlp(features=FEATURES, classes=2, hidden=(8,)).double())
    x, _ = points([0, 1, 2], 9)
    assert torch.equal(one.logits(x), again.logits(x))
    scale = again.net.cosine_scale
    assert all(part.scale is scale for part in cosine_parts(again.net.head))
    assert sum(weight is scale for group in again.optimizer.param_groups for weight in group["params"]) == 1
    assert one.learn(*points([5, 6, 0], 5)) == again.learn(*points([5, 6, 0], 5))
    assert differences(snapshot(one), snapshot(again)) == []
