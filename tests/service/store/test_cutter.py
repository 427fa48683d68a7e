"""When batches are cut, and when the worker is woken to learn them."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evenkeel.service.examples import Example
from evenkeel.service.store import queries
from evenkeel.service.store.cutter import Cutter
from evenkeel.service.store.journal import Journal, open_reader
from evenkeel.service.store.seal import seal
from tests.helpers.processes import wait_for
from tests.helpers.services import Open, examples, rows, settle

SIZE, WAIT = 4, 60.0


class Woken(Journal):
    """A journal that counts how often it wakes the worker."""

    def __init__(self, path: Path, wait: float) -> None:
        super().__init__(path, path.with_suffix(".mark"), tidy=lambda _: False, cutter=Cutter(SIZE, wait))
        self.wakes = 0
        self.cutter.wake = self._count

    def _count(self) -> None:
        self.wakes += 1

    def accept(self, first: int, count: int) -> None:
        new = [Example(b"x", "a", f"e{place}") for place in range(first, first + count)]
        self.do(lambda db: queries.accept(db, new))

    def idle(self) -> None:
        """Report that the worker is idle, and wait until the journal knows."""
        self.note_idle()
        self.write_alone(lambda _: None).result()

    def touch(self) -> None:
        """Write something, and with it whatever is due."""
        self.do(lambda db: db.execute("UPDATE meta SET value = value WHERE name = 'batch'"))


class Clock:
    """The time that cutters see."""

    now = 1e6

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("evenkeel.service.store.cutter.time", clock)
    return clock


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Woken]:
    with closing(Woken(tmp_path / "journal.sqlite", WAIT)) as journal:
        yield journal


def batches(journal: Journal) -> list[int]:
    """Return the sizes of the batches that another process can read."""
    with closing(open_reader(journal.path)) as db:
        return [len(batch.examples) for batch in queries.batches(db, after=0, most=1_000)]


def test_full_batches_are_durable_together_with_their_examples(journal: Woken) -> None:
    sent = 0
    for count in (1, 2, 5, 8, 100, 3):
        journal.accept(sent, count)
        sent += count
        assert batches(journal) == [SIZE] * (sent // SIZE)


def test_batches_are_cut_in_the_transaction_that_accepts_their_examples(
    journal: Woken, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> tuple[int, int]:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as full:
        full.setattr("evenkeel.service.store.queries.cut", fail)
        with pytest.raises(Exception, match="disk is full"):
            journal.accept(0, 8)
        assert journal.do(lambda db: db.execute("SELECT count(*) FROM examples").fetchone()) == (0,)  # reading works
    journal.accept(0, 8)
    assert batches(journal) == [4, 4]


def test_an_incomplete_batch_is_cut_after_a_while_if_the_worker_is_idle(journal: Woken, clock: Clock) -> None:
    journal.accept(0, 6)
    clock.now += WAIT
    journal.touch()
    assert batches(journal) == [4]  # the worker is busy: meanwhile it may fill up
    journal.idle()
    assert journal.wakes == 1  # for the full one
    journal.idle()
    wait_for(lambda: (batches(journal), journal.wakes) == ([4, 2], 2))  # though nobody writes anything
    journal.idle()
    journal.accept(6, 1)
    clock.now += WAIT
    journal.touch()
    assert batches(journal) == [4, 2, 1]


def test_an_incomplete_batch_waits_for_as_long_as_it_should(journal: Woken, clock: Clock) -> None:
    journal.idle()
    journal.accept(0, 3)
    clock.now += WAIT - 1
    journal.touch()
    assert (batches(journal), journal.wakes) == ([], 0)
    journal.accept(3, 1)
    assert (batches(journal), journal.wakes) == ([4], 1)


def test_an_incomplete_batch_is_cut_by_the_real_clock(tmp_path: Path) -> None:
    with closing(Woken(tmp_path / "journal.sqlite", 0.05)) as journal:
        journal.idle()
        journal.accept(0, 3)
        wait_for(lambda: (batches(journal), journal.wakes) == ([3], 1))


def test_an_incomplete_batch_is_cut_although_an_earlier_attempt_failed(
    journal: Woken, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenkeel.service.store.journal.PROBE", 0.01)
    cut, failures = queries.cut, list[int]()

    def fail_twice(db: sqlite3.Connection, size: int, *, partial: bool) -> tuple[int, int]:
        result = cut(db, size, partial=partial)
        if partial and len(failures) < 2:
            failures.append(1)
            raise sqlite3.OperationalError("database or disk is full")
        return result

    monkeypatch.setattr("evenkeel.service.store.queries.cut", fail_twice)
    journal.accept(0, 3)
    clock.now += WAIT
    journal.idle()
    wait_for(lambda: batches(journal) == [3])
    assert len(failures) == 2


@pytest.mark.parametrize("seed", range(3))
def test_no_batch_is_missed_and_a_busy_worker_is_left_alone(journal: Woken, seed: int) -> None:
    """A worker reads at any moment; its message that it is idle arrives later, and so does the one that wakes it."""
    rng, sent, learned, wakes, idles, woken = random.Random(seed), 0, 0, 0, 0, True
    for step in range(400):
        phase = step % 20  # examples arrive, then everything settles
        likely = 0.4 if phase < 10 else 1.0
        if phase < 10 and rng.random() < 0.3:
            count = rng.randint(1, 9)
            journal.accept(sent, count)
            sent += count
        if idles and rng.random() < likely:
            journal.idle()
            idles -= 1
        assert journal.wakes - wakes <= 1
        if journal.wakes > wakes and rng.random() < likely:
            assert not woken
            woken, wakes = True, wakes + 1
        if woken and rng.random() < likely:
            found = len(batches(journal))
            if found == learned:
                woken, idles = False, idles + 1
            learned = found
        if phase == 19:
            assert learned == sent // SIZE


def test_what_an_older_version_left_uncut_is_cut_at_the_start(opened: Open) -> None:
    service = opened("batches.size=8", "batches.wait=3600", start=False)
    service.learn(examples(20, own="e")).result()
    assert service.journal is not None

    def uncut(db: sqlite3.Connection) -> None:
        db.execute("UPDATE examples SET batch = NULL")
        db.execute("UPDATE meta SET value = 0 WHERE name = 'batch'")
        seal(db)

    service.journal.write_alone(uncut).result()
    service.close()
    again = opened("batches.wait=0.01")
    settle(again)
    cut = rows(again, "SELECT batch, count(*), min(seq), max(seq) FROM examples GROUP BY batch ORDER BY batch")
    assert cut == [(1, 8, 1, 8), (2, 8, 9, 16), (3, 4, 17, 20)]
