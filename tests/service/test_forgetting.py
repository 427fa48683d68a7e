"""Forgotten examples are in no file."""

import struct
import time

import pytest

from evenkeel.service.examples import Example
from evenkeel.service.service import Service
from evenkeel.service.store.journal import JournalError
from evenkeel.service.store.queries import UnknownError
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
    with pytest.raises(UnknownError, match="Nothing is stored under the id"):
        service.forget(id).result()
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
    while service.waiting:
        time.sleep(0.01)
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
