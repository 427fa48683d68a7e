"""Test data by task, and a learner's results on it: one pass over resident tensors, then arithmetic."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from evenkeel.errors import InputError, reason
from evenkeel.learning.labels import LabelMap, as_labels
from evenkeel.learning.learner import Learner
from evenkeel.learning.texts import are_texts, packed
from evenkeel.learning.types import Precision
from evenkeel.results.metrics import class_recall
from evenkeel.results.records import Tested


@dataclass(frozen=True)
class TestSet:
    """Test samples, sorted by task."""

    x: Tensor  # (n, ...)
    y: Tensor  # (n,) indices into `classes`
    task: Tensor  # (n,) ascending
    classes: Sequence[Hashable]
    tasks: Sequence[Sequence[int]]  # indices of the classes of each task

    @classmethod
    def of(cls, x: object, y: object, task: object = None) -> "TestSet":
        """Return a user's samples, of one task if `task` is None; raise InputError if they are invalid."""
        labels = as_labels(y, "the labels of test")
        try:
            samples = torch.from_numpy(packed(cast("Sequence[str]", x))) if are_texts(x) else torch.as_tensor(x)
            tasks = torch.as_tensor([0] * len(labels) if task is None else task)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"test cannot be converted to tensors: {reason(error)}.") from None
        if not labels or samples.dim() < 2 or tasks.shape != (len(samples),) or len(samples) != len(labels):
            raise InputError(
                f"test has {len(labels)} labels for x of shape {tuple(samples.shape)}; it needs one for each sample."
            )
        numbers = tasks.unique().tolist()
        if numbers != list(range(len(numbers))):
            raise InputError(f"The tasks of test are {numbers[:5]}; they must be numbered from 0 without gaps.")
        known = LabelMap(list(dict.fromkeys(labels)))
        outputs, order = known.outputs(labels), tasks.argsort(stable=True)
        by_task = [outputs[tasks == number].unique().tolist() for number in numbers]
        return cls(samples[order], outputs[order], tasks[order].long(), known.names, by_task)

    def sample(self, size: int, generator: torch.Generator) -> "TestSet":
        """Return about `size` of the samples: each class of each task has its share, rounded, and at least one."""
        if size >= len(self.y):
            return self
        kinds = self.task * len(self.classes) + self.y
        chosen = []
        for kind in kinds.unique():
            mine = (kinds == kind).nonzero().flatten()
            share = max(1, round(size * len(mine) / len(self.y)))
            chosen.append(mine[torch.randperm(len(mine), generator=generator)[:share]])
        kept = torch.cat(chosen).sort().values
        return replace(self, x=self.x[kept], y=self.y[kept], task=self.task[kept])

    def until(self, task: int) -> "TestSet":
        """Return the samples of the tasks up to this one."""
        n = int((self.task <= task).sum())
        return replace(self, x=self.x[:n], y=self.y[:n], task=self.task[:n])

    def scores(self, learner: Learner, precision: Precision = "float32") -> Tensor:
        """Return (n, classes and any others that the learner knows) scores: -inf for a class without an output."""
        logits = learner.logits(self.x, fold=True, precision=precision)
        place = {name: place for place, name in enumerate(self.classes)}
        for name in learner.classes:
            place.setdefault(name, len(place))
        scores = logits.new_full((len(logits), len(place)), -torch.inf)
        if learner.classes:
            scores[:, [place[name] for name in learner.classes]] = logits[:, : len(learner.classes)]
        return scores

    def accuracy(self, scores: Tensor, allowed: Tensor | None = None) -> list[float]:
        """Return the accuracy per task in percent. `allowed`: (classes,) or (n, classes) that compete; None: all."""
        if allowed is not None:
            unknown = scores.shape[1] - allowed.shape[-1]  # classes that the test data lacks
            scores = scores.masked_fill(~torch.nn.functional.pad(allowed, (0, unknown)), -torch.inf)
        best, predicted = scores.max(dim=1)
        right = (predicted == self.y) & (best > -torch.inf)
        return self._by_task(right)

    def masked(self, scores: Tensor) -> list[float]:
        """Return the task-incremental accuracy: only the classes of a sample's own task compete."""
        own = torch.zeros(len(self.tasks), len(self.classes), dtype=torch.bool)
        for place, classes in enumerate(self.tasks):
            own[place, list(classes)] = True
        return self.accuracy(scores, own[self.task])

    def seen(self, scores: Tensor, labels: Collection[Hashable]) -> list[float]:
        """Return the accuracy if only the classes of these labels compete."""
        return self.accuracy(scores, torch.tensor([name in labels for name in self.classes]))

    def predicted(self, scores: Tensor, current: int) -> list[float]:
        """Return the percentage of predictions per task, for tasks up to `current`; empty if tasks share classes."""
        home = [place for place, classes in enumerate(self.tasks) for _ in classes]
        classes = [place for classes in self.tasks for place in classes]
        if len(set(classes)) < len(classes) or current < 0:
            return []
        task_of = torch.full((scores.shape[1],), len(self.tasks))  # one more for classes in no task
        task_of[classes] = torch.tensor(home)
        counts = task_of[scores[self.task <= current].argmax(dim=1)].bincount(minlength=len(self.tasks) + 1)
        return [100 * float(count) / int(counts.sum()) for count in counts[:-1]]

    def confusion(self, scores: Tensor) -> Tensor:
        """Return counts [true class, predicted class]; columns beyond `classes` are for all other predictions."""
        best, predicted = scores.max(dim=1)
        columns = scores.shape[1] + 1
        predicted[best == -torch.inf] = columns - 1  # a learner that has learned nothing predicts nothing
        return (self.y * columns + predicted).bincount(minlength=columns * len(self.classes)).view(-1, columns)

    def test(self, learner: Learner, task: int, seen: Collection[Hashable], precision: Precision) -> Tested:
        """Return the record of a full test, as at the end of a task."""
        scores = self.scores(learner, precision).cpu()
        confusion = self.confusion(scores)
        stored = learner.stored
        return Tested(
            step=learner.step,
            task=task,
            accuracy=self.accuracy(scores),
            seen=self.seen(scores, seen),
            masked=self.masked(scores),
            predicted=self.predicted(scores, task),
            confusion=confusion[:, : len(self.classes)].tolist(),
            recall=class_recall(confusion.numpy()).tolist(),
            memory=[stored.get(name, 0) for name in self.classes],
        )

    def _by_task(self, right: Tensor) -> list[float]:
        tasks = len(self.tasks)
        counts = self.task.bincount(minlength=tasks).double()
        hits = self.task.bincount(right.double(), minlength=tasks)
        return [100 * float(hit / count) for hit, count in zip(hits, counts, strict=True) if count]
