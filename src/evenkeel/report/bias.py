"""The sections of a report about tilt: predictions by task, recency bias along the stream, forgetting by class."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evenkeel.report.charts import (
    BANDS,
    MOST_LINES,
    about_whiskers,
    class_order,
    each_or_ends,
    heights_of,
    line_charts,
    lines_of,
)
from evenkeel.report.elements import Chart, Charts, Note, Section
from evenkeel.report.figures import ByName, Heights, by_name
from evenkeel.report.scene import Array, Look, Scene
from evenkeel.results import measures
from evenkeel.results.records import Tested
from evenkeel.results.run_files import Results


def tilt_at_a_glance(scene: Scene) -> Charts | None:
    """Show the tilt of each group or, of many, the means of those without an adaptor and of those with each."""
    heights = _shares(scene)
    if len(heights) > MOST_LINES and (sides := _sides(scene, heights)):
        looks = {side: Look.of(0, kind) for kind, side in enumerate(sides)}
        about = f"Means over {len(scene.pairs)} comparisons; each is below, under Recency bias."
        return _tilt(scene, sides, looks, about)
    return tilt(scene)


def tilt(scene: Scene) -> Charts | None:
    """Show on which tasks the predictions fall at the end, next to the fair shares; None if that is unknown."""
    return _tilt(scene, heights, scene.looks) if (heights := _shares(scene)) else None


def _shares(scene: Scene) -> dict[str, Heights]:
    return heights_of(scene, scene.by_task(predicted_share)) if scene.tasks > 1 else {}


def _sides(scene: Scene, heights: Mapping[str, Heights]) -> dict[str, Heights]:
    """Return the means over what was run without and with an adaptor: without, and with each."""
    by_side: dict[str, dict[str, Array]] = {}
    for without, with_ in scene.pairs:
        if {without.label, with_.label} <= heights.keys():
            by_side.setdefault("without", {})[without.label] = heights[without.label].mean
            by_side.setdefault(f"with {with_.adaptor}", {})[with_.label] = heights[with_.label].mean
    none = np.zeros(scene.tasks)
    return {side: Heights(np.mean(list(means.values()), axis=0), none) for side, means in by_side.items()}


def _tilt(scene: Scene, heights: Mapping[str, Heights], looks: Mapping[str, Look], about: str = "") -> Charts:
    fair = fair_shares(scene)
    picture = by_name(looks, ByName(heights, scene.task_ticks, "task", "predictions (%)", fair=fair, percent=True))
    if "cells" in picture.values:
        marks = "the first row has the true shares. Red: more than fair, darkest from twice the fair share; blue: less."
    else:
        marks = f"the long marks are the true shares of the tasks. {about_whiskers(picture, heights)}"
    caption = (
        "Share of the test samples predicted as each task's classes, after the whole stream. Even keel: every task "
        f"gets its fair share; a last task far above it shows recency bias. Here {marks} {about}"
    )
    return Charts(caption.strip(), [Chart("Share of predictions by task at the end", picture)])


def recency(scene: Scene) -> Section | None:
    """Show the tilt toward the newest task along the stream, and its size at the end."""
    if scene.tasks == 1:
        return None
    title = "Recency bias"
    if (tests := _last_tests(scene)) and not tests[0].predicted:
        return Section(title, [Note("Tasks share their classes here, so a prediction does not belong to a task.")])
    fair = fair_shares(scene)

    def excess(run: Results) -> dict[int, float]:
        points = run.anytime or run.finished_tasks
        return {
            p.step: p.predicted[p.task] - 100 * fair[p.task] / fair[: p.task + 1].sum() for p in points if p.predicted
        }

    lines = lines_of(scene, excess)
    if not lines:
        return None
    caption = (
        "How much more of the predictions fall on the newest task than its share of the test samples seen so far, in "
        f"points, along the stream: 0 is fair. {BANDS.replace(', cut off at 0 and 100', '')}"
    )
    charts = line_charts(scene, "Recency bias over the stream", lines, "share above fair (points)", level=0)
    ends = _shares(scene)
    last = each_or_ends({label: float(each.mean[-1]) for label, each in ends.items()}, ".1f")
    sentence = Note(f"Percent predicted as the last task at the end, whose fair share is {fair[-1]:.1f}: {last}.")
    each = tilt(scene) if len(ends) > MOST_LINES else None  # fewer are on the first screen
    return Section(title, [replace(charts, caption=caption), *([sentence] if ends else []), *([each] if each else [])])


def predicted_share(run: Results, task: int) -> float | None:
    """Return the percent of predictions that fall on this task in the last test, if they fall on tasks."""
    return run.finished_tasks[-1].predicted[task] if run.finished_tasks and run.finished_tasks[-1].predicted else None


def _last_tests(scene: Scene) -> list[Tested]:
    return [run.finished_tasks[-1] for group in scene.finished.values() for run in group.runs if run.finished_tasks]


def fair_shares(scene: Scene) -> Array:
    """Return each task's share of the test samples in percent; equal shares if the tasks of classes are unknown."""
    confusion = tests[0].confusion if (tests := _last_tests(scene)) else []
    counts = np.array(confusion, dtype=np.float64).sum(axis=-1) if confusion else np.zeros(0)
    if scene.task_classes is None or not counts.sum():
        return np.full(scene.tasks, 100 / scene.tasks)
    return np.array([100 * counts[task].sum() / counts.sum() for task in scene.task_classes])


def class_forgetting(scene: Scene) -> Section | None:
    """Show how much of the best recall of each class is lost at the end."""
    by_class = measures.by_task(_class_names(scene), _class_loss)
    heights = heights_of(scene, by_class) if scene.tasks > 1 else {}
    heights = {label: each for label, each in heights.items() if len(each.mean) == len(by_class)}
    if not heights:
        return None
    order = [label for label in class_order(scene, len(by_class)) if _was_learned(scene, label)]
    if not order:
        return None
    ordered = {label: Heights(each.mean[order], each.half[order]) for label, each in heights.items()}
    names = [_class_names(scene)[place] for place in order]
    picture = by_name(scene.looks, ByName(ordered, names, "class", "recall lost (points)", centre=0.0))
    caption = (
        "Forgetting of each class: its best recall at the end of any task minus its recall at the end, in points, mean "
        "over seeds; below 0 it is best at the end. Classes are in the order of their tasks if all runs share "
        "it; those that no test before the last recognised are left out. "
        f"{about_whiskers(picture, ordered, percent=False)}"
    )
    return Section("Forgetting by class", [Charts(caption, [Chart("Forgetting by class", picture)])])


def _class_loss(run: Results, label: int) -> float | None:
    """Return the best recall before the last test minus that of the last; a class that had none has lost none."""
    recalls = [test.recall[label] for test in run.finished_tasks if len(test.recall) > label]
    if len(recalls) < 2:
        return None
    return max(recalls[:-1]) - recalls[-1] if any(recalls[:-1]) else 0.0


def _was_learned(scene: Scene, label: int) -> bool:
    """Return whether any test before the last recognised a class: those of the last task had nothing to lose."""
    return any(test.recall[label] for run in scene.runs for test in run.finished_tasks[:-1] if len(test.recall) > label)


def _class_names(scene: Scene) -> list[str]:
    """Return the names of the classes, or their numbers if the names are too many for an axis or unknown."""
    tests = [test for run in scene.runs for test in run.finished_tasks]
    count = len(tests[-1].recall) if tests else 0
    return scene.class_names if len(scene.class_names) == count <= 20 else [str(label) for label in range(count)]
