"""The catalogue of measures by name, each with its title, its formula and which way is better."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from evenkeel.results import metrics
from evenkeel.results.run_files import Results


@dataclass(frozen=True)
class Measure:
    title: str
    higher_is_better: bool | None  # None if neither is, as for a share that should be fair
    formula: str
    of: Callable[[Results], float | None]  # None if the run has no data for it
    headline: bool = False  # whether it is a column of tables and of the report's comparison

    @property
    def heading(self) -> str:
        """Return the title with an arrow that shows which way is better."""
        return self.title + ("" if self.higher_is_better is None else " ↑" if self.higher_is_better else " ↓")


def _matrix(scores: str = "accuracy") -> Callable[[Results], metrics.Matrix | None]:
    """Return a function that gives the accuracy matrix of a run, or None unless all its tasks are finished."""

    def of(run: Results) -> metrics.Matrix | None:
        r = run.matrix(scores)
        return r if len(r) and len(r) == len(run.started.tasks) else None

    return of


def _points(run: Results) -> list[float] | None:
    return [point.mean for point in run.anytime] or None


def _area_sum(run: Results) -> float | None:
    points, interval = _points(run), run.started.config["evaluation"]["every"]
    return None if points is None else metrics.area_sum(points, interval)


def _forward_transfer(run: Results) -> float | None:
    r, untrained = _matrix()(run), [test.accuracy for test in run.tested if test.task == -1]
    return metrics.forward_transfer(r, untrained[0]) if r is not None and untrained else None


def _worst_case(run: Results) -> float | None:
    r = _matrix()(run)
    if r is None or not run.anytime:
        return None
    return metrics.worst_case_accuracy([p.accuracy for p in run.anytime], [p.task for p in run.anytime], r)


def _recency_bias(run: Results) -> float | None:
    last = run.finished_tasks[-1] if _matrix()(run) is not None else None
    return metrics.recency_bias(last.predicted) if last and last.predicted else None


def _recency_tilt(run: Results) -> float | None:
    if _matrix()(run) is None:
        return None
    confusion = np.array(run.finished_tasks[-1].confusion)
    seen = np.zeros(len(confusion))  # a task, for each class
    for number, task in enumerate(run.started.tasks):
        seen[task["classes"]] = number
    true, predicted = np.nonzero(confusion)
    times = confusion[true, predicted]
    return metrics.recency_tilt(seen[true].repeat(times), seen[predicted].repeat(times))


def _forgetting_of_classes(run: Results) -> float | None:
    tests = run.finished_tasks if _matrix()(run) is not None else []
    return metrics.forgetting_before_end(np.array([test.recall for test in tests])) if tests else None


def _prequential(run: Results) -> float | None:
    counts = [(step.correct, step.samples) for step in run.steps if step.correct is not None]
    return metrics.prequential_accuracy(*zip(*counts, strict=True)) if counts else None


Data = TypeVar("Data")


def _measure(
    title: str,
    measure: Callable[..., object],
    of: Callable[[Results], float | None],
    *,
    lower: bool | None = False,
    scored: str = "",
    headline: bool = False,
) -> Measure:
    """Return a measure whose formula is the first line of the docstring of `measure`."""
    formula = (measure.__doc__ or "").strip().splitlines()[0]
    return Measure(title, None if lower is None else not lower, f"{formula}{scored}", of, headline)


def _over(
    title: str,
    measure: Callable[[Data], float],
    extract: Callable[[Results], Data | None],
    *,
    lower: bool = False,
    scored: str = "",
    headline: bool = False,
) -> Measure:
    """Return the measure that applies `measure` to what `extract` takes from a run, if anything."""

    def of(run: Results) -> float | None:
        data = extract(run)
        return None if data is None else measure(data)

    return _measure(title, measure, of, lower=lower, scored=scored, headline=headline)


MEASURES: dict[str, Measure] = {
    "acc": _over("ACC", metrics.average_accuracy, _matrix(), headline=True),
    "fm": _over("FM", metrics.forgetting, _matrix(), lower=True, headline=True),
    "learning_within": _over(
        "within-task learning accuracy",
        metrics.learning_accuracy,
        _matrix("masked"),
        scored="; only outputs of the sample's own task compete, so that bias toward the newest task is no advantage",
        headline=True,
    ),
    "acc_auc": _over("ACC_AUC", metrics.area_under_curve, _points, headline=True),
    "learning_accuracy": _over("learning accuracy", metrics.learning_accuracy, _matrix()),
    "acc_seen": _over(
        "ACC, seen classes",
        metrics.average_accuracy,
        _matrix("seen"),
        scored="; only outputs of classes seen so far compete",
    ),
    "acc_task_il": _over(
        "ACC, task-IL",
        metrics.average_accuracy,
        _matrix("masked"),
        scored="; only outputs of the sample's own task compete",
    ),
    "acc_triangle": _over("ACC, whole triangle", metrics.triangle_accuracy, _matrix()),
    "aia": _over("average incremental accuracy", metrics.average_incremental_accuracy, _matrix()),
    "fm_over_all": _over("FM, over all T (CBA paper)", metrics.forgetting_over_all, _matrix(), lower=True),
    "fm_since_learned": _over("FM, first minus last", metrics.forgetting_since_learned, _matrix(), lower=True),
    "fm_classes": _measure(
        "FM, by class before the end (i-Blurry)",
        metrics.forgetting_before_end,
        _forgetting_of_classes,
        lower=True,
        scored="; R holds the recall of each class",
    ),
    "fm_but_newest_two": _over(
        "FM, but the newest two (LibContinual)", metrics.forgetting_but_newest_two, _matrix(), lower=True
    ),
    "bwt": _over("BWT", metrics.backward_transfer, _matrix()),
    "fwt": _measure("FWT", metrics.forward_transfer, _forward_transfer),
    "wc_acc": _measure("worst-case accuracy", metrics.worst_case_accuracy, _worst_case),
    "recency_bias": _measure(
        "recency bias",
        metrics.recency_bias,
        _recency_bias,
        lower=None,
        scored="; fair is that task's share of the test samples, 100/T for tasks of equal size",
    ),
    "recency_tilt": _measure("recency tilt", metrics.recency_tilt, _recency_tilt, lower=None, scored="; fair is 0"),
    "acc_auc_sum": _measure("ACC_AUC as the paper's sum, accuracy x steps", metrics.area_sum, _area_sum),
    "prequential": _measure("prequential accuracy", metrics.prequential_accuracy, _prequential),
}


NOTATION = "R[j, i] is the accuracy on task i after task j, in percent, counted from 0; T is the number of tasks."
HEADLINE = tuple(name for name, measure in MEASURES.items() if measure.headline)


def summarise(run: Results) -> dict[str, float | None]:
    """Return all measures of one run by name."""
    return {name: measure.of(run) for name, measure in MEASURES.items()}


def by_task(titles: Sequence[str], of: Callable[[Results, int], float | None]) -> list[Measure]:
    """Return a measure for each task, of which neither way is better; `of` gets a run and the task's number."""

    def measure(title: str, task: int) -> Measure:
        return Measure(title, None, "", lambda run: of(run, task))

    return [measure(title, task) for task, title in enumerate(titles)]


def final_accuracy(run: Results, task: int) -> float | None:
    """Return the accuracy on a task at the end, if that was tested."""
    return run.finished_tasks[-1].accuracy[task] if run.finished_tasks else None
