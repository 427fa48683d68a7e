"""Disks that fail, and clocks that jump."""

import multiprocessing
import resource
import sqlite3
import traceback
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from evenkeel.errors import RunError
from evenkeel.service.service import Service
from evenkeel.service.store import version_rows
from evenkeel.service.store.journal import JournalError
from tests.helpers.processes import LONG, fork_server, wait_for
from tests.helpers.services import Open, adds_up, examples, report, settle, teach

# Disks that fail


def test_what_is_committed_is_acknowledged_whatever_fails_after(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_cancelled_request_breaks_nothing(opened: Open) -> None:
    service = opened()
    accepted, saved = service.learn(examples(4)), service.save()
    assert not accepted.cancel()
    assert not saved.cancel()
    saved.result()
    settle(service)
    assert adds_up(service)


def test_a_full_disk_keeps_what_was_accepted_and_predictions_continue(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An attempt to write changes no page, so SQLite's limit does not refuse it: there must be none while we look.
    monkeypatch.setattr("evenkeel.service.store.journal.PROBE", LONG)
    service = opened("batches.wait=3600")
    teach(service, examples(64, own="e"))
    assert service.journal is not None
    db = service.journal._db
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    service.journal.write(lambda db: db.execute(f"PRAGMA max_page_count = {pages}")).result()
    for seed in range(3):
        with pytest.raises(JournalError, match="Nothing was changed"):
            service.learn(examples(1_000, seed=seed)).result()
    x = [examples(1)[0].x]
    assert service.predict(x)[1][0].label in ("cat", "dog")
    assert "cannot be written" in (service.problem or "")
    monkeypatch.setattr("evenkeel.service.store.journal.PROBE", 0.01)
    service.journal.write_alone(lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchone()).result()
    wait_for(lambda: service.problem is None)  # even if no client sends anything
    assert service.learn(examples(32)).result()
    settle(service)
    assert service.problem is None
    assert adds_up(service)


def test_a_service_that_starts_on_a_full_disk_learns_as_soon_as_there_is_room(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenkeel.service.store.journal.PROBE", 0.01)
    service = opened("batches.size=4")
    teach(service, examples(8))
    assert service.journal is not None
    service.journal.do(partial(version_rows.announce, number=777))  # as if it were killed while it writes a version
    service.close()

    def fail(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as disk:
        disk.setattr("evenkeel.service.store.queries.advance", fail)
        again = opened()
        assert "The journal cannot be written (database or disk is full)" in (again.problem or "")
        assert again.predict([examples(1)[0].x])[1][0].label in ("cat", "dog")
        with pytest.raises(JournalError, match="Nothing was changed"):
            again.learn(examples(4, seed=1)).result()
    wait_for(lambda: again.problem is None)  # even if no client sends anything
    teach(again, examples(4, seed=1))
    assert report(again).learned == 12
    assert adds_up(again)


def test_a_damaged_journal_is_left_alone_and_predictions_continue(opened: Open) -> None:
    service = opened()
    teach(service, examples(400, own="e"))
    service.close()
    path = service.model_folder.journal
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xff" * (4096 * 3)
    path.write_bytes(content)
    broken = opened()
    assert "cannot be used" in (broken.problem or "")
    assert "--new-journal` sets it aside. Versions: 0, " in (broken.problem or "")
    assert broken.predict([examples(1)[0].x])[1][0].label in ("cat", "dog")
    for refused in (lambda: broken.learn(examples(1)), lambda: broken.tell([("a", "b")]), lambda: broken.forget("a")):
        with pytest.raises(JournalError, match="Predictions continue; nothing is learned"):
            refused()
    broken.close()
    assert path.read_bytes() == bytes(content)
    without = opened(new_journal=True)
    teach(without, examples(8, seed=1))
    assert report(without).learned == 408
    assert adds_up(without)


def test_damaged_predictions_are_set_aside(opened: Open) -> None:
    service = opened()
    teach(service, examples(32))
    service.close()
    service.model_folder.predictions.write_bytes(b"nothing of the kind" * 1000)
    again = opened()
    assert "It was renamed to predictions.sqlite.damaged" in (again.notice or "")
    x = [examples(1)[0].x]
    (id,) = again.remember(x, *again.predict(x))
    assert again.tell([(id, "cat")]).result()[0].new
    assert service.model_folder.predictions.with_name("predictions.sqlite.damaged").is_file()


def _on_a_full_disk(path: Path, result: Connection) -> None:
    """Check that a service predicts, but accepts nothing, where no file can grow; send what went wrong."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try:
        service = Service(path)
        assert service.problem
        assert service.predict([examples(1)[0].x])[1][0].label in ("cat", "dog")
        with pytest.raises(JournalError):
            service.learn(examples(1))
        service.close()
        result.send("")
    except BaseException:
        result.send(traceback.format_exc())  # not by printing: the output may be a file, too


def test_a_service_on_a_disk_that_cannot_be_written_still_predicts(opened: Open, tmp_path: Path) -> None:
    service = opened()
    teach(service, examples(32))
    service.close()
    result, child = multiprocessing.Pipe()
    process = fork_server().Process(target=_on_a_full_disk, args=(tmp_path / "model", child))
    process.start()
    child.close()  # then a process that dies does not leave us waiting
    assert result.recv() == ""
    process.join()


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
