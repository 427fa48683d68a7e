"""SCR: the contrastive loss, two views, parameters of its own, the nearest class mean."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

import evenkeel as ek
from evenkeel.errors import SettingsError
from tests.helpers.comparison_methods import (
    assert_gradient,
    dot,
    in_eval,
    mean_of,
    plain_learner,
    points,
    slow_features,
    smooth_net,
    unit,
)
from tests.helpers.methods import linear_net, random, seeded, view


def prepared(**settings: float) -> ek.SCR:
    method = ek.SCR(**settings)  # type: ignore[arg-type]
    method.prepare(linear_net(), seeded())
    return method


def slow_scr(method: ek.SCR, views: Sequence[ek.View]) -> float:
    """Return the loss, anchor by anchor and pair by pair."""
    rows = torch.cat([one.features for one in views])
    z = [unit(row) for row in method.project(rows).tolist()]
    y = [label for one in views for label in one.y.tolist()]
    terms = []
    for anchor, label in enumerate(y):
        others = [place for place in range(len(y)) if place != anchor]
        scale = math.log(sum(math.exp(dot(z[anchor], z[other]) / method.temperature) for other in others))
        partners = [other for other in others if y[other] == label]
        shares = [dot(z[anchor], z[other]) / method.temperature - scale for other in partners]
        if shares:
            terms.append(-sum(shares) / len(shares))
    return sum(terms) / len(terms)


CASES = {
    "two groups": ([2, 3, 3, 4, 2, 2, 3, 3, 4, 2], [0, 1, 1, 3, 0, 1, 1, 3]),
    "memory empty": ([2, 3, 3, 2], []),
    "a class with one sample": ([2, 3, 3, 2, 5], [0, 0, 6]),
}


@pytest.mark.parametrize("temperature", [0.07, 0.5])
@pytest.mark.parametrize("case", CASES)
def test_the_loss_is_the_contrastive_one_of_all_views(case: str, temperature: float) -> None:
    new, old = CASES[case]
    views = [view(y, seed) for seed, y in ((1, new), (2, old)) if y]
    method = prepared(temperature=temperature, projection=6)
    assert method.loss(views[0], views[1:]).item() == pytest.approx(slow_scr(method, views), rel=1e-12)
    assert_gradient(lambda v: method.loss(v[0], v[1:]), lambda v: slow_scr(method, v), views)


def test_without_any_pair_the_loss_is_zero_and_not_nan() -> None:
    assert prepared().loss(view([0, 1, 2], seed=1), []).item() == 0.0


def brighter(x: Tensor, _: torch.Generator) -> Tensor:
    return x + 100


def test_each_sample_is_shown_augmented_and_as_it_is() -> None:
    method, seen = ek.SCR(projection=4), list[list[ek.View]]()
    learner = plain_learner(method, augment=brighter)
    loss = method.loss

    def spied(new: ek.View, old: Sequence[ek.View]) -> Tensor:
        seen.append([new, *old])
        return loss(new, old)

    method.loss = spied  # type: ignore[method-assign]
    x, y = points([0, 1, 1, 0], seed=1)
    records = [learner.learn(x, y), learner.learn(x, y)]
    (first,), (new, old) = seen
    for one in (first, new):
        assert bool((one.x == torch.cat([x + 100, x])).all())
        assert one.y.tolist() == [*y, *y]
    assert len(old.y) == 2 * 4
    assert bool((old.x[:4] == old.x[4:] + 100).all())
    assert [record.replayed for record in records] == [0, 4]
    assert len(learner.memory) == 8  # each sample once


class Counting(ek.SCR):
    """SCR that stores a column."""

    def remember(self, new: ek.View) -> dict[str, Tensor]:
        return {"first": new.x[:, 0]}


def test_what_is_remembered_has_a_row_per_sample_from_its_augmented_view() -> None:
    learner = plain_learner(Counting(), augment=brighter)
    x, y = points([0, 1, 1, 0], seed=1)
    for _ in range(2):
        learner.learn(x, y)
    assert learner.memory.column("first").tolist() == [*(x[:, 0] + 100).tolist()] * 2


def groups_of(net: ek.Net) -> list[dict[str, Any]]:
    return [{"params": [*net.backbone.parameters()], "lr": 0.1}, {"params": [*net.head.parameters()]}]


OPTIMIZERS: dict[str, Callable[[ek.Net], Optimizer | Callable[..., Optimizer]]] = {
    "a function": lambda _: partial(SGD, lr=0.1, momentum=0.9),
    "an instance": lambda net: SGD(net.parameters(), lr=0.1, momentum=0.9),
    "groups": lambda net: Adam(groups_of(net)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_its_own_parameters_are_trained_saved_and_resumed_to_the_bit(name: str, tmp_path: Path) -> None:
    def learner() -> ek.Learner:
        net = smooth_net(2)
        return plain_learner(ek.SCR(projection=4), net=net, optimizer=OPTIMIZERS[name](net))

    batches = [points([0, 1, place % 4, 1], seed=place) for place in range(6)]
    straight, stopped = learner(), learner()
    before = [weight.clone() for weight in straight.method.parameters()]
    for batch in batches[:3]:
        straight.learn(*batch)
        stopped.learn(*batch)
    assert all(bool((now != then).any()) for now, then in zip(straight.method.parameters(), before, strict=True))
    stopped.save(tmp_path / "learner")
    resumed = ek.Learner.load(tmp_path / "learner", net=smooth_net(2))
    for batch in batches[3:]:  # labels 2 and 3 let the head grow
        assert straight.learn(*batch) == resumed.learn(*batch)
    for one, other in (
        (straight.net.state_dict(), resumed.net.state_dict()),
        (straight.method.state_dict(), resumed.method.state_dict()),
    ):
        assert all(bool((value == other[key]).all()) for key, value in one.items())


def test_prediction_is_by_the_nearest_class_mean_of_memory() -> None:
    learner = plain_learner(ek.SCR(projection=4))
    for place in range(4):
        learner.learn(*points([0, 1, 2, 2, 1], seed=place))
    by_class: dict[int, list[list[float]]] = {}
    features = slow_features(learner.net, learner.memory.column("x"))
    for row, label in zip(features, learner.memory.column("y").tolist(), strict=True):
        by_class.setdefault(label, []).append(unit(row))
    means = {label: mean_of(rows) for label, rows in by_class.items()}
    x = random(12, 4, seed=7)
    expected = [
        min(means, key=lambda label: sum((a - b) ** 2 for a, b in zip(unit(row), means[label], strict=True)))
        for row in slow_features(in_eval(learner.net), x)
    ]
    assert learner.predict(x).tolist() == expected
    assert len(set(expected)) > 1


def test_one_method_serves_one_learner() -> None:
    method = prepared()
    with pytest.raises(SettingsError, match="already belongs to a learner"):
        method.prepare(linear_net(), seeded())


def test_it_takes_no_adaptor() -> None:
    with pytest.raises(SettingsError, match="trains no head"):
        plain_learner(ek.SCR(), adaptor=ek.CBA())


def test_the_projection_has_the_type_of_the_net() -> None:
    assert all(weight.dtype == torch.float64 for weight in prepared().parameters())
    assert isinstance(prepared().project[1], nn.ReLU)
