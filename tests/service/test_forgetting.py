"""Forgotten examples are in no file."""

import sqlite3
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from evenkeel.learning.learner import Learner
from evenkeel.service.examples import Example
from evenkeel.service.service import Service
from evenkeel.service.store import versions
from evenkeel.service.store.journal import JournalError
from evenkeel.service.store.queries import UnknownError
from tests.helpers.processes import wait_for
from tests.helpers.services import Open, adds_up, examples, failing_once, learner_of, report, rows, settle, teach

# Forgetting


def marked(mark: float) -> bytes:
    return struct.pack("4f", *[mark] * 4)


def holders(service: Service, payload: bytes) -> list[str]:
    """Return the names of the service's files that contain these bytes."""
    return [
        path.name
        for path in sorted(service.model_folder.path.rglob("*"))
        if path.is_file() and payload in path.read_bytes()
    ]


@pytest.mark.parametrize("own", ["mine", ""])
def test_a_forgotten_example_is_in_no_file(opened: Open, own: str) -> None:
    service = opened()
    payload = marked(1.2345678)
    (id,) = teach(service, [Example(payload, "cat", own)])
    service.save().result()
    teach(service, examples(20))
    service.save().result()
    assert len(holders(service, payload)) >= 2  # in the memory of two versions, at least
    forgotten = service.forget(id).result()
    assert (forgotten.memory, forgotten.waiting, forgotten.versions) == (1, False, 1)
    assert holders(service, payload) == []
    assert service.forget(id).result() == forgotten  # a client that got no answer may repeat its request
    with pytest.raises(UnknownError, match="Nothing is stored under the id"):
        service.forget("unknown").result()
    service.close()
    again = opened()
    assert report(again).learned == 21
    assert not bool((learner_of(again).memory.column("x") == 1.2345678).any())
    assert adds_up(again)


def test_forgetting_what_has_left_memory_keeps_the_current_checkpoint_usable(opened: Open) -> None:
    service = opened("memory.capacity=5", "checkpoints.batches=1000", "checkpoints.seconds=3600", "batches.size=4")
    payload = marked(2.7182818)
    (id,) = [each.id for each in service.learn([Example(payload, "cat")]).result()]
    settle(service)
    for seed in range(20):  # until it has left memory, but not the checkpoint
        service.learn(examples(40, seed=seed)).result()
    wait_for(lambda: not service.waiting)
    service.forget(id).result()
    assert holders(service, payload) == []
    assert rows(service, "SELECT value FROM meta WHERE name = 'current'") == [(service.published.version,)]


def test_forgetting_that_failed_can_be_requested_again(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened()
    payload = marked(1.6180339)
    (id,) = teach(service, [Example(payload, "cat")])
    failing_once(monkeypatch)
    with pytest.raises(JournalError, match="No checkpoint could be written"):
        service.forget(id).result()
    assert service.forget(id).result().memory == 1
    assert holders(service, payload) == []


def test_a_waiting_example_is_forgotten_before_it_is_learned(opened: Open) -> None:
    service = opened("batches.size=4", "batches.wait=3600")
    payload = marked(7.654321)
    ids = [each.id for each in service.learn([Example(payload, "cat"), *examples(2)]).result()]
    assert service.forget(ids[0]).result().waiting
    assert holders(service, payload) == []
    assert service.waiting == 2
    teach(service, examples(2))
    assert report(service).learned == 4
    assert adds_up(service)


@pytest.fixture
def forgotten_while_learning(monkeypatch: pytest.MonkeyPatch) -> Callable[[Service, list[str]], None]:
    """Starts a service, and forgets these ids while it learns the first of the batches that it has read."""
    learn, learning, asked = Learner.learn, threading.Event(), threading.Event()

    def learn_slowly(self: Learner, *arguments: Any, **settings: Any) -> Any:
        learning.set()
        asked.wait()
        return learn(self, *arguments, **settings)

    def start_and_forget(service: Service, ids: list[str]) -> None:
        service.start()
        learning.wait()
        forgotten = service.forget_all(ids)
        asked.set()
        assert all(each is not None and each.waiting for each in forgotten.result().values())
        wait_for(lambda: service.waiting <= 0)
        service.save().result()

    monkeypatch.setattr(Learner, "learn", learn_slowly)
    return start_and_forget


def test_what_was_read_ahead_is_forgotten_before_it_is_learned(
    opened: Open, forgotten_while_learning: Callable[[Service, list[str]], None]
) -> None:
    service = opened("batches.size=4", "batches.wait=3600", start=False)
    service.learn(examples(16, own="e")).result()
    forgotten_while_learning(service, [f"e{place}" for place in range(4, 15)])
    assert service.waiting == 0
    assert report(service).learned == 5
    assert adds_up(service)
    assert learner_of(service).forget("e4") == 0


def test_a_damaged_row_is_set_aside_unless_it_is_forgotten_itself(
    opened: Open, forgotten_while_learning: Callable[[Service, list[str]], None]
) -> None:
    service = opened("batches.size=4", "batches.wait=3600", start=False)
    service.learn(examples(12, own="e")).result()
    with closing(sqlite3.connect(service.model_folder.journal)) as db, db:
        db.execute("UPDATE examples SET label = '0' WHERE id IN ('e5', 'e9')")
    forgotten_while_learning(service, ["e4", "e6", "e7", "e9"])
    assert [(each.batch, each.examples) for each in service.list_aside().result()] == [(2, 1)]
    assert (report(service).learned, report(service).refused) == (7, 1)
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


def test_a_prediction_whose_removal_got_no_answer_can_be_forgotten_again(opened: Open) -> None:
    service = opened()
    teach(service, examples(8))
    (id,) = service.remember([marked(3.1415)], *service.predict([marked(3.1415)]))
    service.close()
    again = opened(start=False)
    with pytest.raises(JournalError):  # the worker is not there
        again.forget(id).result()
    again.start()
    assert again.forget(id).result().prediction


def test_many_are_forgotten_in_one_pass_with_an_answer_for_each(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened("batches.size=4", "batches.wait=3600")
    for part in range(3):
        teach(service, examples(20, own=f"{part}-", seed=part))
    service.learn(examples(2, own="w", seed=5)).result()
    (predicted,) = service.remember([marked(0.5)], *service.predict([marked(0.5)]))
    scrubs = list[str]()
    assert service.journal is not None
    scrub, ids = service.journal.scrub, [f"0-{place}" for place in range(20)]

    def count_scrubs() -> "Future[None]":
        scrubs.append("one")
        return scrub()

    monkeypatch.setattr(service.journal, "scrub", count_scrubs)
    first = service.forget_all([*ids, "w1", predicted, "unknown"]).result()
    assert len(scrubs) == 1
    assert first["unknown"] is None
    removed = {id: answer for id, answer in first.items() if answer is not None}
    assert set(removed) == {*ids, "w1", predicted}
    assert removed["w1"].waiting
    assert removed[predicted].prediction
    for place, id in enumerate(ids):
        assert holders(service, examples(20)[place].x) == [], id
    assert service.forget_all([*ids, "w1", predicted, "unknown"]).result() == first
    assert service.waiting == 1
    assert adds_up(service)
    service.close()
    assert opened().forget("0-7").result() == removed["0-7"]


def test_learning_continues_while_older_versions_are_scrubbed(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened("batches.size=4", "batches.wait=3600")
    for part in range(4):
        teach(service, examples(8, own=f"{part}-", seed=part))
    learned, scrub = list[int](), versions.scrub

    def scrub_slowly(path: Path, ids: list[str]) -> list[str]:
        """Scrub a version, once a batch that was accepted after the request has been learned."""
        learned.append(report(service).learned)
        service.learn(examples(4, seed=len(learned))).result()
        return scrub(path, ids)

    monkeypatch.setattr("evenkeel.service.store.versions.scrub", scrub_slowly)
    monkeypatch.setattr("evenkeel.service.worker.publishing.PUBLISH", 0.0)  # a snapshot after each batch,
    monkeypatch.setattr("evenkeel.service.worker.publishing.PUBLISHING", 1e9)  # however long it takes
    forgotten = service.forget("0-3").result()
    assert forgotten.memory == 1
    assert forgotten.versions >= 3
    assert len(set(learned)) > 1  # batches were learned between the versions
    settle(service)
    assert adds_up(service)


def test_a_service_that_ends_in_the_middle_of_forgetting_can_be_asked_again(opened: Open) -> None:
    service = opened()
    for part in range(3):
        teach(service, examples(8, own=f"{part}-", seed=part))
    folder = service.model_folder
    held = [folder.version(number).read_bytes() for number in folder.versions()[:-1]]
    service.forget("0-3").result()
    service.close()
    for number, content in zip(folder.versions()[:-1], held, strict=True):  # as if it had been killed before these
        folder.version(number).write_bytes(content)
    again = opened()
    again.forget("0-3").result()
    assert holders(again, examples(8)[3].x) == []
