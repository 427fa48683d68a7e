"""The sections of a report that are matrices: accuracy by task, confusion, and the contents of memory."""

import numpy as np

from evenkeel.report.charts import class_order
from evenkeel.report.elements import Chart, Charts, Section
from evenkeel.report.heat_maps import heat_map
from evenkeel.report.scene import Array, Scene


def accuracy_matrix(scene: Scene) -> Section | None:
    if scene.tasks == 1:
        return None  # a single number, which the table already has
    charts = []
    for group in scene.drawn:
        matrices = [run.matrix() for run in group.runs if run.finished_tasks]
        if not matrices:
            continue
        rows = min(map(len, matrices))
        mean = np.mean([matrix[:rows] for matrix in matrices], axis=0)
        picture = heat_map(
            mean,
            rows=scene.task_ticks[:rows],
            columns=scene.task_ticks,
            xlabel="accuracy on task",
            ylabel="after task",
            numbers=scene.tasks <= 10,
        )
        charts.append(Chart(group.label, picture))
    caption = (
        "Percent correct on each task (columns) after each task (rows), mean over seeds. Down a column, a task is "
        "forgotten; the diagonal shows how well it was learned."
    )
    return Section("Accuracy matrix", [Charts(caption, charts, small=True)]) if charts else None


def confusions(scene: Scene) -> Section | None:
    ends = np.cumsum([len(task) for task in scene.task_classes or ()])[:-1]
    charts = []
    for group in scene.drawn:
        counts = [
            np.array(run.finished_tasks[-1].confusion, dtype=np.float64) for run in group.runs if run.finished_tasks
        ]
        counts = [each for each in counts if each.size]
        if not counts:
            continue
        mean = np.mean([100 * each / np.maximum(each.sum(axis=1, keepdims=True), 1) for each in counts], axis=0)
        names = [str(label) for label in range(len(mean))]
        if len(scene.class_names) == len(mean) <= 20:
            names = scene.class_names
        places = class_order(scene, len(mean))
        picture = heat_map(
            mean[np.ix_(places, places)],
            rows=[names[place] for place in places],
            columns=[names[place] for place in places],
            xlabel="predicted",
            ylabel="true class",
            gamma=0.5,
            borders=[int(end) for end in ends] if scene.tasks <= 10 else (),
        )
        charts.append(Chart(group.label, picture))
    by = "in the order of their tasks" if scene.task_classes else "by number"
    by += ", separated by thin lines" if scene.task_classes and 1 < scene.tasks <= 10 else ""
    caption = (
        f"Predictions for the samples of each class in the last test: percent of a row, mean over seeds; classes {by}. "
        "The colour scale is stretched at its lower end, so that rare mistakes are visible."
    )
    return Section("Confusion", [Charts(caption, charts, small=True)]) if charts else None


def memories(scene: Scene) -> list[Chart]:
    """Draw memory by class and task end; one chart for all groups with the same contents."""
    found: list[tuple[list[str], Array]] = []
    for group in scene.drawn:
        tables = [np.array([test.memory for test in run.finished_tasks], dtype=np.float64) for run in group.runs]
        tables = [table for table in tables if table.size]
        if not tables:
            continue
        ends = min(map(len, tables))
        mean = np.mean([table[:ends] for table in tables], axis=0).T
        same = next((labels for labels, other in found if np.array_equal(other, mean)), None)
        if same is None:
            found.append(([group.label], mean))
        else:
            same.append(group.label)
    charts = []
    for labels, mean in found:
        named = len(scene.class_names) == len(mean) <= 20
        picture = heat_map(
            mean,
            rows=scene.class_names if named else [str(label) for label in range(len(mean))],
            columns=scene.task_ticks[: mean.shape[1]],
            xlabel="after task",
            ylabel="class",
            highest=None,
        )
        title = ", ".join(labels) if len(labels) <= 4 else f"{labels[0]} and {len(labels) - 1} others"
        charts.append(Chart(title, picture))
    return charts
