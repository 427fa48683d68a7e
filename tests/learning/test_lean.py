"""Forward passes without modules: the same bits, for the nets they are meant for, and only for those."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

import evenkeel as ek
from evenkeel.learning.lean import LeanNet


@pytest.mark.parametrize("grown", [(), (4,), (4, 9, 40)])
@pytest.mark.parametrize("hidden", [(), (8,), (8, 5)])
def test_an_mlp_gives_the_same_bits_without_modules(hidden: tuple[int, ...], grown: tuple[int, ...]) -> None:
    net = ek.mlp(features=6, classes=3, hidden=hidden).eval()
    for outputs in grown:
        net.grow(outputs, seed=0)
    lean = LeanNet.of(net)
    assert lean is not None
    for rows in (1, 2, 33):
        x = torch.randn(rows, 2, 3, generator=torch.Generator().manual_seed(rows))
        assert torch.equal(lean(x.clone()), net(x.clone()))


def hooked() -> ek.Net:
    net = ek.mlp(features=6, classes=3)
    net.backbone.register_forward_hook(lambda *_: None)
    return net


def cosine() -> ek.Net:
    net = ek.mlp(features=6, classes=3)
    net.make_cosine()
    return net


OTHERS = {
    "of images": lambda: ek.convnet(channels=1, classes=2),
    "of a user": lambda: ek.Net(nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Tanh()), nn.Linear(4, 2)),
    "cosine": cosine,
    "hooked": hooked,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_any_other_net_keeps_its_modules(kind: str) -> None:
    assert LeanNet.of(OTHERS[kind]()) is None


def test_a_snapshot_predicts_as_the_learner_does_and_can_be_sent_elsewhere_meanwhile() -> None:
    learner = ek.Learner(ek.mlp(features=6, classes=2), ek.ER(), memory=10)
    x = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    learner.learn(x, list("abcdabcd"))
    snapshot = learner.snapshot()
    expected = learner.predict_proba(x)
    assert np.array_equal(snapshot.predict_proba(x), expected)
    sent = pickle.loads(pickle.dumps(snapshot))
    learner.learn(x, list("dcbadcba"))
    for one in (snapshot, sent):
        assert np.array_equal(one.predict_proba(x), expected)


def test_a_method_with_a_rule_of_its_own_is_asked() -> None:
    class Reversed(ek.ER):
        def classify(self, net: ek.Net, memory: object, x: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = -net(x)
            return scores

    learner = ek.Learner(ek.mlp(features=6, classes=2), Reversed(), memory=10)
    x = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    learner.learn(x, list("abababab"))
    assert np.array_equal(learner.snapshot().predict_proba(x), learner.predict_proba(x))
