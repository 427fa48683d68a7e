"""The counters of a service, and the recency bias."""

import pytest
import torch

from evenkeel.learning.learner import Learner
from evenkeel.service.store import versions
from evenkeel.service.store.counters import POINTS, Counters, memory_recency_bias
from tests.helpers.services import Open, examples, report, teach


def test_recency_bias_follows_its_formula() -> None:
    from evenkeel.learning.methods import ER
    from evenkeel.learning.zoo import mlp

    generator = torch.Generator().manual_seed(0)
    learner = Learner(mlp(features=4, classes=3), ER(), memory=60)
    for label in (0, 1, 2):
        learner.learn(torch.randn(40, 4, generator=generator), [label] * 40)
    for newest in ([2], [1, 2], [0]):
        rows = [(x, int(y)) for x, y in zip(learner.memory.column("x"), learner.memory.column("y"), strict=True)]
        older = [x for x, y in rows if y not in newest]
        mistaken = sum(int(learner.predict(x[None])[0]) in newest for x in older)
        assert memory_recency_bias(learner, newest) == pytest.approx(100 * mistaken / len(older))
    assert memory_recency_bias(learner, [0, 1, 2]) is None
    assert memory_recency_bias(learner, []) is None


def test_the_counters_are_the_same_after_a_stop(opened: Open) -> None:
    service = opened()
    teach(service, examples(100, labels=[1, "1", 2]))
    before = versions.load(service.model_folder, service.model_folder.versions()[-1])[1].state()
    service.close()
    again = opened()
    again.save().result()
    assert versions.load(again.model_folder, again.model_folder.versions()[-1])[1].state() == before
    assert report(again).counts == {1: 34, "1": 33, 2: 33}


def test_the_history_stays_small_and_keeps_its_ends() -> None:
    counters = Counters()
    for number in range(5 * POINTS):
        counters.learned = number
        counters.add_point(accuracy=1.0)
    assert len(counters.history) <= POINTS
    learned = [point["learned"] for point in counters.history]
    assert learned == sorted(learned)
    assert (learned[0], learned[-1]) == (0, 5 * POINTS - 1)
