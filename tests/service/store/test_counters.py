"""The counters of a service, and the recency bias."""

from collections.abc import Hashable

import pytest
import torch

from evenkeel.learning.learner import Learner
from evenkeel.learning.methods import ER
from evenkeel.learning.zoo import mlp
from evenkeel.service.store import versions
from evenkeel.service.store.counters import MEASURED, POINTS, Counters, memory_recency_bias
from tests.helpers.services import Open, examples, report, settle, teach


def test_recency_bias_follows_its_formula() -> None:
    """A slow version of it, sample by sample, for a memory that is smaller and one that is larger than the sample."""
    for capacity in (60, 400):
        learner = taught(capacity)
        rows = range(0, len(learner.memory), -(-len(learner.memory) // MEASURED))
        orders: list[dict[Hashable, int]] = [{0: 1, 1: 2, 2: 3}, {0: 9, 1: 2, 2: 3}, {0: 5, 2: 7}, {1: 4}]
        for last_seen in orders:
            x, y = learner.memory.column("x"), learner.memory.column("y")
            pairs = [(int(y[row]), int(learner.predict(x[row : row + 1])[0])) for row in rows]
            order = sorted({last_seen.get(label, 0) for pair in pairs for label in pair})
            recency = {label: order.index(last_seen.get(label, 0)) / (len(order) - 1) for label in range(3)}
            m, q = (sum(recency[pair[which]] for pair in pairs) / len(pairs) for which in (0, 1))
            assert m != q
            expected = 100 * (q - m) / (1 - m) if q > m else 100 * (q - m) / m
            assert memory_recency_bias(learner, last_seen) == pytest.approx(expected)


def taught(capacity: int) -> Learner:
    """Return a learner of three classes that cannot tell them apart, and predicts mostly the last one."""
    generator = torch.Generator().manual_seed(0)
    learner = Learner(mlp(features=4, classes=3), ER(), memory=capacity)
    for label in (0, 1, 2):
        for _ in range(5):
            learner.learn(torch.randn(40, 4, generator=generator), [label] * 40)
    return learner


def test_recency_bias_is_a_number_while_old_classes_still_come(opened: Open) -> None:
    """Also before anything was learned, and for a single class. Once it was blank unless classes stayed away."""
    service = opened()
    assert report(service).recency_bias == 0.0
    teach(service, examples(8, labels=["a"], own="first"))
    assert report(service).recency_bias == 0.0
    teach(service, examples(40, labels=["a", "b"], own="both"))
    assert isinstance(report(service).recency_bias, float)
    assert -100 <= report(service).recency_bias <= 100
    service.close()
    assert isinstance(report(opened(start=False)).recency_bias, float)


def test_what_was_seen_last_is_known_from_counters_of_version_0_1() -> None:
    state = Counters().state() | {"learned": 6, "counts": [["a", 2], ["b", 2], ["c", 2]], "newest": ["b", "c", "b"]}
    del state["last_seen"]
    assert Counters.from_state(state).last_seen == {"a": 0, "b": 6, "c": 5}


def test_every_point_of_the_history_has_all_that_waits(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that was accepted is learned or waits, at every point: once only what was read ahead counted."""
    monkeypatch.setattr("evenkeel.service.worker.publishing.MEASURE", 0.0)  # a point with each batch
    service = opened("batches.size=4", start=False)
    assert service.supervisor is not None
    service.learn(examples(400, own="e")).result()
    assert service.supervisor.history[-1]["queue"] == service.waiting == 400
    service.start()
    settle(service)
    points = service.supervisor.history
    assert [point["queue"] + point["learned"] for point in points] == [400] * len(points)
    assert len(points) > 90
    assert points[-1]["queue"] == service.waiting == 0


def test_the_counters_are_the_same_after_a_stop(opened: Open) -> None:
    service = opened()
    teach(service, examples(100, labels=[1, "1", 2]))
    before = versions.load(service.model_folder, service.model_folder.versions()[-1])[1].state()
    service.close()
    again = opened()
    again.save().result()
    assert versions.load(again.model_folder, again.model_folder.versions()[-1])[1].state() == before
    assert report(again).counts == {1: 34, "1": 33, 2: 33}


def test_under_load_one_batch_in_four_is_predicted_before_it_is_learned(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones all, until as many were tested as count as recent; later an incomplete one, too."""
    monkeypatch.setattr("evenkeel.service.worker.learning.RECENT", 8)
    service = opened("batches.size=4", "batches.wait=0.01", "classes=['cat', 'dog']", start=False)
    service.learn(examples(40, own="e")).result()
    service.start()
    settle(service)
    assert report(service).learned == 40
    assert report(service).tested == 4 * len([1, 2, 4, 8])
    teach(service, examples(3, own="last"))  # batch 11
    assert report(service).tested == 4 * len([1, 2, 4, 8]) + 3


def test_the_history_stays_small_and_keeps_its_ends() -> None:
    counters = Counters()
    for number in range(5 * POINTS):
        counters.learned = number
        counters.add_point(accuracy=1.0)
    assert len(counters.history) <= POINTS
    learned = [point["learned"] for point in counters.history]
    assert learned == sorted(learned)
    assert (learned[0], learned[-1]) == (0, 5 * POINTS - 1)
