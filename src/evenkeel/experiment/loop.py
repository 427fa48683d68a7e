"""One learner through one course, step by step."""

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
    """What is measured on the way never changes the way: each measurement has chance of its own, or none."""

    def __init__(self, setup: Setup, learner: Learner) -> None:
        self.learner = learner
        self.evaluating = 0.0  # seconds
        self._setup = setup
        self._how = setup.config.evaluation
        self._sample: TestSet | None = None  # what the anytime curve is measured on
        if setup.test_set is not None and self._how.every:
            generator = make_generator(setup.config.seed, "anytime")
            self._sample = setup.test_set.sample(self._how.sample or len(setup.test_set.y), generator)

    def steps(self, started: Started | None, before: str | None) -> Iterator[list[Record]]:
        """The records of each step from where the learner is; before the first, `started` and a test untrained.

        before: the digest of what a stream of the user's own gave until here, when the learner learned it.
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
                f"The stream has come to task {task}, but test has only tasks below {len(test_set.tasks)}."
            )

    def _learn(self, batch: Batch) -> Stepped:
        correct = self._prequential(batch)
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
        if not self._how.prequential:
            return None
        with self._clock():
            if not self.learner.classes:
                return 0
            predicted = self.learner.predict(batch.x).tolist()
            return sum(bool(label == guess) for label, guess in zip(batch.labels, predicted, strict=True))

    def _look_ahead(self, batch: Batch) -> Iterator[Record]:
        step = self.learner.step + 1
        if self._how.alignment and step % self._how.alignment == 0:
            with self._clock():
                found = self.learner.alignment(batch.x, batch.labels)
            if found is not None:
                yield Aligned(step, batch.task, *found)

    def _look_back(self, batch: Batch) -> Iterator[Record]:
        if self._sample is not None and batch.place % self._how.every == 0:
            with self._clock():
                seen = self._sample.until(batch.task)
                scores = seen.scores(self.learner).cpu()
                accuracy, predicted = seen.accuracy(scores), seen.predicted(scores, batch.task)
            yield Anytime(self.learner.step, batch.task, accuracy, predicted)
        if batch.ends_task:
            yield from self._test(batch.task)

    def _test(self, task: int) -> Iterator[Record]:
        if self._setup.test_set is not None:
            with self._clock():
                record = self._setup.test_set.test(self.learner, task, self._setup.stream.seen)
            yield record

    @contextmanager
    def _clock(self) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.evaluating += time.monotonic() - begun
