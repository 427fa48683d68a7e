"""A service without HTTP: what the web application and the command line have in common."""

import time
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from evenkeel.config.loading import read_tables
from evenkeel.errors import DivergenceError, InputError, SettingsError, os_sentence
from evenkeel.service.examples import Accepted, Answer, Example, FullError, Names, likeliest
from evenkeel.service.intake import Intake
from evenkeel.service.learners import require_own_parts, tables_of
from evenkeel.service.opening import Start, adopt, current, first_learner, newest_readable, open_journal
from evenkeel.service.samples import unpack
from evenkeel.service.store import aside, forgotten, queries, version_rows
from evenkeel.service.store.aside import SetAside
from evenkeel.service.store.forgotten import Forgotten
from evenkeel.service.store.journal import Journal, JournalError
from evenkeel.service.store.model_folder import ModelFolder
from evenkeel.service.store.predictions import Kept, Prediction, Predictions
from evenkeel.service.store.version_rows import Version
from evenkeel.service.worker.futures import after
from evenkeel.service.worker.pipe import Published
from evenkeel.service.worker.supervisor import Supervisor


class Service:
    """An open MODEL_DIR. If the journal cannot be used, it still predicts, and reports why it does not learn.

    `rollback`: start from this earlier version. `new_journal`: set the journal aside, and start a new one. `apart`:
    learn in a separate process, so that predictions never wait. `learner`: the file of a learner to start from, in a
    new folder; parts that it names are not imported.
    """

    def __init__(
        self,
        path: Path,
        source: str | Path | Mapping[str, Any] | None = None,
        overrides: Sequence[str] = (),
        *,
        rollback: int | None = None,
        new_journal: bool = False,
        apart: bool = False,
        learner: Path | None = None,
    ) -> None:
        self.model_folder = ModelFolder(path)
        start = Start(rollback, new_journal, learner)
        if learner is not None:
            source = self._tables_of(learner, overrides)
        self.config = self.model_folder.read(source, overrides, trusted=learner is None)
        self.model_folder.device = self.config.device
        self.started_at = time.monotonic()
        self.seconds_a_sample = 1.0  # that recent predictions took; a guess until there was one
        self.failure: str | None = None
        self._notice: str | None = None  # what was wrong at the start, though it learns
        self.journal: Journal | None = None
        self.predictions: Predictions | None = None
        self.supervisor: Supervisor | None = None
        self._intake: Intake | None = None
        self._names = Names()
        torch.set_num_threads(self.config.threads or torch.get_num_threads())
        if not self.model_folder.exists:
            first_learner(self.config, start)  # raises before the folder is created if the config is invalid
            self.model_folder.make()
        try:
            self._open(start, apart)
        except BaseException:
            self.close()
            raise

    def _tables_of(self, learner: Path, overrides: Sequence[str]) -> dict[str, Any]:
        """Return the config for the learner in a file; raise SettingsError if it cannot start this folder."""
        if self.model_folder.exists:
            raise SettingsError(
                f"{str(self.model_folder.path)!r} holds a learner already; --from starts a new folder. Leave it out."
            )
        require_own_parts(learner, read_tables({}, overrides))
        return tables_of(learner)

    def _open(self, start: Start, apart: bool) -> None:
        try:
            self.model_folder.lock()
            self.model_folder.keep_private()
            if not self.model_folder.exists and not self.model_folder.lost_config:  # then it may be the wrong one
                self.model_folder.write(self.config)
            self._resume(start, apart)
        except (JournalError, OSError) as error:
            self.failure = str(error) if isinstance(error, JournalError) else os_sentence(error)
            self._fixed = newest_readable(self.model_folder, self.failure)
            self._close_databases()
            self.journal = self.predictions = None  # it only predicts, and writes nothing
            return
        self.model_folder.write(self.config)

    def _resume(self, start: Start, apart: bool) -> None:
        """Open the databases, and resume from the current version or the one that `start` demands."""
        self.journal, trouble = open_journal(self.model_folder, self.config, start)
        self.predictions = Predictions(self.model_folder.predictions, Kept.of(self.config.limits))
        if trouble is None:
            resumed = current(self.model_folder, self.config, self.journal, start)
        else:
            resumed = adopt(self.model_folder, self.config, self.journal, start.rollback)
        learner, counters, number, self._notice = resumed
        self.journal.start_marking()
        published = Published.of(learner, number)
        labels = set(published.classifier.classes) | self.journal.do(queries.waiting)[1]
        self.supervisor = Supervisor(self.model_folder, self.config, self.journal, published, counters, apart=apart)
        self._intake = Intake(
            self.config, self.journal, self.predictions, self.supervisor, names=self._names, labels=labels
        )

    def start(self) -> None:
        """Start learning."""
        if self.supervisor is not None:
            self.supervisor.start()

    def close(self) -> None:
        """Stop learning and close all files. Accepted examples that were not learned wait for the next start."""
        if self.supervisor is not None:
            self.supervisor.stop()
        self._close_databases()
        self.model_folder.release()

    def _close_databases(self) -> None:
        for database in (self.journal, self.predictions):
            if database is not None:
                database.close()

    @property
    def published(self) -> Published:
        """Return the model that predicts."""
        return self._fixed if self.supervisor is None else self.supervisor.published

    @property
    def waiting(self) -> int:
        """Return the number of examples accepted but not learned yet."""
        return 0 if self.supervisor is None else self.supervisor.waiting

    @property
    def room(self) -> int:
        """Return how many more examples may wait."""
        return self.config.most_waiting if self.supervisor is None else self.supervisor.limits.room

    @property
    def problem(self) -> str | None:
        """Return why nothing is learned at the moment; None if all is well."""
        if self.supervisor is None or self.journal is None:
            return self.failure
        unwritten = self.journal.failure and f"The journal cannot be written ({self.journal.failure})."
        return self.supervisor.error or unwritten or self.supervisor.limits.problem

    @property
    def notice(self) -> str | None:
        """Return what someone should know although the service learns: what was damaged. None if all is well."""
        learning = self._notice if self.supervisor is None else self.supervisor.notice or self._notice
        kept = None if self.predictions is None else self.predictions.notice
        return " ".join(filter(None, (learning, kept))) or None

    # For clients

    def learn(self, examples: Sequence[Example]) -> "Future[list[Accepted]]":
        """Accept examples. The future returns their ids, and which of them were new, once they are durable."""
        return self._require_intake().learn(examples)

    def tell(self, truths: Sequence[tuple[str, Hashable]]) -> "Future[list[Accepted]]":
        """Accept the true labels of earlier predictions as examples, and count whether the answers were correct."""
        return self._require_intake().tell(truths)

    def predict(self, samples: Sequence[bytes], top: int = 5) -> tuple[int, list[Answer]]:
        """Return the version that answers, and its answers."""
        published = self.published
        begun = time.perf_counter()
        try:
            batch = torch.from_numpy(unpack(samples, self.config.input))
            probabilities = published.classifier.predict_checked(batch)
        except DivergenceError:  # not because of the weights: the learner keeps them finite
            raise InputError(
                "The prediction for one of these samples is not finite; their numbers are too large."
            ) from None
        took = (time.perf_counter() - begun) / len(samples)
        self.seconds_a_sample = min(took, 1.1 * self.seconds_a_sample)  # a slow one may only have been delayed
        return published.version, likeliest(published.classifier.classes, probabilities, top)

    def remember(self, samples: Sequence[bytes], version: int, answers: Sequence[Answer]) -> list[str]:
        """Keep predictions so that they can be labelled later, and return their ids."""
        ids = self._names.new(len(samples))
        rows = zip(ids, samples, answers, strict=True)
        self._kept().remember([Prediction(id, version, answer.label, x) for id, x, answer in rows])
        return ids

    def full(self, count: int) -> FullError:
        """Return the error of a queue that has no room for this many examples."""
        return FullError(0, 1, count) if self.supervisor is None else self.supervisor.limits.full(count)

    # For admins

    def forget(self, id: str) -> "Future[Forgotten]":
        """Remove an example or a prediction from the journal, memory and all versions."""

        def one(answers: dict[str, Forgotten | None]) -> Forgotten:
            answer = answers[id]
            if answer is None:
                raise queries.UnknownError(
                    f"Nothing is stored under the id {id!r}, neither in the journal nor in memory."
                )
            return answer

        return after(self.forget_all([id]), one)

    def forget_all(self, ids: Sequence[str]) -> "Future[dict[str, Forgotten | None]]":
        """Remove many examples or predictions in one pass. The answer is None for an id that is not known."""
        supervisor, journal = self._require_learning()
        kept = self._kept()
        # Noted before they are deleted: if the worker cannot be reached, a repeated request still gets this answer.
        if held := kept.held(ids):
            noted = dict.fromkeys(held, Forgotten(waiting=False, memory=0, versions=0, prediction=True))
            journal.do(partial(forgotten.note, answers=noted))
        return supervisor.command("forget", ids=list(dict.fromkeys(ids)), predictions=kept.forget(ids))

    def list_aside(self) -> "Future[list[SetAside]]":
        """Return the examples that could not be learned, by batch."""
        _, journal = self._require_learning()
        return journal.write(aside.listed)

    def settle_aside(self, command: Literal["retry", "drop"], batch: int | None = None) -> "Future[int]":
        """Let examples that were set aside wait again, or drop them: those of a batch, or all. Returns how many."""
        supervisor, _ = self._require_learning()
        return supervisor.command(command, batch=batch)

    def save(self, note: str = "") -> "Future[Version]":
        """Save a version now."""
        supervisor, _ = self._require_learning()
        return supervisor.command("save", asked=True, note=note)

    def rollback(self, number: int) -> "Future[Version]":
        """Resume from an earlier version, which is saved under a new number."""
        supervisor, _ = self._require_learning()
        return supervisor.command("rollback", number=number)

    def list_versions(self) -> "Future[list[Version]]":
        """Return the versions that are kept."""
        _, journal = self._require_learning()
        return journal.write(version_rows.kept)

    def counts(self) -> "Future[dict[str, int]]":
        """Return the journal's counts since the beginning: accepted, withdrawn, labelled and right."""
        _, journal = self._require_learning()
        names = ("accepted", "withdrawn", "labelled", "right")
        return journal.write(lambda db: {name: int(queries.value(db, name)) for name in names})

    # Helpers

    def _require_learning(self) -> tuple[Supervisor, Journal]:
        """Return the supervisor and the journal; raise JournalError if nothing can be learned."""
        if self.supervisor is None or self.journal is None:
            raise _only_predicts(self.failure)
        return self.supervisor, self.journal

    def _require_intake(self) -> Intake:
        """Return what accepts examples; raise JournalError if nothing can be learned."""
        if self._intake is None:
            raise _only_predicts(self.failure)
        return self._intake

    def _kept(self) -> Predictions:
        """Return the predictions that may be labelled later; raise JournalError if they could not be opened."""
        if self.predictions is None:
            raise _only_predicts(self.failure)
        return self.predictions


def _only_predicts(why: str | None) -> JournalError:
    return JournalError(f"{why} Predictions continue; nothing is learned.")
