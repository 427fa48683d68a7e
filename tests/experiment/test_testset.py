"""Accuracies on a test set, by hand and by property."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

import evenkeel as ek
from evenkeel.experiment.testset import TestSet
from evenkeel.learning.rng import make_generator
from tests.helpers.streams import images, learn_all, learner


def make_test_set(y: list[int], tasks: list[list[int]], classes: int = 4) -> TestSet:
    """Return a test set of these labels, which must be sorted by task."""
    task = [next(place for place, own in enumerate(tasks) if label in own) for label in y]
    assert task == sorted(task)
    x = torch.arange(len(y) * 64, dtype=torch.uint8).view(-1, 1, 8, 8)
    return TestSet(x, torch.tensor(y), torch.tensor(task), list(range(classes)), tasks)


SCORES = torch.tensor(
    [
        [5.0, 1.0, 0.0, 0.0],  # 0, correct
        [0.0, 1.0, 5.0, 0.0],  # 1, mistaken for a class of the other task
        [1.0, 0.0, 0.0, 0.0],  # 1, wrong even within its task
        [0.0, 0.0, 0.0, 5.0],  # 3, correct
        [0.0, 0.0, 1.0, 0.0],  # 2, correct
        [9.0, 0.0, 1.0, 0.0],  # 2, mistaken for a class of the other task
    ]
)
BY_HAND = make_test_set([0, 1, 1, 3, 2, 2], [[0, 1], [2, 3]])


def test_accuracies_by_hand() -> None:
    assert BY_HAND.accuracy(SCORES) == pytest.approx([100 / 3, 200 / 3])
    assert BY_HAND.masked(SCORES) == pytest.approx([200 / 3, 100])
    assert BY_HAND.seen(SCORES, [0, 1]) == pytest.approx([200 / 3, 0])
    assert BY_HAND.seen(SCORES, {0: None, 2: None, 3: None}) == pytest.approx([100 / 3, 200 / 3])


def test_predictions_by_task_and_confusion_by_hand() -> None:
    assert BY_HAND.predicted(SCORES, 1) == pytest.approx([50, 50])
    assert BY_HAND.predicted(SCORES, 0) == pytest.approx([200 / 3, 100 / 3])  # only samples of the first task count
    counts = [[1, 0, 0, 0, 0], [1, 0, 1, 0, 0], [1, 0, 1, 0, 0], [0, 0, 0, 1, 0]]  # the last column: no prediction
    assert BY_HAND.confusion(SCORES).tolist() == counts
    nothing = BY_HAND.confusion(torch.full((6, 4), -torch.inf))
    assert nothing[:, :4].sum() == 0
    assert nothing[:, 4].tolist() == [1, 2, 2, 1]


def test_tasks_that_share_classes_have_no_distribution_of_predictions() -> None:
    shared = TestSet(torch.zeros(2, 4), torch.tensor([0, 1]), torch.tensor([0, 1]), [0, 1], [[0, 1], [0, 1]])
    assert shared.predicted(torch.eye(2), 1) == []
    assert shared.accuracy(torch.eye(2)) == [100, 100]


def test_a_class_without_an_output_is_never_correct() -> None:
    """Not even if no class competes, so that argmax would give the first class, which may be the true one."""
    nothing = torch.full((6, 4), -torch.inf)
    assert BY_HAND.accuracy(nothing) == [0, 0]
    assert BY_HAND.masked(nothing) == [0, 0]


@given(data=st.data(), tasks=st.sampled_from([[[0, 1], [2, 3]], [[0], [1, 2, 3]], [[1, 3], [0, 2]]]))
@settings(deadline=None)
def test_knowing_the_task_never_hurts_and_the_scores_are_unchanged(data: st.DataObject, tasks: list[list[int]]) -> None:
    drawn = [0, 1, 2, 3, *data.draw(st.lists(st.integers(0, 3), max_size=8))]
    y = [label for own in tasks for label in drawn if label in own]
    raw: NDArray[Any] = data.draw(hnp.arrays(np.float32, (len(y), 5), elements=st.integers(-3, 3)))  # with many ties
    scores = torch.tensor(raw)
    before, one = scores.clone(), make_test_set(y, tasks)
    plain, masked = one.accuracy(scores), one.masked(scores)
    seen = one.seen(scores, [0, 1, 2, 3])
    assert torch.equal(scores, before)
    assert all(known >= half >= unknown for known, half, unknown in zip(masked, seen, plain, strict=True))


@pytest.mark.parametrize("size", [1, 4, 10, 39, 40, 100])
def test_a_sample_keeps_the_shares_of_tasks_and_classes(size: int) -> None:
    y = torch.arange(2).repeat_interleave(torch.tensor([10, 30]))
    whole = TestSet(torch.arange(40)[:, None].float(), y, y.clone(), [0, 1], [[0], [1]])
    part = whole.sample(size, make_generator(0, "anytime"))
    wanted = [max(1, round(size / 4)), max(1, round(size * 3 / 4))] if size < 40 else [10, 30]
    assert part.y.bincount().tolist() == wanted
    assert part.task.tolist() == sorted(part.task.tolist())
    places = part.x[:, 0].long()
    assert torch.equal(whole.y[places], part.y)
    assert len(set(places.tolist())) == len(places)
    again = whole.sample(size, make_generator(0, "anytime"))
    assert torch.equal(again.x, part.x)


def test_until_keeps_the_tasks_up_to_one() -> None:
    part = BY_HAND.until(0)
    assert part.y.tolist() == [0, 1, 1]
    assert len(part.accuracy(SCORES[:3])) == 1


@pytest.mark.parametrize("labels", [["d", "a", "c", "b"], ["a", "b", "c", "d"]])
def test_scores_are_by_class_in_whatever_order_labels_arrived(labels: list[str]) -> None:
    """A growing head numbers its outputs by arrival; the test set has its own order."""
    one = learner(ek.ER(), outputs=1)
    x = images(batches=1)[0][0][:4]
    one.learn(x[:2], labels[:2])
    test_set = TestSet(x, torch.arange(4), torch.zeros(4, dtype=torch.int64), list("abcd"), [[0, 1, 2, 3]])
    scores, logits = test_set.scores(one), one.logits(x)
    for output, name in enumerate(labels[:2]):
        assert torch.equal(scores[:, "abcd".index(name)], logits[:, output])
    assert bool((scores[:, ["abcd".index(name) for name in labels[2:]]] == -torch.inf).all())
    one.learn(x, ["x", "y", *labels[2:]])
    assert test_set.scores(one).shape == (4, 6)  # two labels that the test set lacks compete too
    assert test_set.accuracy(test_set.scores(one)) == [100 * np.mean(one.predict(x) == np.array(list("abcd")))]


def test_a_test_records_what_a_learner_predicts_and_changes_nothing() -> None:
    one = learner(ek.ER())
    stream = images()
    learn_all(one, stream)
    x = torch.cat([x for x, _ in stream])
    y = torch.tensor([label for _, labels in stream for label in labels])
    order = y.argsort(stable=True)
    by_label = TestSet(x[order], y[order], y[order] // 2, one.classes, [[0, 1], [2, 3]])
    places = torch.tensor([one.classes.index(int(label)) for label in by_label.y])
    test_set = TestSet(by_label.x, places, by_label.task, one.classes, by_label.tasks)
    before = one.logits(x)
    record = test_set.test(one, 1, one.classes, "float32")
    assert torch.equal(one.logits(x), before)
    right = torch.from_numpy(one.predict(test_set.x)) == y[order]
    assert record.accuracy == pytest.approx([100 * float(right[test_set.task == t].double().mean()) for t in (0, 1)])
    assert sum(map(sum, record.confusion)) == len(y)
    assert sum(record.memory) == len(one.memory) == 10
    assert sum(record.predicted) == pytest.approx(100)
