"""What a service accepts to be learned: examples, and late labels of its predictions."""

import sqlite3
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress

from evenkeel.errors import InputError
from evenkeel.service.config import ServiceConfig
from evenkeel.service.examples import Accepted, Example, Names, digest
from evenkeel.service.store import queries
from evenkeel.service.store.journal import Journal, JournalError, Operation
from evenkeel.service.store.predictions import Predictions
from evenkeel.service.worker.supervisor import Supervisor


class Intake:
    """Checks examples, reserves places in the queue, and writes them to the journal. `labels`: known or waiting."""

    def __init__(
        self,
        config: ServiceConfig,
        journal: Journal,
        predictions: Predictions,
        supervisor: Supervisor,
        *,
        names: Names,
        labels: set[Hashable],
    ) -> None:
        self._config, self._journal, self._predictions = config, journal, predictions
        self._supervisor, self._names, self._labels = supervisor, names, labels

    def learn(self, examples: Sequence[Example]) -> "Future[list[Accepted]]":
        """Accept examples. The future returns their ids, and which of them were new, once they are durable."""
        self._require_few(len(examples))
        new_ids = self._names.new(len(examples))
        rows = [each.named(new_id) for each, new_id in zip(examples, new_ids, strict=True)]

        def accept(db: sqlite3.Connection) -> list[Accepted]:
            self._admit([row.label for row in rows])
            new = queries.accept(db, rows)
            self._labels.update(row.label for row in rows)
            return [Accepted(row.id, is_new) for row, is_new in zip(rows, new, strict=True)]

        return self._enqueue(accept, len(rows))

    def tell(self, truths: Sequence[tuple[str, Hashable]]) -> "Future[list[Accepted]]":
        """Accept the true labels of earlier predictions as examples, and count whether the answers were correct."""
        self._require_few(len(truths))
        ids = [id for id, _ in truths]
        kept = self._predictions.fetch(ids)
        examples = [Example(kept[id].x if id in kept else b"", label, id, digest(b"", label)) for id, label in truths]
        answered = [kept[id].answered if id in kept else None for id in ids]

        def accept(db: sqlite3.Connection) -> list[Accepted]:
            self._admit([label for _, label in truths])
            right = queries.tell(db, list(zip(examples, answered, strict=True)))
            self._labels.update(label for _, label in truths)
            return [Accepted(id, each is not None, each) for id, each in zip(ids, right, strict=True)]

        def count_answers(done: "Future[list[Accepted]]") -> None:
            if not done.exception():
                self._supervisor.tell_answered([each.right for each in done.result() if each.right is not None])
                with suppress(JournalError):  # otherwise they are dropped when they are old
                    self._predictions.drop(ids)  # they are in the journal now

        future = self._enqueue(accept, len(truths))
        future.add_done_callback(count_answers)
        return future

    def _require_few(self, count: int) -> None:
        """Raise InputError if these are too many examples for one request."""
        most = min(self._config.limits.examples, self._config.most_waiting)
        if count > most:
            raise InputError(f"{count:,} examples are too many for one request; the limit is {most:,}.")

    def _admit(self, labels: Sequence[Hashable]) -> None:
        """Raise InputError if these labels cannot be learned. Runs in the journal's thread, where `_labels` changes."""
        self._config.require_labels(labels, self._labels)

    def _enqueue(self, accept: Operation[list[Accepted]], count: int) -> "Future[list[Accepted]]":
        """Write examples to the journal; raise FullError if the queue has no room for them."""
        self._supervisor.limits.reserve(count)

        def settle(done: "Future[list[Accepted]]") -> None:
            new = 0 if done.exception() else sum(each.new for each in done.result())
            self._supervisor.queue.settle(count, new)

        future = self._journal.write(accept)
        future.add_done_callback(settle)
        return future
