"""A service without HTTP: teaching, predicting, versions."""

import struct

import numpy as np
import pytest

from evenkeel.config.build import make_learner
from evenkeel.errors import InputError, NothingLearnedError
from evenkeel.learning.probes import differences, snapshot
from evenkeel.service.examples import Example, FullError
from evenkeel.service.store import queries
from evenkeel.service.store.journal import JournalError
from evenkeel.service.store.queries import ConflictError, UnknownError
from tests.helpers.processes import wait_for
from tests.helpers.services import Open, adds_up, examples, failing_once, learner_of, report, rows, settle, teach

# Teaching


def test_examples_are_learned_in_order_in_batches(opened: Open) -> None:
    service = opened("batches.size=8", start=False)
    given = examples(20, own="e")
    service.learn(given).result()
    service.start()
    settle(service)
    cut = rows(service, "SELECT batch, count(*), min(seq), max(seq) FROM examples GROUP BY batch ORDER BY batch")
    assert cut == [(1, 8, 1, 8), (2, 8, 9, 16), (3, 4, 17, 20)]
    twin = make_learner(service.config, (4,), None)
    for start in (0, 8, 16):
        part = given[start : start + 8]
        x = np.stack([np.frombuffer(each.x, dtype=np.float32) for each in part])
        twin.learn(x, [each.label for each in part], key=[each.id for each in part])
    assert not differences(snapshot(learner_of(service)), snapshot(twin))


def test_examples_waiting_at_a_stop_are_learned_later(opened: Open) -> None:
    first = opened(start=False)
    first.learn(examples(40, own="e")).result()
    first.close()
    second = opened()
    settle(second)
    assert report(second).learned == 40
    assert adds_up(second)


def test_a_retry_is_not_learned_twice(opened: Open) -> None:
    service = opened()
    given = examples(10, own="e")
    assert [each.new for each in service.learn(given).result()] == [True] * 10
    settle(service)
    assert [each.new for each in service.learn([*given, *examples(11, own="e")[10:]]).result()] == [False] * 10 + [True]
    settle(service)
    service.save().result()
    assert not any(each.new for each in service.learn(given).result())  # also once they are in a checkpoint
    assert service.counts().result()["accepted"] == 11
    assert [each.new for each in service.learn([given[0], given[0]]).result()] == [False, False]
    assert adds_up(service)


def test_an_id_with_other_content_is_refused_with_the_whole_request(opened: Open) -> None:
    service = opened()
    teach(service, examples(2, own="e"))
    changed = Example(examples(1, seed=1)[0].x, "cat", "e0")
    with pytest.raises(ConflictError, match="'e0' was accepted before"):
        service.learn([Example(changed.x, "cat", "new"), changed]).result()
    assert service.waiting == 0
    assert service.counts().result()["accepted"] == 2


def test_a_full_queue_says_when_to_retry(opened: Open) -> None:
    service = opened("limits.queue=10", start=False)
    service.learn(examples(8)).result()
    with pytest.raises(FullError, match="8 examples are waiting") as caught:
        service.learn(examples(3))
    assert 1 <= caught.value.seconds <= 60
    assert service.learn(examples(2)).result()[1].new
    service.start()
    settle(service)
    assert service.learn(examples(3)).result()


def test_too_many_labels_and_long_or_unknown_ones_are_refused(opened: Open) -> None:
    service = opened("limits.classes=2")
    teach(service, examples(4))
    with pytest.raises(InputError, match="3 different labels; the limit is 2"):
        service.learn(examples(1, labels=["bird"])).result()
    with pytest.raises(InputError, match="A label has at most 200 characters"):
        service.learn(examples(1, labels=["b" * 201])).result()
    fixed = opened("classes=['cat', 'dog']", folder="fixed")
    with pytest.raises(InputError, match=r"'dgo' is not one of 'cat', 'dog'\. Did you mean 'dog'"):
        fixed.learn(examples(1, labels=["dgo"])).result()


def test_a_batch_that_is_not_finite_is_refused_and_the_rest_is_learned(opened: Open) -> None:
    service = opened("batches.size=4")
    teach(service, examples(8))
    before = snapshot(learner_of(service))
    huge = struct.pack("4f", *[3e38] * 4)
    teach(service, [Example(huge, "cat"), Example(huge, "dog"), Example(huge, "cat"), Example(huge, "dog")])
    assert report(service).refused == 4
    assert "was not learned" in (report(service).refusal or "")
    weights = [name for name in differences(before, snapshot(learner_of(service))) if ".net." in name]
    assert weights == []
    teach(service, examples(8, seed=2))
    assert report(service).learned == 16
    assert service.problem is None
    assert adds_up(service)


# Predicting


def test_predicting_before_anything_was_learned_is_an_error(opened: Open) -> None:
    with pytest.raises(NothingLearnedError, match="Nothing has been learned yet"):
        opened().predict([examples(1)[0].x])


def test_late_labels_teach_and_count_what_was_answered(opened: Open) -> None:
    service = opened()
    teach(service, examples(64))
    predicted = examples(6, seed=5)
    version, answers = service.predict([each.x for each in predicted])
    ids = service.remember([each.x for each in predicted], version, answers)
    truths = [(id, each.label) for id, each in zip(ids, predicted, strict=True)]
    wrong = [(ids[0], "dog" if answers[0].label == "cat" else "cat"), *truths[1:]]
    accepted = service.tell(wrong).result()
    right = sum(answer.label == label for answer, (_, label) in zip(answers, wrong, strict=True))
    assert [each.right for each in accepted] == [
        answer.label == label for answer, (_, label) in zip(answers, wrong, strict=True)
    ]
    settle(service)
    counts = service.counts().result()
    assert (counts["labelled"], counts["right"], counts["accepted"]) == (6, right, 70)
    assert not any(each.new for each in service.tell(wrong).result())
    with pytest.raises(ConflictError, match="was labelled"):
        service.tell([(ids[0], "bird")]).result()
    with pytest.raises(UnknownError, match="no prediction 'x'"):
        service.tell([wrong[1], ("x", "cat")]).result()
    assert adds_up(service)


def test_only_the_newest_predictions_are_kept(opened: Open) -> None:
    service = opened("limits.predictions=3")
    teach(service, examples(8))
    x = [each.x for each in examples(5)]
    ids = service.remember(x, *service.predict(x))
    with pytest.raises(UnknownError):
        service.tell([(ids[1], "cat")]).result()
    assert service.tell([(ids[2], "cat")]).result()[0].new


def test_answers_come_from_a_snapshot_that_stays(opened: Open) -> None:
    service = opened()
    teach(service, examples(64))
    published = service.published
    x = np.zeros((3, 4), dtype=np.float32)
    before = published.classifier.predict_proba(x)
    teach(service, examples(320, seed=9, labels=["bird", "cat"]))
    assert np.array_equal(published.classifier.predict_proba(x), before)
    assert service.published.version > published.version
    assert "bird" in service.published.classifier.classes
    assert service.published.classifier.predict_proba(x).shape == (3, 3)


# Checkpoints, versions


def test_samples_leave_the_journal_once_they_are_in_two_checkpoints(opened: Open) -> None:
    service = opened()
    teach(service, examples(300, own="e"))
    teach(service, examples(20, seed=1))
    teach(service, examples(7, seed=2))  # in one only
    assert service.journal is not None
    wait_for(lambda: rows(service, "SELECT count(*) FROM examples WHERE x IS NOT NULL") == [(7,)])
    for _ in range(20):
        service.journal.do(lambda db: queries.tidy(db, 1_000_000))
    assert rows(service, "SELECT count(*) FROM examples WHERE label IS NOT NULL") == [(7,)]
    assert rows(service, "SELECT count(*) FROM examples") == [(307,)]  # with ids that a client may send again


def test_old_ids_are_dropped(opened: Open) -> None:
    service = opened("limits.ids=10")
    teach(service, examples(40, own="e"))
    service.save().result()
    teach(service, examples(1, own="f"))
    service.save().result()
    wait_for(lambda: len(rows(service, "SELECT id FROM examples")) <= 10)
    assert service.learn(examples(1, own="e")).result()[0].new


def test_versions_are_kept_as_the_config_says(opened: Open) -> None:
    service = opened("checkpoints.keep=2", "checkpoints.batches=1", "batches.size=4")
    teach(service, examples(4))
    requested = service.save("mine").result()
    for seed in range(4):
        teach(service, examples(4, seed=seed))
    kept = service.list_versions().result()
    assert [version.number for version in kept if not version.asked] == service.model_folder.versions()[-2:]
    assert requested.number in [version.number for version in kept]
    assert [version.number for version in kept] == service.model_folder.versions()
    assert next(version.note for version in kept if version.number == requested.number) == "mine"


def test_a_rollback_is_exact_and_survives_a_stop(opened: Open) -> None:
    service = opened()
    teach(service, examples(64))
    version = service.save().result().number
    then = snapshot(learner_of(service))
    teach(service, examples(64, seed=3, labels=["bird", "cat"]))
    assert differences(then, snapshot(learner_of(service)))
    new = service.rollback(version).result()
    assert new.number > version
    assert not differences(then, snapshot(learner_of(service)))
    assert service.published.classifier.classes == ["cat", "dog"]
    service.close()
    again = opened()
    assert not differences(then, snapshot(learner_of(again)))
    assert adds_up(again)
    with pytest.raises(UnknownError, match="no version 99"):
        again.rollback(99).result()
    teach(again, examples(32, seed=4))
    assert report(again).learned == 160


def test_a_rollback_learns_what_waits(opened: Open) -> None:
    service = opened("batches.size=4")
    teach(service, examples(4))
    version = service.save().result().number
    back = service.rollback(version)
    service.learn(examples(30, own="w")).result()
    back.result()
    settle(service)
    assert report(service).learned == 34
    assert adds_up(service)


def test_a_rollback_that_fails_changes_nothing(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened("batches.size=4")
    teach(service, examples(8))
    version = service.save().result().number
    service.learn(examples(40, own="w")).result()
    failing_once(monkeypatch)
    with pytest.raises(JournalError, match="No checkpoint could be written"):
        service.rollback(version).result()
    settle(service)
    assert report(service).learned == 48
    assert adds_up(service)


def test_a_start_reports_when_it_has_caught_up(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenkeel.service.worker.publishing.PUBLISH", 0.0)
    monkeypatch.setattr("evenkeel.service.worker.publishing.PUBLISHING", 1e9)
    first = opened("batches.size=4", start=False)
    first.learn(examples(16, own="e")).result()
    first.close()
    second = opened()
    settle(second)
    wait_for(lambda: not report(second).recovering)


def test_every_method_that_needs_no_tasks_can_be_served(opened: Open) -> None:
    for name in ("er", "derpp", "clser", "er_ace"):
        service = opened(f"method.name={name}", "memory.capacity=20", folder=name)
        teach(service, examples(48))
        x = [examples(1)[0].x]
        assert service.predict(x)[1][0].label in ("cat", "dog")
        service.close()
