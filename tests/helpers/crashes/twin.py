"""The diary that a journal keeps of itself, and the twin that follows it without ever being killed."""

import copy
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path

import numpy as np

from evenkeel.config.build import make_learner
from evenkeel.learning.learner import Learner
from evenkeel.learning.probes import differences, snapshot
from evenkeel.service.config import ServiceConfig
from tests.helpers.crashes.clients import Clients

POSITION = "(SELECT value FROM meta WHERE name = 'position')"  # the same for all of one transaction
DIARY = f"""
CREATE TABLE diary (entry INTEGER PRIMARY KEY, moment INTEGER, kind TEXT, id TEXT, number INTEGER);
CREATE TRIGGER accepting AFTER INSERT ON examples BEGIN
    INSERT INTO diary (moment, kind, id) VALUES ({POSITION}, 'accept', NEW.id);
END;
CREATE TRIGGER cutting AFTER UPDATE OF batch ON examples WHEN NEW.batch IS NOT OLD.batch BEGIN
    INSERT INTO diary (moment, kind, id, number) VALUES ({POSITION}, 'cut', NEW.id, NEW.batch);
END;
CREATE TRIGGER forgetting AFTER DELETE ON examples BEGIN
    INSERT INTO diary (moment, kind, id) VALUES ({POSITION}, 'forget', OLD.id);
END;
CREATE TRIGGER rolling_back AFTER UPDATE ON versions WHEN NEW.source IS NOT NULL AND NEW.source IS NOT OLD.source BEGIN
    INSERT INTO diary (moment, kind, number) VALUES ({POSITION}, 'back', NEW.source);
END;
CREATE TRIGGER saving AFTER UPDATE OF value ON meta WHEN NEW.name = 'current' BEGIN
    INSERT INTO diary (moment, kind, number) VALUES ({POSITION}, 'save', NEW.value);
END;
CREATE TRIGGER resuming AFTER INSERT ON meta WHEN NEW.name = 'current' BEGIN
    INSERT INTO diary (moment, kind, number) VALUES ({POSITION}, 'save', NEW.value);
END;
"""


def keep_diary(journal: Path) -> None:
    """Let a journal that nobody is using keep a diary."""
    with closing(sqlite3.connect(journal)) as db:
        db.executescript(DIARY)


def entries(journal: Path) -> int:
    """Return how long the diary of a journal is."""
    with closing(sqlite3.connect(journal)) as db:
        return int(db.execute("SELECT coalesce(max(entry), 0) FROM diary").fetchone()[0])


class Twin:
    """A learner that does what diaries say. `accepted`: all ids, in order; `forgotten`: those that were deleted."""

    def __init__(self, config: ServiceConfig, clients: Clients, forgets: Sequence[Sequence[str]]) -> None:
        self.learner = make_learner(config, config.input.sample, config.classes)
        self.accepted, self.forgotten, self.learned = dict[str, int](), set[str](), list[str]()
        self.batches = self.rollbacks = 0
        self._clients, self._forgets = clients, forgets
        self._members: dict[int, set[str]] = {}  # the examples of each batch
        self._batch_of: dict[str, int] = {}
        self._number = self._entry = 0
        self._states: dict[int, Learner] = {0: copy.deepcopy(self.learner)}

    def branch(self) -> "Twin":
        """Return a twin of the twin, to follow a copy."""
        clients, forgets = self._clients, self._forgets
        self._clients = self._forgets = None  # type: ignore[assignment]
        twin = copy.deepcopy(self)
        for each in (self, twin):
            each._clients, each._forgets = clients, forgets
        return twin

    def follow(self, journal: Path) -> "Twin":
        """Do what was added to the diary of a journal."""
        with closing(sqlite3.connect(journal)) as db:
            rows = db.execute(
                "SELECT moment, kind, id, number FROM diary WHERE entry > ? ORDER BY entry", (self._entry,)
            ).fetchall()
            known = {number for (number,) in db.execute("SELECT number FROM versions")}
        self._entry += len(rows)
        for _, group in groupby(rows, key=lambda row: row[0]):
            self._repeat([(kind, id, number) for _, kind, id, number in group])
        self._states = {number: state for number, state in self._states.items() if number in known}
        return self

    def _repeat(self, transaction: Sequence[tuple[str, str, int | None]]) -> None:
        source = next((number for kind, _, number in transaction if kind == "back"), None)
        saved = next((number for kind, _, number in transaction if kind == "save"), None)
        if saved is not None:
            self._move(saved, source)
        self._forget([id for kind, id, _ in transaction if kind == "forget"])
        if saved is not None:
            self._states[saved] = copy.deepcopy(self.learner)
        for kind, id, number in transaction:
            if kind == "accept":
                assert id not in self.accepted, id
                self.accepted[id] = len(self.accepted)
            elif kind == "cut":
                self._cut(id, number)

    def _move(self, number: int, source: int | None) -> None:
        """Learn up to a batch, or return to an earlier version."""
        if source is not None:
            self.rollbacks += 1
            self.learner = copy.deepcopy(self._states[source])
        elif number < self._number:  # a damaged version was replaced by an earlier one; what came later comes again
            self.learner = copy.deepcopy(self._states[number])
            again = {id for id, batch in self._batch_of.items() if batch > number}
            self.learned = [id for id in self.learned if id not in again]
        else:
            for batch in range(self._number + 1, number + 1):
                self._learn(sorted(self._members.get(batch, ()), key=self.accepted.__getitem__))
        self._number = number

    def _learn(self, ids: list[str]) -> None:
        if ids:
            x = np.array([self._clients.samples[id][0] for id in ids], dtype=np.float32)
            self.learner.learn(x, [self._clients.samples[id][1] for id in ids], key=ids)
            self.learned += ids
            self.batches += 1

    def _forget(self, deleted: Sequence[str]) -> None:
        """Forget what was deleted, in the order of the request, in all states."""
        if not deleted:
            return
        self.forgotten.update(deleted)
        for id in deleted:
            self._uncut(id)
        (request,) = [ids for ids in self._forgets if set(deleted) <= set(ids)]
        for learner in (self.learner, *self._states.values()):
            for id in request:
                learner.forget(id)

    def _cut(self, id: str, number: int | None) -> None:
        self._uncut(id)
        if number is not None:
            self._batch_of[id] = number
            self._members.setdefault(number, set()).add(id)

    def _uncut(self, id: str) -> None:
        self._members.get(self._batch_of.pop(id, 0), set()).discard(id)

    def require_equal(self, version: Path) -> None:
        """Fail if a version is not this learner, bit for bit."""
        wrong = differences(snapshot(Learner.load(version)), snapshot(self.learner))
        assert not wrong, (version, wrong[:5])

    def require_all(self, acknowledged: set[str]) -> None:
        """Fail if something that was acknowledged is missing."""
        assert acknowledged <= set(self.accepted), sorted(acknowledged - set(self.accepted))[:5]
