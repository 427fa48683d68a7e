"""Learning works in any mode of torch; what comes in another dtype or shape than it must is refused at once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import evenkeel as ek
from evenkeel.learning.probes import differences, snapshot
from tests.helpers.streams import METHODS


def test_features_made_in_inference_mode_and_calls_without_gradient() -> None:
    one, other = (ek.Learner(ek.mlp(features=3, classes=2), ek.ER()) for _ in range(2))
    x, y = torch.rand(4, 3), [0, 1, 0, 1]
    with torch.inference_mode():
        given = x + 0
    for _ in range(3):
        one.learn(given, y)
        with torch.no_grad():
            other.learn(x, y)
    assert differences(snapshot(one), snapshot(other)) == []


@pytest.mark.parametrize("method", METHODS)
def test_inference_mode_changes_nothing(method: str, tmp_path: Path) -> None:
    """Whatever is made in it, in learning, growth, forgetting and loading, can be trained afterwards."""
    one, other = (ek.Learner(ek.mlp(features=3, classes=2), METHODS[method](), memory=6) for _ in range(2))
    x = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(0))
    for inside in (True, False):
        for place, batch in enumerate(x):
            for each in (one, other):
                with torch.inference_mode(inside and each is one):
                    each.learn(batch, [place, 0] * 3, key="all" if place == 1 else None)
                    each.boundary()
        for each in (one, other):
            with torch.inference_mode(inside and each is one):
                each.forget("all")
                each.grow(each.net.outputs + 2)
                each.save(tmp_path / "learner.ek")
        with torch.inference_mode(inside):
            one = ek.Learner.load(tmp_path / "learner.ek")
    assert differences(snapshot(one), snapshot(other)) == []


def test_a_refused_first_batch_decides_nothing() -> None:
    one = ek.Learner(ek.Net(nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)), nn.Linear(4, 2)), ek.ER())
    with pytest.raises(ek.DivergenceError):
        one.learn(torch.tensor([[1e30], [-1e30]]).repeat(1, 8), [0, 1])
    assert one.learn(torch.zeros(2, 8, dtype=torch.uint8), [0, 1]).step == 1


NOT_VIEWS: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "floats of bytes": (lambda x: x + torch.randn(x.shape), "torch.uint8 into .* torch.float32"),
    "another size": (lambda x: x[..., :-1], r"\(1, 1, 4, 4\) .* into \(1, 1, 4, 3\)"),
    "an array": (lambda x: x.numpy(), "must return a tensor, but returned a ndarray"),
}


@pytest.mark.parametrize(("change", "message"), NOT_VIEWS.values(), ids=NOT_VIEWS)
def test_an_augmentation_that_changes_shape_or_dtype_is_refused(change: Callable[[Tensor], Any], message: str) -> None:
    net = ek.Net(nn.Flatten(), nn.Linear(16, 2))
    one = ek.Learner(net, ek.ER(), augment=lambda x, _: change(x))
    with pytest.raises(ek.InputError, match=message):
        one.learn(torch.zeros(2, 1, 4, 4, dtype=torch.uint8), [0, 1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_net_in_half_precision_is_refused_before_it_learns(dtype: torch.dtype) -> None:
    with pytest.raises(ek.SettingsError, match=r"Give net.float\(\), and precision='bf16'"):
        ek.Learner(ek.mlp(features=3, classes=2).to(dtype), ek.ER())
