"""MIR, against a version that tries each candidate by hand."""

import copy

import pytest
import torch
from torch.nn import functional as F
from torch.optim import SGD, Optimizer

import evenkeel as ek
from evenkeel.learning.types import Draw
from tests.helpers.comparison_methods import points, small_learner, smooth_net
from tests.helpers.methods import FEATURES, OUTPUTS, linear_net, random


def draw_of(count: int, seed: int) -> Draw:
    """Return samples with a column that numbers them."""
    y = torch.arange(count) * 3 % OUTPUTS
    return Draw(random(count, FEATURES, seed=seed), y, {"place": torch.arange(count)})


def chosen(net: ek.Net, optimizer: Optimizer, new: Draw, offered: Draw, count: int) -> list[int]:
    """Return the numbers of the candidates that MIR takes."""
    method = ek.MIR(candidates=len(offered.y))
    found = method.retrieve(net, optimizer, new, lambda number: offered.rows(torch.arange(number)), count)
    assert bool((found.x == offered.x[found.stored["place"]]).all())
    assert bool((found.y == offered.y[found.stored["place"]]).all())
    return found.stored["place"].tolist()


def slow_choice(net: ek.Net, rates: dict[str, float], new: Draw, offered: Draw, count: int) -> list[int]:
    """Step a copy of the net on the new batch, and rank candidates by how much their loss rose."""
    before, after = copy.deepcopy(net), copy.deepcopy(net)
    F.cross_entropy(after(new.x), new.y).backward()
    with torch.no_grad():
        for name, weight in after.named_parameters():
            assert weight.grad is not None
            weight.sub_(rates.get(name.split(".")[0], 0.0) * weight.grad)
        rise = [
            float(F.cross_entropy(then, label) - F.cross_entropy(now, label))
            for now, then, label in zip(before(offered.x), after(offered.x), offered.y, strict=True)
        ]
    return sorted(range(len(rise)), key=lambda place: -rise[place])[:count]


@pytest.mark.parametrize("rates", [{"backbone": 0.5, "head": 0.5}, {"backbone": 0.9, "head": 0.1}, {"head": 0.5}])
def test_the_samples_whose_loss_would_rise_most_are_replayed(rates: dict[str, float]) -> None:
    net, new, offered = smooth_net(), draw_of(6, seed=1), draw_of(20, seed=2)
    groups = [{"params": list(net.get_submodule(part).parameters()), "lr": lr} for part, lr in rates.items()]
    expected = slow_choice(net, rates, new, offered, 5)
    before = copy.deepcopy(net.state_dict())
    assert chosen(net, SGD(groups, momentum=0.9), new, offered, 5) == expected
    assert expected != slow_choice(net, dict.fromkeys(rates, -1.0), new, offered, 5)
    assert all(bool((value == before[name]).all()) for name, value in net.state_dict().items())
    assert all(weight.grad is None for weight in net.parameters())


def test_with_no_more_candidates_than_replayed_samples_nothing_is_chosen() -> None:
    net, asked = linear_net(), list[int]()

    def draw(number: int) -> Draw:
        asked.append(number)
        return draw_of(4, seed=2)

    taken = ek.MIR(candidates=3).retrieve(net, SGD(net.parameters(), lr=0.1), draw_of(2, seed=1), draw, 6)
    assert asked == [6]  # at least as many as are replayed, of which memory holds four
    assert taken.stored["place"].tolist() == [0, 1, 2, 3]


def test_a_learner_replays_as_many_as_it_is_set_to() -> None:
    learner = small_learner(ek.MIR(candidates=20))
    records = [learner.learn(*points([place % 3, 3] * 4, seed=place)) for place in range(6)]
    assert [record.replayed for record in records] == [0, 6, 6, 6, 6, 6]


def test_with_as_many_candidates_as_replayed_samples_it_is_er() -> None:
    mir, er = small_learner(ek.MIR(candidates=6)), small_learner(ek.ER())
    other = small_learner(ek.MIR(candidates=12))
    for place in range(5):
        batch = points([place % 3, 3] * 4, seed=place)
        assert mir.learn(*batch) == er.learn(*batch)
        other.learn(*batch)
    x = points([0, 1, 2], seed=9)[0]
    assert bool((mir.logits(x) == er.logits(x)).all())
    assert not bool((other.logits(x) == er.logits(x)).all())
