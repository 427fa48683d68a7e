"""Whatever accumulates has a limit in number, in bytes and in age: what waits, predictions, versions."""

import itertools
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from evenkeel.errors import DivergenceError
from evenkeel.learning.learner import Learner
from evenkeel.learning.probes import differences, snapshot
from evenkeel.service.config import Checkpoints
from evenkeel.service.examples import FullError
from evenkeel.service.store import schema, version_rows
from evenkeel.service.store.journal import JournalError, open_database
from evenkeel.service.store.version_rows import Version
from tests.helpers.processes import wait_for
from tests.helpers.services import Open, adds_up, examples, learner_of, report, settle, teach


def test_examples_wait_within_a_number_of_bytes(opened: Open) -> None:
    service = opened("limits.queue_bytes=167", start=False)  # a sample has 16 bytes
    service.learn(examples(9)).result()
    with pytest.raises(FullError, match="9 examples are waiting"):
        service.learn(examples(2))
    service.learn(examples(1)).result()
    service.start()
    settle(service)
    assert service.learn(examples(10)).result()


def test_no_example_is_accepted_while_the_oldest_has_waited_too_long(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, ahead = opened("limits.queue_hours=2", start=False), 0.0
    real = time.monotonic
    monkeypatch.setattr("evenkeel.service.worker.waiting.time.monotonic", lambda: real() + ahead)
    service.learn(examples(2)).result()
    ahead = 1.9 * 3600
    service.learn(examples(2)).result()
    ahead = 2.1 * 3600
    assert service.room == 0
    with pytest.raises(FullError, match=r"The oldest example has waited for 2\.1 hours: 4 examples are waiting"):
        service.learn(examples(2))
    service.start()
    settle(service)
    assert service.learn(examples(2)).result()


def test_no_more_is_set_aside_than_may_wait(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened("limits.queue=8", "batches.size=4", "batches.wait=0")

    def diverge(*_: object, **__: object) -> None:
        raise DivergenceError("It is not finite.")

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "learn", diverge)
        for seed in range(2):
            teach(service, examples(4, seed=seed))
        assert report(service).refused == 8
        with pytest.raises(JournalError, match="8 examples are set aside, as many as may wait"):
            service.learn(examples(1))
        assert "8 examples are set aside" in (service.problem or "")
    service.settle_aside("drop").result()
    assert service.problem is None
    teach(service, examples(4))
    assert report(service).learned == 4
    assert adds_up(service)


# Versions


def kept_slowly(versions: list[Version], sizes: dict[int, int], keep: Checkpoints, now: float) -> set[int]:
    """Return which versions of one line stay: one by one, from the description of the settings."""
    stay = {version.number for version in versions[-2:]}
    left = [
        version
        for version in versions
        if version.number in stay
        or (
            sum(other.asked == version.asked and other.number > version.number for other in versions) < keep.keep
            and (keep.keep_hours is None or now - version.time <= 3600 * keep.keep_hours)
        )
    ]
    while keep.keep_bytes is not None and sum(sizes[version.number] for version in left) > keep.keep_bytes:
        going = [version for version in left if version.number not in stay]
        if not going:
            break
        left.remove(next((version for version in going if not version.asked), going[0]))
    return {version.number for version in left}


@pytest.mark.parametrize(("count", "size", "hours"), list(itertools.product((1, 3, 9), (None, 250, 560), (None, 2.5))))
def test_versions_are_kept_within_all_limits_but_two_stay(
    tmp_path: Path, count: int, size: int | None, hours: float | None
) -> None:
    keep = Checkpoints(keep=count, keep_bytes=size, keep_hours=hours)
    made, sizes = list[Version](), dict[int, int]()
    with closing(open_database(tmp_path / "journal.sqlite", schema.prepare, flushed=True)) as db:
        for number in range(1, 12):
            version = Version(number, 1e9 + 3600 * number, number, number % 3 == 0, "")
            sizes[number] = 100 + 10 * (number % 2)
            gone = set(version_rows.note(db, version, keep=keep, sizes=sizes))
            expected = kept_slowly([*made, version], sizes, keep, version.time)
            assert gone == {each.number for each in made} - expected
            made = [each for each in (*made, version) if each.number in expected]
            assert [each.number for each in version_rows.kept(db)] == sorted(expected)
            drop(db, gone)


def drop(db: sqlite3.Connection, gone: set[int]) -> None:
    for number in gone:
        version_rows.drop(db, number)


def test_files_of_versions_beyond_the_limit_are_deleted(opened: Open) -> None:
    service = opened("checkpoints.batches=1", "batches.size=4")
    for seed in range(5):
        teach(service, examples(4, seed=seed))
    folder = service.model_folder
    assert len(folder.versions()) >= 5
    size = max(folder.sizes().values())
    service.close()
    again = opened(f"checkpoints.keep_bytes={int(3.5 * size)}")
    teach(again, examples(4, seed=9))
    assert len(folder.versions()) == 3
    assert folder.versions() == [version.number for version in again.list_versions().result()]


def test_the_oldest_version_can_be_rolled_back_to_while_there_is_something_to_save(opened: Open) -> None:
    service = opened("batches.size=4", "checkpoints.keep=2", "checkpoints.seconds=3600")
    for seed in range(4):
        teach(service, examples(4, seed=seed))
    service.learn(examples(4, seed=9)).result()
    wait_for(lambda: not service.waiting)  # learned, but in no checkpoint
    oldest = service.list_versions().result()[0].number
    expected = snapshot(Learner.load(service.model_folder.version(oldest)))
    service.rollback(oldest).result()
    assert not differences(snapshot(learner_of(service)), expected)
    assert report(service).learned == 20
    assert adds_up(service)
