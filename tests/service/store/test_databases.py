"""The two databases of a service: how batches are cut from the journal, and how predictions are kept."""

import gc
import random
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from evenkeel.service.config import Checkpoints
from evenkeel.service.examples import Example
from evenkeel.service.http.app import make_app
from evenkeel.service.http.schemas import MOST_IDS
from evenkeel.service.service import Service
from evenkeel.service.store import queries, schema, version_rows
from evenkeel.service.store.cutter import Cutter
from evenkeel.service.store.journal import Journal, JournalError, open_database, open_reader
from evenkeel.service.store.keys import Keyring
from evenkeel.service.store.predictions import PAUSE, Kept, Prediction, Predictions
from tests.helpers.services import Open, adds_up, examples, teach


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_database(tmp_path / "journal.sqlite", schema.prepare, flushed=True)) as db:
        yield db


def numbered(start: int, count: int) -> list[Example]:
    return [Example(bytes([place % 256]), place % 3, f"e{place}") for place in range(start, start + count)]


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("waiting", [0, 1, 3, 4, 5, 8, 11, 12, 13, 40])
def test_batches_are_cut_in_the_order_of_arrival(journal: sqlite3.Connection, waiting: int, partial: bool) -> None:
    size = 4
    queries.accept(journal, numbered(0, waiting))
    journal.execute("DELETE FROM examples WHERE id = 'e1'")  # as if it had been withdrawn
    left = [f"e{place}" for place in range(waiting) if place != 1]
    expected = [left[start : start + size] for start in range(0, len(left), size)]
    if not partial:
        expected = [batch for batch in expected if len(batch) == size]
    cut, rest = queries.cut(journal, size, partial=partial)
    batches = queries.batches(journal, after=0, most=100)
    assert [[example.id for example in batch.examples] for batch in batches] == expected
    assert [batch.number for batch in batches] == list(range(1, cut + 1))
    assert rest == len(left) - sum(map(len, expected))
    sent = {example.id: example for example in numbered(0, waiting)}
    assert all(example == sent[example.id] for batch in batches for example in batch.examples)


def test_cutting_resumes_where_it_left_off(journal: sqlite3.Connection) -> None:
    queries.accept(journal, numbered(0, 10))
    assert queries.cut(journal, 4, partial=False) == (2, 2)
    queries.accept(journal, numbered(10, 201))  # with several statements
    assert queries.cut(journal, 4, partial=False) == (50, 3)
    assert queries.cut(journal, 4, partial=False) == (0, 3)
    assert queries.cut(journal, 4, partial=True) == (1, 0)
    assert queries.cut(journal, 4, partial=True) == (0, 0)
    ids = [example.id for batch in queries.batches(journal, after=0, most=100) for example in batch.examples]
    assert ids == [f"e{place}" for place in range(211)]
    assert [batch.number for batch in queries.batches(journal, after=50, most=100)] == [51, 52, 53]


def test_a_few_batches_are_read_at_a_time_even_if_numbers_are_missing(journal: sqlite3.Connection) -> None:
    queries.accept(journal, numbered(0, 40))
    queries.cut(journal, 4, partial=False)
    journal.execute("DELETE FROM examples WHERE batch IN (1, 2, 3, 4, 6)")  # forgotten one by one
    assert [batch.number for batch in queries.batches(journal, after=0, most=3)] == [5, 7]
    assert [batch.number for batch in queries.batches(journal, after=7, most=3)] == [8, 9, 10]
    assert queries.batches(journal, after=10, most=3) == []
    assert queries.last_cut(journal) == 10


def test_a_reader_cannot_write(journal: sqlite3.Connection, tmp_path: Path) -> None:
    queries.accept(journal, numbered(0, 7))
    with closing(open_reader(tmp_path / "journal.sqlite")) as reader:
        queries.cut(journal, 4, partial=False)
        assert len(queries.batches(reader, after=0, most=1)[0].examples) == 4
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            queries.cut(reader, 4, partial=True)


def test_a_journal_that_cannot_be_read_is_reported_and_tried_again(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenkeel.service.worker.worker.PAUSE", 0.05)
    service, read, failures = opened(), queries.batches, list[str | None]()

    def fail_twice(*arguments: Any, **named: Any) -> list[queries.CutBatch]:
        if len(failures) < 2:
            failures.append(service.problem)
            raise sqlite3.DatabaseError("database disk image is malformed")
        return read(*arguments, **named)

    monkeypatch.setattr("evenkeel.service.store.queries.batches", fail_twice)
    teach(service, examples(40, own="e"))
    assert failures == [None, "The journal cannot be read (database disk image is malformed)."]
    assert service.problem is None
    assert adds_up(service)


def test_a_start_removes_all_pieces_of_what_was_deleted(tmp_path: Path) -> None:
    """Small rows move between pages when others are deleted; SQLite does not overwrite what they leave behind."""
    path, rng, sent = tmp_path / "journal.sqlite", random.Random(1), dict[str, bytes]()
    with closing(open_database(path, schema.prepare, flushed=False)) as db:
        for _ in range(60):
            names = [f"e{len(sent) + place}-{rng.random()}" for place in range(rng.choice((1, 5, 32, 200)))]
            new = [Example(rng.randbytes(100), 0, id, b"d" * 16 if rng.random() < 0.5 else b"") for id in names]
            sent |= {example.id: example.x for example in new}
            db.execute("BEGIN")
            queries.accept(db, new)
            queries.cut(db, 32, partial=rng.random() < 0.3)
            if rng.random() < 0.4:
                for number in (1, 2):  # two checkpoints
                    last = queries.value(db, "batch") - rng.choice((0, 1, 5)) + number
                    version = version_rows.Version(last, 0, 0, False, "")
                    version_rows.note(db, version, keep=Checkpoints(keep=2), sizes={})
                while queries.tidy(db, ids=1_000_000):
                    pass
            db.execute("COMMIT")
        queries.delete(db, ["e0"], withdrawn=0)
        held = {id for (id,) in db.execute("SELECT id FROM examples WHERE x IS NOT NULL")}

    def pieces() -> int:
        """Return how many deleted samples can still be found in the file."""
        content = path.read_bytes()
        found = {content[begin : begin + 28] for begin in range(len(content) - 27)}
        return sum(not found.isdisjoint((x[:28], x[-28:])) for id, x in sent.items() if id not in held)

    if not pieces():
        pytest.skip("This version of SQLite leaves none.")
    cutter = Cutter(32, 0)
    Journal(path, tmp_path / "journal.mark", tidy=lambda _: False, cutter=cutter).close()
    assert not pieces()


def test_a_damaged_database_and_its_log_are_left_unchanged(tmp_path: Path) -> None:
    """The pages in the log are whole, so that one must look further; whoever closes it must not tidy up the log."""
    whole, damaged = tmp_path / "whole.sqlite", tmp_path / "damaged.sqlite"
    with closing(open_database(whole, lambda db: db.execute("CREATE TABLE rows (x)"), flushed=False)) as db:
        db.executemany("INSERT INTO rows VALUES (?)", [(random.Random(0).randbytes(1000),) for _ in range(100)])
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("UPDATE rows SET x = 1 WHERE rowid = 1")
        for file in ("", "-wal"):
            shutil.copy(f"{whole}{file}", f"{damaged}{file}")
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    before = {file: Path(f"{damaged}{file}").read_bytes() for file in ("", "-wal")}
    with pytest.raises(JournalError, match="It was left unchanged"):
        open_database(damaged, lambda _: None, flushed=False)
    gc.collect()
    assert {file: Path(f"{damaged}{file}").read_bytes() for file in before} == before


# Predictions


def prediction(number: int) -> Prediction:
    return Prediction(f"p{number}", number, "cat", bytes([number]) * 2_000)


def test_predictions_that_do_not_fit_leave_the_others_alone(tmp_path: Path) -> None:
    with closing(Predictions(tmp_path / "predictions.sqlite", most=Kept(1_000))) as kept:
        kept.remember([prediction(1)])
        kept._db.execute("PRAGMA max_page_count = 6")  # a full disk
        with pytest.raises(JournalError, match="The predictions cannot be written or read"):
            kept.remember([prediction(number) for number in range(2, 100)])
        assert kept.fetch(["p1", "p2", "p3"]) == {"p1": prediction(1)}
        kept._db.execute("PRAGMA max_page_count = 100000")
        kept.remember([prediction(2)])
        assert set(kept.fetch(["p1", "p2", "p3"])) == {"p1", "p2"}
        kept.drop(["p1", "p9"])
        assert kept.forget(["p2", "p1"]) == ["p2"]
        assert not kept.forget(["p2"])
        assert not kept.fetch(["p1", "p2"])
    with pytest.raises(JournalError, match="closed"):
        kept.remember([prediction(3)])


def test_the_newest_predictions_are_kept_and_up_to_a_hundredth_more(tmp_path: Path) -> None:
    with closing(Predictions(tmp_path / "predictions.sqlite", most=Kept(200))) as kept:
        for number in range(500):
            kept.remember([Prediction(str(number), 1, "cat", b"x")])
            left = [seq for (seq,) in kept._db.execute("SELECT seq FROM predictions ORDER BY seq")]
            assert left == list(range(left[0], number + 2))
            assert min(number + 1, 200) <= len(left) <= 202


def test_predictions_are_kept_within_a_number_of_bytes(tmp_path: Path) -> None:
    path, limit = tmp_path / "predictions.sqlite", Kept(1_000, bytes=20_000)
    for first in (0, 20):  # also after a restart
        with closing(Predictions(path, limit)) as kept:
            for number in range(first, first + 20):
                kept.remember([prediction(number)])
            left = sorted(int(id[1:]) for id in kept.fetch([f"p{number}" for number in range(40)]))
            assert left == list(range(left[0], first + 20))  # the newest
            assert 9 <= len(left) <= 10  # of 2,000 bytes each


def test_predictions_are_kept_for_a_while_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr("evenkeel.service.store.predictions.time.time", lambda: now)
    with closing(Predictions(tmp_path / "predictions.sqlite", Kept(1_000, seconds=60))) as kept:
        for number in range(10):
            kept.remember([prediction(number)])
            now += 30
        assert set(kept.fetch([f"p{number}" for number in range(10)])) == {"p7", "p8", "p9"}


def test_a_start_drops_what_the_limits_no_longer_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "predictions.sqlite"
    made = [Prediction(f"p{number}", 1, "cat", b"sample") for number in range(4)]

    def left(most: Kept) -> list[str]:
        with closing(Predictions(path, most)) as kept:
            return sorted(kept.fetch([each.id for each in made]))

    with closing(Predictions(path, Kept(10))) as kept:
        kept.remember(made)
    assert left(Kept(10)) == ["p0", "p1", "p2", "p3"]
    assert left(Kept(3)) == ["p1", "p2", "p3"]
    assert left(Kept(10, bytes=14)) == ["p2", "p3"]
    later = time.time() + 100
    monkeypatch.setattr("evenkeel.service.store.predictions.time.time", lambda: later)
    assert left(Kept(10, seconds=200)) == ["p2", "p3"]
    assert left(Kept(10, seconds=50)) == []
    with closing(Predictions(path, Kept(10))) as kept:
        kept.remember(made)
    assert left(Kept(0)) == []


def test_no_answer_waits_long_for_another_process_that_uses_the_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now = tmp_path / "predictions.sqlite", 1e9
    clock = SimpleNamespace(time=lambda: now, monotonic=lambda: now)
    monkeypatch.setattr("evenkeel.service.store.predictions.time", clock)
    with closing(Predictions(path, most=Kept(1_000))) as kept, closing(sqlite3.connect(path)) as other:
        kept.remember([prediction(1)])
        other.execute("BEGIN IMMEDIATE")
        assert kept._db.execute("PRAGMA busy_timeout").fetchone() == (100,)  # milliseconds: the first one waits
        with pytest.raises(JournalError, match=r"cannot be written or read .*locked"):
            kept.remember([prediction(2)])
        kept._db.set_trace_callback(pytest.fail)  # the others do not even try, for a second
        for number in range(3, 100):
            with pytest.raises(JournalError, match="locked by another process"):
                kept.remember([prediction(number)])
        kept._db.set_trace_callback(None)
        other.execute("ROLLBACK")
        now += PAUSE
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM predictions").fetchall()
        with pytest.raises(JournalError, match="Another process is reading"):
            kept.forget(["p1"])
        other.execute("ROLLBACK")
        assert kept.forget(["p1"])  # as if the first attempt had succeeded
        assert not kept.forget(["p1"])
        assert not kept.fetch(["p1", "p2"])


@pytest.fixture
def taught(opened: Open) -> Service:
    service = opened()
    teach(service, examples(32))
    return service


def client(service: Service) -> TestClient:
    return TestClient(make_app(service, Keyring(service.model_folder.keys, open_without=True)), "http://127.0.0.1")


def test_an_answer_that_cannot_be_kept_is_still_given(taught: Service) -> None:
    assert taught.predictions is not None
    taught.predictions._db.execute("PRAGMA max_page_count = 1")  # a full disk
    answer = client(taught).post("/v1/predict", json={"examples": [{"x": [2, 0, 0, 0]}] * 100})
    assert answer.status_code == 200
    assert {(each["id"], each["label"]) for each in answer.json()["predictions"]} == {(None, "cat")}
    teach(taught, examples(4))
    assert adds_up(taught)


def test_forgetting_on_a_full_disk_is_refused_and_can_be_done_later(
    taught: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    http = client(taught)
    id = http.post("/v1/predict", json={"x": [2, 0, 0, 0]}).json()["predictions"][0]["id"]
    with monkeypatch.context() as full:
        full.setattr("evenkeel.service.store.predictions.truncate_log", fail)
        refused = http.delete(f"/v1/examples/{id}")
    assert refused.status_code == 503
    assert "disk is full" in refused.json()["error"]
    first = http.delete(f"/v1/examples/{id}").json()
    assert first["prediction"]
    assert http.delete(f"/v1/examples/{id}").json() == first
    assert http.delete("/v1/examples/unknown").status_code == 404


def test_many_are_forgotten_with_one_request_that_may_be_repeated(opened: Open) -> None:
    service = opened()
    teach(service, examples(8, own="e"))
    http = client(service)
    first = http.post("/v1/forget", json={"ids": ["e1", "e2", "unknown"]}).json()
    assert first["unknown"] == ["unknown"]
    assert {id: answer["memory"] for id, answer in first["forgotten"].items()} == {"e1": 1, "e2": 1}
    assert http.post("/v1/forget", json={"ids": ["e1", "e2", "unknown"]}).json() == first
    assert http.get("/v1/set-aside").json() == []
    assert http.post("/v1/set-aside/retry").status_code == 404
    assert http.post("/v1/set-aside/keep").status_code == 422


def test_as_many_are_forgotten_as_the_api_says_whatever_the_limit_of_examples_is(opened: Open) -> None:
    http = client(opened("limits.examples=1"))
    ids = [f"unknown {place}" for place in range(MOST_IDS)]
    assert http.post("/v1/forget", json={"ids": ids}).json() == {"forgotten": {}, "unknown": ids}
    assert http.post("/v1/forget", json={"ids": [*ids, "one more"]}).status_code == 422
