"""What a service promises, without the wires."""

import multiprocessing
import resource
import sqlite3
import struct
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evenkeel.config.build import make_learner
from evenkeel.errors import BusyError, CheckpointError, InputError, RunError, SettingsError
from evenkeel.learning import checkpoint
from evenkeel.learning.contract import differences, snapshot
from evenkeel.learning.learner import Learner
from evenkeel.service.examples import FullError, Given, NothingLearnedError
from evenkeel.service.service import Service
from evenkeel.service.store import queries, versions
from evenkeel.service.store.counters import POINTS, Counters, memory_recency_bias
from evenkeel.service.store.journal import JournalError
from evenkeel.service.store.queries import ConflictError, UnknownError
from evenkeel.service.worker.pipe import WorkerReport
from tests.service.conftest import Open, examples


def settle(service: Service) -> None:
    deadline = time.monotonic() + 60
    while service.waiting:
        assert time.monotonic() < deadline, service.problem
        time.sleep(0.005)
    assert service.supervisor is not None
    service.supervisor.command("save").result()  # the batch at hand is wholly done, and what is counted told


def teach(service: Service, given: list[Given]) -> list[str]:
    accepted = service.learn(given).result()
    settle(service)
    return [each.id for each in accepted]


def rows(service: Service, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(service.model_folder.journal)) as db:
        return db.execute(query).fetchall()


def learner_of(service: Service) -> Learner:
    """As it is on the disk after `settle`."""
    return Learner.load(service.model_folder.version(service.model_folder.versions()[-1]))


def report(service: Service) -> WorkerReport:
    assert service.supervisor is not None
    return service.supervisor.report


def adds_up(service: Service) -> bool:
    counts, told = service.counts().result(), report(service)
    return counts["accepted"] == told.learned + told.refused + service.waiting + counts["withdrawn"]


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


def test_what_waits_when_it_stops_is_learned_later(opened: Open) -> None:
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
    assert not any(each.new for each in service.learn(given).result())  # also when it is inside a checkpoint
    assert service.counts().result()["accepted"] == 11
    assert [each.new for each in service.learn([given[0], given[0]]).result()] == [False, False]
    assert adds_up(service)


def test_an_id_with_another_content_is_refused_and_all_with_it(opened: Open) -> None:
    service = opened()
    teach(service, examples(2, own="e"))
    changed = Given(examples(1, seed=1)[0].x, "cat", "e0")
    with pytest.raises(ConflictError, match="'e0' was accepted before"):
        service.learn([Given(changed.x, "cat", "new"), changed]).result()
    assert service.waiting == 0
    assert service.counts().result()["accepted"] == 2


def test_a_full_queue_says_when_to_come_again(opened: Open) -> None:
    service = opened("limits.queue=10", start=False)
    service.learn(examples(8)).result()
    with pytest.raises(FullError, match="8 examples are waiting") as caught:
        service.learn(examples(3))
    assert 1 <= caught.value.seconds <= 60
    assert service.learn(examples(2)).result()[1].new
    service.start()
    settle(service)
    assert service.learn(examples(3)).result()


def test_an_engine_that_hears_at_once_is_woken_again(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor, sent = opened(start=False).supervisor, list[str]()
    assert supervisor is not None

    def send(kind: str, _: object = None, **__: object) -> bool:
        sent.append(kind)
        if kind == "wake":  # it asks before whoever woke it goes on
            supervisor._hear("journal", queries.versions, multiprocessing.Pipe()[0])
        return True

    monkeypatch.setattr(supervisor, "_send", send)
    for _ in range(3):
        supervisor.settle(0, 1)
    assert sent.count("wake") == 3


def test_too_many_labels_and_strange_ones_are_refused(opened: Open) -> None:
    service = opened("limits.classes=2")
    teach(service, examples(4))
    with pytest.raises(InputError, match="3 different labels; the limit is 2"):
        service.learn(examples(1, labels=["bird"])).result()
    fixed = opened("classes=['cat', 'dog']", folder="fixed")
    with pytest.raises(InputError, match=r"'dgo' is not one of 'cat', 'dog'\. Did you mean 'dog'"):
        fixed.learn(examples(1, labels=["dgo"])).result()


def test_a_batch_that_is_not_finite_is_refused_and_the_rest_goes_on(opened: Open) -> None:
    service = opened("batches.size=4")
    teach(service, examples(8))
    before = snapshot(learner_of(service))
    huge = struct.pack("4f", *[3e38] * 4)
    teach(service, [Given(huge, "cat"), Given(huge, "dog"), Given(huge, "cat"), Given(huge, "dog")])
    assert report(service).refused == 4
    assert "was not learned" in (report(service).refusal or "")
    weights = [name for name in differences(before, snapshot(learner_of(service))) if ".net." in name]
    assert weights == []
    teach(service, examples(8, seed=2))
    assert report(service).learned == 16
    assert service.problem is None
    assert adds_up(service)


# Asking


def test_asking_before_anything_was_learned_is_an_error(opened: Open) -> None:
    with pytest.raises(NothingLearnedError, match="Nothing was learned yet"):
        opened().predict([examples(1)[0].x])


def test_late_labels_teach_and_count_what_was_answered(opened: Open) -> None:
    service = opened()
    teach(service, examples(64))
    asked = examples(6, seed=5)
    version, answers = service.predict([each.x for each in asked])
    ids = service.remember([each.x for each in asked], version, answers)
    truths = [(id, each.label) for id, each in zip(ids, asked, strict=True)]
    wrong = [(ids[0], "dog" if answers[0].label == "cat" else "cat"), *truths[1:]]
    told = service.tell(wrong).result()
    right = sum(answer.label == label for answer, (_, label) in zip(answers, wrong, strict=True))
    assert [each.right for each in told] == [
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


def test_payloads_leave_the_journal_when_they_are_inside_a_checkpoint(opened: Open) -> None:
    service = opened()
    teach(service, examples(300, own="e"))
    teach(service, examples(20))
    service.save().result()
    assert service.journal is not None
    service.journal.tidy()
    deadline = time.monotonic() + 20
    while rows(service, "SELECT count(*) FROM examples WHERE x IS NOT NULL") != [(0,)]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert rows(service, "SELECT count(*) FROM examples WHERE label IS NOT NULL") == [(0,)]
    assert rows(service, "SELECT count(*) FROM examples") == [(300,)]  # ids that a client may send again


def test_old_ids_are_dropped(opened: Open) -> None:
    service = opened("limits.ids=10")
    teach(service, examples(40, own="e"))
    service.save().result()
    teach(service, examples(1, own="f"))
    service.save().result()
    deadline = time.monotonic() + 20
    while len(rows(service, "SELECT id FROM examples")) > 10:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert service.learn(examples(1, own="e")).result()[0].new


def test_versions_are_kept_as_the_config_says(opened: Open) -> None:
    service = opened("checkpoints.keep=2", "checkpoints.batches=1", "batches.size=4")
    teach(service, examples(4))
    asked = service.save("mine").result()
    for seed in range(4):
        teach(service, examples(4, seed=seed))
    kept = service.list_versions().result()
    assert [version.number for version in kept if not version.asked] == service.model_folder.versions()[-2:]
    assert asked.number in [version.number for version in kept]
    assert [version.number for version in kept] == service.model_folder.versions()
    assert next(version.note for version in kept if version.number == asked.number) == "mine"


def test_going_back_is_exact_and_survives_a_stop(opened: Open) -> None:
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


def test_going_back_learns_what_waits(opened: Open) -> None:
    service = opened("batches.size=4")
    teach(service, examples(4))
    version = service.save().result().number
    back = service.rollback(version)
    service.learn(examples(30, own="w")).result()
    back.result()
    settle(service)
    assert report(service).learned == 34
    assert adds_up(service)


def test_a_damaged_version_is_told_with_a_way_out(opened: Open) -> None:
    service = opened()
    teach(service, examples(32))
    service.save().result()
    service.close()
    newest = service.model_folder.versions()[-1]
    path = service.model_folder.version(newest)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(CheckpointError, match=r"Versions kept: 0; `evenkeel serve --rollback N` starts from one"):
        opened()
    back = opened(rollback=0)
    assert back.published.classifier.classes == []
    teach(back, examples(32))
    assert back.published.classifier.classes == ["cat", "dog"]


def failing_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next checkpoint finds no room on the disk."""
    write, calls = checkpoint.write, list[int]()

    def fail_first(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("No space left on device")
        write(*arguments)

    monkeypatch.setattr("evenkeel.learning.checkpoint.write", fail_first)


def test_going_back_that_fails_changes_nothing(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_start_that_catches_up_says_so(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenkeel.service.worker.worker.PUBLISH", 0.0)
    monkeypatch.setattr("evenkeel.service.worker.worker.PUBLISHING", 1e9)
    first = opened("batches.size=4", start=False)
    first.learn(examples(16, own="e")).result()
    assert first.journal is not None
    first.journal.do(partial(queries.assign, size=4, most=4, partial=False))  # and then it was killed
    first.close()
    second = opened()
    settle(second)
    deadline = time.monotonic() + 10
    while report(second).recovering:
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Forgetting


def marked(mark: float) -> bytes:
    return struct.pack("4f", *[mark] * 4)


def holders(service: Service, payload: bytes) -> list[str]:
    """Files of the service with these bytes."""
    return [
        path.name
        for path in sorted(service.model_folder.path.rglob("*"))
        if path.is_file() and payload in path.read_bytes()
    ]


@pytest.mark.parametrize("own", ["mine", ""])
def test_an_example_that_is_forgotten_is_in_no_file(opened: Open, own: str) -> None:
    service = opened()
    payload = marked(1.2345678)
    (id,) = teach(service, [Given(payload, "cat", own or None)])
    service.save().result()
    teach(service, examples(20))
    service.save().result()
    assert len(holders(service, payload)) >= 2  # in the memory of two versions, at least
    forgotten = service.forget(id).result()
    assert (forgotten.memory, forgotten.waiting, forgotten.versions) == (1, False, 1)
    assert holders(service, payload) == []
    with pytest.raises(UnknownError, match="Nothing is held"):
        service.forget(id).result()
    service.close()
    again = opened()
    assert report(again).learned == 21
    assert not bool((learner_of(again).memory.column("x") == 1.2345678).any())
    assert adds_up(again)


def test_forgetting_what_left_memory_leaves_the_checkpoint_to_start_from_alone(opened: Open) -> None:
    service = opened("memory.capacity=5", "checkpoints.batches=1000", "checkpoints.seconds=3600", "batches.size=4")
    payload = marked(2.7182818)
    (id,) = [each.id for each in service.learn([Given(payload, "cat")]).result()]
    settle(service)
    for seed in range(20):  # until it has left memory, but not the checkpoint
        service.learn(examples(40, seed=seed)).result()
    while service.waiting:
        time.sleep(0.01)
    service.forget(id).result()
    assert holders(service, payload) == []
    assert rows(service, "SELECT value FROM meta WHERE name = 'current'") == [(service.published.version,)]


def test_forgetting_that_failed_can_be_asked_for_again(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened()
    payload = marked(1.6180339)
    (id,) = teach(service, [Given(payload, "cat")])
    failing_once(monkeypatch)
    with pytest.raises(JournalError, match="No checkpoint could be written"):
        service.forget(id).result()
    assert service.forget(id).result().memory == 1
    assert holders(service, payload) == []


def test_an_example_that_waits_is_forgotten_before_it_is_learned(opened: Open) -> None:
    service = opened("batches.size=4", "batches.wait=3600")
    payload = marked(7.654321)
    ids = [each.id for each in service.learn([Given(payload, "cat"), *examples(2)]).result()]
    assert service.forget(ids[0]).result().waiting
    assert holders(service, payload) == []
    assert service.waiting == 2
    teach(service, examples(2))
    assert report(service).learned == 4
    assert adds_up(service)


def test_a_prediction_is_forgotten_too(opened: Open) -> None:
    service = opened()
    teach(service, examples(8))
    payload = marked(3.1415)
    (id,) = service.remember([payload], *service.predict([payload]))
    assert holders(service, payload)
    assert service.forget(id).result().prediction
    assert holders(service, payload) == []
    with pytest.raises(UnknownError):
        service.tell([(id, "cat")]).result()


# Disks that fail


def test_what_is_committed_is_told_so_whatever_comes_after(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened()
    assert service.journal is not None

    def fail(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("evenkeel.service.store.journal.truncate_log", fail)
    scrubbed, accepted = service.journal.scrub(), service.learn(examples(4))
    assert isinstance(scrubbed.exception(), JournalError)
    assert all(each.new for each in accepted.result())
    settle(service)
    assert adds_up(service)


def test_a_request_that_is_cancelled_kills_nobody(opened: Open) -> None:
    service = opened()
    accepted, saved = service.learn(examples(4)), service.save()
    assert not accepted.cancel()
    assert not saved.cancel()
    saved.result()
    settle(service)
    assert adds_up(service)


def test_a_full_disk_keeps_what_was_accepted_and_answers_go_on(opened: Open) -> None:
    service = opened()
    teach(service, examples(64, own="e"))
    assert service.journal is not None
    db = service.journal._db
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    service.journal.write(lambda db: db.execute(f"PRAGMA max_page_count = {pages}")).result()
    outcomes = [service.learn(examples(200, seed=seed)) for seed in range(20)]
    refused = [each.exception() for each in outcomes if each.exception()]
    assert refused
    assert all(isinstance(each, JournalError) for each in refused)
    assert "Nothing of this was done" in str(refused[0])
    x = [examples(1)[0].x]
    assert service.predict(x)[1][0].label in ("cat", "dog")
    assert "cannot be written" in (service.problem or "")
    service.journal.write_alone(lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchone()).result()
    settle(service)
    deadline = time.monotonic() + 20
    while service.problem is not None:  # though nobody sends anything
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert service.learn(examples(4)).result()
    settle(service)
    assert service.problem is None
    assert adds_up(service)


def test_a_damaged_journal_is_left_alone_and_answers_go_on(opened: Open) -> None:
    service = opened()
    teach(service, examples(400, own="e"))
    service.close()
    path = service.model_folder.journal
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xff" * (4096 * 3)
    path.write_bytes(content)
    broken = opened()
    assert "cannot be used" in (broken.problem or "")
    assert broken.predict([examples(1)[0].x])[1][0].label in ("cat", "dog")
    for refused in (lambda: broken.learn(examples(1)), lambda: broken.tell([("a", "b")]), lambda: broken.forget("a")):
        with pytest.raises(JournalError, match="Predictions go on; nothing is learned"):
            refused()
    assert path.read_bytes() == bytes(content)


def test_damaged_predictions_are_put_aside(opened: Open) -> None:
    service = opened()
    teach(service, examples(32))
    service.close()
    service.model_folder.predictions.write_bytes(b"nothing of the kind" * 1000)
    again = opened()
    x = [examples(1)[0].x]
    (id,) = again.remember(x, *again.predict(x))
    assert again.tell([(id, "cat")]).result()[0].new
    assert service.model_folder.predictions.with_name("predictions.sqlite.damaged").is_file()


def _on_a_disk_that_takes_nothing(path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    service = Service(path)
    assert service.problem
    assert service.predict([examples(1)[0].x])[1][0].label in ("cat", "dog")
    try:
        service.learn(examples(1))
    except JournalError:
        service.close()
    else:
        raise AssertionError("It accepted what it cannot keep.")


def test_a_disk_that_cannot_be_written_still_answers(opened: Open, tmp_path: Path) -> None:
    service = opened()
    teach(service, examples(32))
    service.close()
    process = multiprocessing.get_context("spawn").Process(
        target=_on_a_disk_that_takes_nothing, args=(tmp_path / "model",)
    )
    process.start()
    process.join()
    assert process.exitcode == 0


def test_without_any_readable_version_it_does_not_start(opened: Open) -> None:
    service = opened()
    service.close()
    service.model_folder.journal.write_bytes(b"nothing of the kind" * 1000)
    service.model_folder.version(0).write_bytes(b"")
    with pytest.raises(RunError, match=r"No version in .* can be read either"):
        opened()


def test_a_clock_that_jumps_does_not_matter(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(10_000_000, 0, -3600))
    monkeypatch.setattr("evenkeel.service.store.versions.time.time", lambda: next(moments))
    service = opened("checkpoints.batches=1")
    for seed in range(3):
        teach(service, examples(5, seed=seed))
    assert report(service).learned == 15
    learned = [version.learned for version in service.list_versions().result()]
    assert learned == sorted(learned)


# The folder


def test_one_process_owns_the_folder(opened: Open) -> None:
    opened()
    with pytest.raises(BusyError, match="is at work in"):
        opened()


def test_limits_may_change_but_not_the_learner(opened: Open, tmp_path: Path) -> None:
    service = opened()
    teach(service, examples(8))
    service.close()
    changed = opened("limits.queue=7")
    assert changed.config.limits.queue == 7
    changed.close()
    with pytest.raises(SettingsError, match=r"net.hidden is \[16\] in .* and \[8\] in the config"):
        Service(tmp_path / "model", None, ["net.hidden=[8]", "limits.queue=3"])
    assert opened().config.limits.queue == 7


FAULTS: dict[str, tuple[list[str], str]] = {
    "nothing said": ([], "Give --config FILE"),
    "no input": (["seed=1"], "input is missing"),
    "both kinds": (["input.features=3", "input.size=[2, 2]"], "either features .* or size"),
    "boundaries": (["input.features=3", "method.name=ss_il"], "needs to be told when a task ended"),
    "bound": (["input.features=3", "method.name=finetune", "adaptor.name=none"], "keeps no memory"),
    "unknown": (["input.features=3", "limits.que=3"], "limits.que is unknown.*Did you mean 'queue'"),
    "net for images": (["input.features=3", "net.name=convnet"], "cannot take samples of shape"),
    "net": (["input.size=[2, 2]", "net.name=mlp", "net.hiden=[3]"], "no setting 'hiden'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_config_is_a_sentence_and_makes_no_folder(fault: str, tmp_path: Path) -> None:
    settings, expected = FAULTS[fault]
    with pytest.raises((SettingsError, InputError), match=expected):
        Service(tmp_path / "model", None, settings)
    assert not (tmp_path / "model").exists()


def test_a_folder_that_was_hardly_begun_is_taken(tmp_path: Path) -> None:
    (tmp_path / "model" / "versions").mkdir(parents=True)
    (tmp_path / "model" / ".service.toml.1.2.partial").write_text("[inp")
    service = Service(tmp_path / "model", None, ["input.features=3"])
    assert service.published.version == 0
    service.close()


def test_a_folder_with_other_files_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SettingsError, match="not as the folder of a service"):
        Service(tmp_path, None, ["input.features=3"])


# What is counted


def test_recency_bias_is_its_formula() -> None:
    from evenkeel.learning.methods import ER
    from evenkeel.learning.zoo import mlp

    generator = torch.Generator().manual_seed(0)
    learner = Learner(mlp(features=4, classes=3), ER(), memory=60)
    for label in (0, 1, 2):
        learner.learn(torch.randn(40, 4, generator=generator), [label] * 40)
    for newest in ([2], [1, 2], [0]):
        rows = [(x, int(y)) for x, y in zip(learner.memory.column("x"), learner.memory.column("y"), strict=True)]
        older = [x for x, y in rows if y not in newest]
        taken = sum(int(learner.predict(x[None])[0]) in newest for x in older)
        assert memory_recency_bias(learner, newest) == pytest.approx(100 * taken / len(older))
    assert memory_recency_bias(learner, [0, 1, 2]) is None
    assert memory_recency_bias(learner, []) is None


def test_the_tally_is_the_same_after_a_stop(opened: Open) -> None:
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


def test_every_method_that_needs_no_tasks_can_be_served(opened: Open) -> None:
    for name in ("er", "derpp", "clser", "rar", "er_ace"):
        service = opened(f"method.name={name}", "memory.capacity=20", folder=name)
        teach(service, examples(48))
        x = [examples(1)[0].x]
        assert service.predict(x)[1][0].label in ("cat", "dog")
        service.close()
