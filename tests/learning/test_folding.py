"""Batch norm folded into convolutions for a pass in evaluation mode: the same scores, and the net is left as it is."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

import evenkeel as ek
from evenkeel.learning.folding import folded
from evenkeel.learning.nets import Net
from evenkeel.learning.rng import global_seed

NORM = nn.BatchNorm2d


def of(*layers: nn.Module) -> Net:
    return Net(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), nn.Linear(4, 3))


def shared() -> Net:
    convolution = nn.Conv2d(4, 4, 3, padding=1)
    return of(nn.Conv2d(3, 4, 3), convolution, NORM(4), nn.ReLU(), convolution, nn.ReLU())


def hooked() -> Net:
    convolution = nn.Conv2d(3, 4, 3)
    convolution.register_forward_hook(lambda _module, _given, out: 2 * out)
    return of(convolution, NORM(4))


class Twice(nn.Sequential):
    """A sequence that does something else between its layers."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        for layer in self:
            input = 2 * layer(input)
        return input


NETS: dict[str, tuple[Callable[[], Net], int]] = {  # and how many batch norms remain
    "resnet18": (lambda: ek.resnet18(classes=3, width=16), 0),
    "convnet": (lambda: ek.convnet(classes=3, channels=3), 0),
    "sequence": (lambda: of(nn.Conv2d(3, 4, 3, bias=False), NORM(4), nn.ReLU(), nn.Conv2d(4, 4, 1), NORM(4)), 0),
    "sequence in a sequence": (lambda: of(nn.Sequential(nn.Conv2d(3, 4, 3), NORM(4)), NORM(4)), 1),
    "used twice": (shared, 1),
    "hook": (hooked, 1),
    "other forward": (lambda: of(Twice(nn.Conv2d(3, 4, 3), NORM(4))), 1),
    "no running statistics": (lambda: of(nn.Conv2d(3, 4, 3), NORM(4, track_running_stats=False)), 1),
}


def trained(name: str) -> Net:
    """Return a net in double precision whose statistics and scales are not those of the beginning."""
    with global_seed(0):
        net = NETS[name][0]().double()
        for part in net.modules():
            if isinstance(part, NORM):
                nn.init.uniform_(part.weight, 0.5, 2)
                nn.init.normal_(part.bias)
                if part.running_mean is not None and part.running_var is not None:
                    part.running_mean.normal_()
                    part.running_var.uniform_(0.5, 2)
    return net


@pytest.mark.parametrize("name", NETS)
def test_a_folded_net_gives_the_same_scores(name: str) -> None:
    net = trained(name).train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    other = folded(net) or net
    assert sum(isinstance(part, NORM) for part in other.modules()) == NETS[name][1]
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        scores = other.eval()(x)
        torch.testing.assert_close(scores, net.eval()(x), rtol=1e-10, atol=1e-10)
    assert net.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_nothing_to_fold_is_none() -> None:
    assert folded(ek.mlp(features=4, classes=2)) is None


@pytest.mark.parametrize("method", [ek.ER, ek.ICaRL, ek.BiC, partial(ek.GDumb, epochs=1)])
def test_a_learner_gives_the_same_scores_and_stays_as_it_is(method: Callable[[], ek.Method]) -> None:
    learner = ek.Learner(ek.convnet(classes=3, channels=3, width=4), method(), memory=20, device="cpu")
    x = torch.randint(256, (140, 3, 8, 8), dtype=torch.uint8)
    for place in range(3):
        learner.learn(x[place * 10 : place * 10 + 10], [0, 1] * 5)
    plain = learner.logits(x)
    torch.testing.assert_close(learner.logits(x, fold=True), plain, rtol=1e-4, atol=1e-5)
    assert torch.equal(learner.logits(x), plain)
    assert all(part.training for part in learner.net.backbone.modules())
