"""The loop of a run: one learner through one setup, step by step."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from evenkeel.data.stream import Batch
from evenkeel.errors import InputError
from evenkeel.experiment.setup import Setup
from evenkeel.experiment.testset import TestSet
from evenkeel.learning.learner import Learner
from evenkeel.learning.rng import make_generator
from evenkeel.results.records import Aligned, Anytime, Record, Started, Stepped


class Loop:
    """The steps of a run and the evaluation along the way.

    Evaluation never affects training: it draws from generators of its own, or not at all.
    """

    def __init__(self, setup: Setup, learner: Learner) -> None:
        self.learner = learner
        self.evaluating = 0.0  # seconds
        self.learning_cpu = 0.0  # seconds of all cores
        self._setup = setup
        self._evaluation = setup.config.evaluation
        self._sample: TestSet | None = None  # the samples for the anytime curve
        if setup.test_set is not None and self._evaluation.every:
            generator = make_generator(setup.config.seed, "anytime")
            self._sample = setup.test_set.sample(self._evaluation.sample or len(setup.test_set.y), generator)

    def steps(self, started: Started | None, before: str | None) -> Iterator[list[Record]]:
        """Yield the records of each step after the learner's last one.

        started: the first record, followed by a test of the untrained learner; None if the run is resumed.
        before: the digest of the batches that the learner has already learned from a user's own stream.
        """
        if started is not None:
            yield [started]
            yield list(self._test(task=-1))
        for batch in self._setup.stream.batches(self.learner.step, before):
            self._require_test_of(batch.task)
            yield [*self._look_ahead(batch), self._learn(batch), *self._look_back(batch)]

    def _require_test_of(self, task: int) -> None:
        test_set = self._setup.test_set
        if test_set is not None and task >= len(test_set.tasks):
            raise InputError(
                f"The stream has reached task {task}, but test has only tasks below {len(test_set.tasks)}."
            )

    def _learn(self, batch: Batch) -> Stepped:
        correct = self._prequential(batch)
        with self._cpu_clock():
            record = self.learner.learn(batch.x, batch.labels)
            if batch.ends_task and self._setup.boundaries:
                self.learner.boundary()
        return Stepped(
            step=record.step,
            task=batch.task,
            samples=record.samples,
            loss=record.loss,
            outer_loss=record.outer_loss,
            replayed=record.replayed,
            stored=record.stored,
            classes=record.classes,
            correct=correct,
        )

    def _prequential(self, batch: Batch) -> int | None:
        if not self._evaluation.prequential:
            return None
        with self._clock():
            if not self.learner.classes:
                return 0
            predicted = self.learner.predict(batch.x).tolist()
            return sum(bool(label == guess) for label, guess in zip(batch.labels, predicted, strict=True))

    def _look_ahead(self, batch: Batch) -> Iterator[Record]:
        step = self.learner.step + 1
        if self._evaluation.alignment and step % self._evaluation.alignment == 0:
            with self._clock():
                alignment = self.learner.alignment(batch.x, batch.labels)
            if alignment is not None:
                yield Aligned(step, batch.task, *alignment)

    def _look_back(self, batch: Batch) -> Iterator[Record]:
        if self._sample is not None and batch.place % self._evaluation.every == 0:
            self._fit()
            with self._clock():
                seen = self._sample.until(batch.task)
                scores = seen.scores(self.learner, self._evaluation.precision).cpu()
                accuracy, predicted = seen.accuracy(scores), seen.predicted(scores, batch.task)
            yield Anytime(self.learner.step, batch.task, accuracy, predicted)
        if batch.ends_task:
            yield from self._test(batch.task)

    def _test(self, task: int) -> Iterator[Record]:
        if self._setup.test_set is not None:
            self._fit()
            with self._clock():
                seen, precision = self._setup.stream.seen, self._evaluation.precision
                record = self._setup.test_set.test(self.learner, task, seen, precision)
            yield record

    def _fit(self) -> None:
        """Let a method that learns only when it is asked (GDumb) do so now: this is no part of a test."""
        with self._cpu_clock():
            self.learner.fit()

    @contextmanager
    def _cpu_clock(self) -> Iterator[None]:
        begun = time.process_time()
        try:
            yield
        finally:
            self.learning_cpu += time.process_time() - begun

    @contextmanager
    def _clock(self) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.evaluating += time.monotonic() - begun
