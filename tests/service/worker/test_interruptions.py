"""Learning never stops until a restart: what fails is tried again, and what cannot be learned is set aside."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from evenkeel.learning.learner import Learner
from evenkeel.learning.probes import differences, snapshot
from evenkeel.service.store.queries import UnknownError
from tests.helpers.processes import wait_for
from tests.helpers.services import Open, adds_up, examples, learner_of, report, settle, teach

BATCHES = ("batches.size=4", "batches.wait=3600")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenkeel.service.worker.worker.PAUSE", 0.02)
    monkeypatch.setattr("evenkeel.service.worker.supervisor.SOON", 0.02)


def test_a_folder_that_is_away_during_a_checkpoint_only_interrupts_learning(opened: Open, tmp_path: Path) -> None:
    service = opened(*BATCHES, "checkpoints.batches=1")
    teach(service, examples(8))
    versions = tmp_path / "model" / "versions"
    versions.rename(tmp_path / "away")
    service.learn(examples(8, seed=1)).result()
    wait_for(lambda: service.problem is not None)
    assert "No checkpoint could be written" in (service.problem or "")
    assert service.predict([examples(1)[0].x])[1][0].label in ("cat", "dog")
    assert service.learn(examples(8, seed=2)).result()[0].new
    (tmp_path / "away").rename(versions)
    settle(service)
    wait_for(lambda: service.problem is None)
    assert report(service).learned == 24
    assert adds_up(service)


def failing(monkeypatch: pytest.MonkeyPatch, id: str, error: Exception, times: int = 1_000_000) -> list[int]:
    """Make the learner fail in each batch with this id, so many times, once it has changed; return the steps."""
    learn, failures = Learner.learn, list[int]()

    def fail(self: Learner, x: Any, y: Any, *, key: Any) -> Any:
        result = learn(self, x, y, key=key)
        if id in key and len(failures) < times:
            failures.append(self.step)
            raise error
        return result

    monkeypatch.setattr(Learner, "learn", fail)
    return failures


def test_a_batch_that_makes_the_learner_fail_is_set_aside_and_the_rest_is_learned(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = opened(*BATCHES, start=False)
    given = examples(16, own="e")
    service.learn(given).result()
    with monkeypatch.context() as broken:
        failures = failing(broken, "e5", RuntimeError("a bug"))
        service.start()
        settle(service)
        assert len(failures) == 1
        assert "Batch 2 was not learned: RuntimeError: a bug" in (report(service).refusal or "")
        assert (report(service).learned, report(service).refused) == (12, 4)
        assert service.problem is None
        assert adds_up(service)
    twin = opened(*BATCHES, folder="twin", start=False)
    twin.learn(given[:4] + given[8:]).result()
    twin.start()
    settle(twin)
    assert not differences(snapshot(learner_of(service)), snapshot(learner_of(twin)))
    (left,) = service.list_aside().result()
    assert (left.batch, left.examples) == (2, 4)
    service.close()
    again = opened()
    assert [each.batch for each in again.list_aside().result()] == [2]  # also after a restart
    with pytest.raises(UnknownError, match="Nothing is set aside of batch 7"):
        again.settle_aside("retry", 7).result()
    assert again.settle_aside("retry", 2).result() == 4
    settle(again)
    assert (report(again).learned, report(again).refused) == (16, 0)
    assert again.list_aside().result() == []
    assert adds_up(again)


@pytest.mark.parametrize("error", [MemoryError("out of memory"), OSError("the disk is gone")])
def test_a_batch_is_not_set_aside_if_the_machine_is_at_fault(
    opened: Open, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    twin, service = opened(*BATCHES, folder="twin", start=False), opened(*BATCHES, start=False)
    for each in (twin, service):
        each.learn(examples(16, own="e")).result()
    twin.start()
    settle(twin)
    failures = failing(monkeypatch, "e5", error, times=3)
    service.start()
    settle(service)
    assert len(failures) == 3
    assert (report(service).learned, report(service).refused) == (16, 0)
    assert not differences(snapshot(learner_of(service)), snapshot(learner_of(twin)))
    assert adds_up(service)


def test_a_bug_elsewhere_in_the_worker_only_restarts_it(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened(*BATCHES, start=False)
    service.learn(examples(8)).result()
    failures = list[int]()

    def fail(*_: object) -> None:
        if len(failures) < 2:
            failures.append(1)
            raise ZeroDivisionError

    monkeypatch.setattr("evenkeel.service.worker.publishing.memory_recency_bias", fail)
    service.start()
    wait_for(lambda: len(failures) == 2 and service.problem is None and not service.waiting)
    settle(service)
    assert report(service).learned == 8
    assert adds_up(service)


def test_a_version_that_is_damaged_while_it_learns_is_no_obstacle_to_a_restart(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = opened(*BATCHES)
    for seed in range(2):
        teach(service, examples(8, seed=seed, own=f"{seed}-"))
    shutil.copy(service.model_folder.keys.with_name("service.toml"), service.model_folder.version(4))
    failing(monkeypatch, "2-0", MemoryError(), times=1)  # it must return to the last checkpoint
    service.learn(examples(8, seed=2, own="2-")).result()
    wait_for(lambda: not service.waiting)
    assert report(service).learned == 24
    assert "set aside" in (service.notice or "")
