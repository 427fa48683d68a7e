"""Pieces of deleted rows: they are overwritten in the file, in place, and nothing else is."""

import os
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from evenkeel.service.store import queries, schema
from evenkeel.service.store.cutter import Cutter
from evenkeel.service.store.journal import Journal, JournalError, open_database, remove_pieces
from evenkeel.service.store.pieces import overwrite_pieces
from evenkeel.service.store.predictions import UNSCRUBBED, Kept, Prediction, Predictions
from tests.helpers.services import examples

GONE, KEPT = b"GONE-%06d-", b"KEPT-%06d-"


def churned(path: Path, length: int, page: int = 4096) -> list[tuple[object, ...]]:
    """Make a database in which many rows were inserted, grown and deleted at random; return the rows that are left."""
    dice = random.Random(length)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA page_size = {page}")
        db.execute("PRAGMA journal_mode = WAL")  # from now on the size is fixed
    with closing(opened_like_ours(path)) as db:
        db.execute("CREATE TABLE one (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, x BLOB, batch INTEGER)")
        ids = list(range(1500))
        dice.shuffle(ids)
        for number in ids:
            word = (GONE if number % 3 else KEPT) % number
            db.execute("INSERT INTO one VALUES (?, ?, ?, NULL)", (number, word.decode(), word * (length // 12)))
        db.executemany("UPDATE one SET batch = ? WHERE seq = ?", [(10**12, number) for number in ids])
        db.executemany("DELETE FROM one WHERE seq = ?", [(number,) for number in ids if number % 3])
        return db.execute("SELECT * FROM one ORDER BY seq").fetchall()


def opened_like_ours(path: Path) -> sqlite3.Connection:
    return open_database(path, lambda _: None, flushed=False)


@pytest.mark.parametrize(
    ("length", "page"), [(24, 4096), (120, 512), (300, 4096), (1500, 4096), (9000, 1024), (700, 65536)]
)
def test_nothing_of_deleted_rows_is_left_and_all_others_stay(tmp_path: Path, length: int, page: int) -> None:
    path = tmp_path / "some.sqlite"
    kept = churned(path, length, page)
    before = path.read_bytes()
    assert remove_pieces(opened_like_ours(path), path)
    after = path.read_bytes()
    assert b"GONE" not in after
    assert len(after) == len(before)
    with closing(opened_like_ours(path)) as db:
        assert db.execute("PRAGMA page_size").fetchone() == (page,)
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("SELECT * FROM one ORDER BY seq").fetchall() == kept
        assert db.execute("SELECT count(*) FROM one INDEXED BY sqlite_autoindex_one_1").fetchone() == (len(kept),)


def test_without_it_pieces_are_left(tmp_path: Path) -> None:
    """So the tests above can fail; and only pages that have pieces are written."""
    path = tmp_path / "some.sqlite"
    churned(path, 300)
    assert b"GONE" in path.read_bytes()
    roots = roots_of(path)
    changed = overwrite_pieces(path, roots)
    assert 0 < changed < os.path.getsize(path) // 4096
    assert overwrite_pieces(path, roots) == 0


def roots_of(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as db:
        return [root for (root,) in db.execute("SELECT rootpage FROM sqlite_master WHERE rootpage > 0")]


class KilledError(BaseException):
    """Stands for a kill."""


def test_a_kill_at_any_write_leaves_a_whole_database_and_the_next_attempt_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = tmp_path / "some.sqlite", os.pwrite
    kept, original, left = churned(path, 120, 512), path.read_bytes(), [0]

    def write_until_killed(file: int, content: bytes, place: int) -> int:
        """Write a page, of the last one only a part, as a disk might."""
        left[0] -= 1
        if left[0] < 0:
            write(file, content[: len(content) // 2], place)
            raise KilledError
        return write(file, content, place)

    roots = roots_of(path)
    monkeypatch.setattr("evenkeel.service.store.pieces.os.pwrite", write_until_killed)
    for writes in range(0, 60, 7):
        path.write_bytes(original)
        left[0] = writes
        with pytest.raises(KilledError):
            overwrite_pieces(path, roots)
        with closing(opened_like_ours(path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert db.execute("SELECT * FROM one ORDER BY seq").fetchall() == kept
        left[0] = 10**6
        overwrite_pieces(path, roots)
        assert b"GONE" not in path.read_bytes()


def opened_journal(folder: Path) -> Journal:
    return Journal(folder / "journal.sqlite", folder / "journal.mark", tidy=lambda _: False, cutter=Cutter(4, 0))


def test_a_journal_is_only_read_through_after_something_was_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if that was withdrawn before it was known: a request that was killed may have deleted it."""
    opened_journal(tmp_path).close()  # a new one is read through once
    calls = list[Path]()

    def note(path: Path, roots: Sequence[int]) -> int:
        calls.append(path)
        return overwrite_pieces(path, roots)

    monkeypatch.setattr("evenkeel.service.store.journal.overwrite_pieces", note)
    for ids in (["e1"], ["unknown"]):
        journal = opened_journal(tmp_path)
        journal.do(partial(queries.accept, examples=examples(8, own=f"{ids}-")))
        journal.close()
        opened_journal(tmp_path).close()
        assert calls == []
        journal = opened_journal(tmp_path)
        journal.do(partial(queries.delete, ids=ids, withdrawn=0))
        journal.close()
        opened_journal(tmp_path).close()
        assert calls.pop() == journal.path


def test_what_cannot_be_overwritten_now_is_overwritten_at_another_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that refuses to be written is no reason not to start."""

    def refuse(*_: object) -> int:
        raise OSError("read-only")

    with monkeypatch.context() as patched:
        patched.setattr("evenkeel.service.store.journal.overwrite_pieces", refuse)
        first = opened_journal(tmp_path)
        assert first.do(partial(queries.value, name="unscrubbed")) == 1
        first.do(partial(queries.accept, examples=examples(8, own="e")))
        first.close()
    second = opened_journal(tmp_path)
    assert second.do(partial(queries.value, name="unscrubbed")) == 0
    assert second.do(partial(queries.value, name="accepted")) == 8
    second.close()


def test_a_reader_in_another_process_puts_it_off(tmp_path: Path) -> None:
    path = tmp_path / "some.sqlite"
    churned(path, 120)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM one").fetchone()
        db = opened_like_ours(path)
        db.execute("DELETE FROM one WHERE seq = 3")
        db.execute("PRAGMA busy_timeout = 0")
        assert not remove_pieces(db, path)
    assert remove_pieces(opened_like_ours(path), path)


def test_forgotten_predictions_leave_no_pieces_after_a_start(tmp_path: Path) -> None:
    path = tmp_path / "predictions.sqlite"
    kept = Predictions(path, Kept(300))
    for number in range(900):
        kept.remember([Prediction(f"p{number:04d}", 1, "cat", (b"SAMPLE%04d" % number) * (1 + number % 40))])
    left = [f"p{number:04d}" for number in range(600, 900) if number % 3]
    gone = [f"p{number:04d}" for number in range(600, 900, 3)]
    kept.forget(gone)
    kept.close()
    again = Predictions(path, Kept(300))
    content = path.read_bytes()
    for number in (*range(600), *range(600, 900, 3)):
        assert b"SAMPLE%04d" % number not in content
    assert sorted(again.fetch(left)) == left
    again.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] != UNSCRUBBED


def test_predictions_that_were_labelled_before_they_are_forgotten_leave_no_pieces_either(tmp_path: Path) -> None:
    path, dice, left = tmp_path / "predictions.sqlite", random.Random(1), list[str]()
    kept = Predictions(path, Kept(50_000))
    labelled = list[str]()
    for number in range(0, 1920, 16):
        words = [f"<{each:08d}>" for each in range(number, number + 16)]
        kept.remember([Prediction(each, 1, "cat", (each * 40)[: dice.randint(200, 400)].encode()) for each in words])
        left += words
        if len(left) > 64:
            dice.shuffle(left)
            for _ in range(15):
                labelled.append(left.pop())
                kept.drop(labelled[-1:])
    assert kept.forget(labelled) == []
    kept.close()

    def pieces() -> list[str]:
        content = path.read_bytes()
        return [each for each in labelled if each.encode() in content]

    assert pieces()  # so this test can fail
    Predictions(path, Kept(50_000)).close()
    assert not pieces()


def test_damage_is_found_before_anything_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with closing(open_database(path, schema.prepare, flushed=False)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    content[4096:4200] = b"\xff" * 104
    path.write_bytes(content)
    with pytest.raises(JournalError, match="left unchanged"):
        open_database(path, schema.prepare, flushed=False)
    assert path.read_bytes() == bytes(content)
