"""The sections of a report that are figures. Each is None if the runs recorded nothing for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from evenkeel.report.elements import Chart, Charts, Note, Section, minus, split
from evenkeel.report.figures import Heights, curves, heat_map, over_tasks
from evenkeel.report.scene import Array, Scene, Series, series, windows
from evenkeel.results import measures
from evenkeel.results.measures import Measure
from evenkeel.results.metrics import areas_by_task
from evenkeel.results.overview import groups_table
from evenkeel.results.records import Anytime, Tested
from evenkeel.results.run_files import Results
from evenkeel.results.table import ResultTable

BANDS = (
    "Bands: the 95% interval of the mean over seeds (Student's t), cut off at 0 and 100; with two "
    "seeds, their range; with one, none."
)
BARS = "Whiskers: the 95% interval of the mean over seeds, cut off at 0 and 100."


def accuracy_curves(scene: Scene) -> Section | None:
    charts = anytime_curves(scene)
    if charts is None:
        return None
    about = "ACC_AUC by task: the mean of the points recorded while this task was being learned, in percent."
    return Section("Accuracy over the stream", [charts, *_by_task(scene, about, scene.by_task(area))])


def anytime_curves(
    scene: Scene,
    of: Callable[[Anytime], float] = lambda point: point.mean,
    title: str = "Anytime accuracy over the stream",
    about: str = "Anytime accuracy: the mean accuracy on the tasks seen so far",
) -> Charts | None:
    """Draw what `of` takes from each point of the anytime curve."""
    lines = _lines(scene, lambda run: {point.step: of(point) for point in run.anytime})
    if not lines:
        return None
    lines = {label: line.within(0, 100) for label, line in lines.items()}
    caption = f"{about}, on a fixed sample of the test data. {BANDS} Dotted lines: ends of tasks."
    caption += f" Dashed: without {scene.adaptors}; solid: with." if scene.adaptors else ""
    return Charts(caption, [Chart(title, curves(scene, lines, "accuracy (%)", limits=(0, None)))])


def area(run: Results, task: int) -> float | None:
    """Return ACC_AUC while this task was being learned; None if it has no point."""
    during = [point.task for point in run.anytime]
    return areas_by_task([point.mean for point in run.anytime], during)[task] if task in during else None


def final_accuracy(scene: Scene) -> Section | None:
    by_task = scene.by_task(measures.final_accuracy)
    heights = _heights(scene, by_task)
    if not heights:
        return None
    caption = f"Accuracy on each task after the whole stream. {BARS if _whiskers(heights) else ''}"
    chart = Chart("Final accuracy on each task", over_tasks(scene, heights, "accuracy (%)"))
    about = "Final accuracy on each task, in numbers."
    return Section("Final accuracy by task", [Charts(caption, [chart]), *_by_task(scene, about, by_task)])


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
        svg = heat_map(
            mean,
            rows=scene.task_ticks[:rows],
            columns=scene.task_ticks,
            xlabel="accuracy on task",
            ylabel="after task",
            numbers=scene.tasks <= 10,
        )
        charts.append(Chart(group.label, svg))
    caption = (
        "Percent correct on each task (columns) after each task (rows), mean over seeds. Down a column, a task is "
        "forgotten; the diagonal shows how well it was learned."
    )
    return Section("Accuracy matrix", [Charts(caption, charts, small=True)]) if charts else None


def predictions(scene: Scene) -> Section | None:
    if scene.tasks == 1:
        return None
    title = "Predictions by task"
    tests = [run.finished_tasks[-1] for group in scene.finished.values() for run in group.runs if run.finished_tasks]
    if not tests:
        return None
    heights = _heights(scene, scene.by_task(predicted_share))
    if not heights:
        return Section(title, [Note("Tasks share their classes here, so a prediction does not belong to a task.")])
    last_shares = [f"{label} {each.mean[-1]:.1f}%" for label, each in heights.items()]
    fair = fair_shares(scene, tests)
    caption = (
        "Share of the test samples predicted as each task's classes, after the whole stream. The long marks are the "
        "true shares of the tasks: a last task far above its mark shows recency bias. "
        f"{BARS if _whiskers(heights) else ''}"
    )
    sentence = f"Predicted as the last task, whose fair share is {fair[-1]:.1f}%: {'; '.join(last_shares)}."
    chart = Chart("Share of predictions by task", over_tasks(scene, heights, "predictions (%)", fair=fair))
    return Section(title, [Charts(caption, [chart]), Note(sentence)])


def predicted_share(run: Results, task: int) -> float | None:
    """Return the percent of predictions that fall on this task in the last test, if they fall on tasks."""
    return run.finished_tasks[-1].predicted[task] if run.finished_tasks and run.finished_tasks[-1].predicted else None


def fair_shares(scene: Scene, tests: Sequence[Tested]) -> Array:
    """Return each task's share of the test samples in percent; equal shares if the tasks of classes are unknown."""
    counts = np.array(tests[0].confusion, dtype=np.float64).sum(axis=-1) if tests[0].confusion else np.zeros(0)
    if scene.task_classes is None or not counts.sum():
        return np.full(scene.tasks, 100 / scene.tasks)
    return np.array([100 * counts[task].sum() / counts.sum() for task in scene.task_classes])


def confusions(scene: Scene) -> Section | None:
    order = [label for task in scene.task_classes or () for label in task]
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
        places = order + [label for label in range(len(mean)) if label not in order]
        svg = heat_map(
            mean[np.ix_(places, places)],
            rows=[names[place] for place in places],
            columns=[names[place] for place in places],
            xlabel="predicted",
            ylabel="true class",
            gamma=0.5,
            borders=[int(end) for end in ends] if scene.tasks <= 10 else (),
        )
        charts.append(Chart(group.label, svg))
    by = "in the order of their tasks" if order else "by number"
    by += ", separated by thin lines" if order and 1 < scene.tasks <= 10 else ""
    caption = (
        f"Predictions for the samples of each class in the last test: percent of a row, mean over seeds; classes {by}. "
        "The colour scale is stretched at its lower end, so that rare mistakes are visible."
    )
    return Section("Confusion", [Charts(caption, charts, small=True)]) if charts else None


def alignment(scene: Scene) -> Section | None:
    raw = _lines(scene, lambda run: {point.step: point.cosine for point in run.aligned})
    if not raw:
        return None
    smooth, length = _smooth(raw, 30)
    svg = curves(scene, smooth, "cosine", behind={label: windows(line, 300)[0] for label, line in raw.items()}, level=0)
    over = f" and over {length} measurements; faint: single measurements" if length > 1 else ""
    means = "; ".join(f"{label} {minus(f'{line.mean.mean():+.2f}')}" for label, line in raw.items())
    caption = (
        "Cosine between the gradient that trains the network (with the adaptor, if there is one) and that of the "
        "plain loss on memory. Above 0, learning the new batch also helps on memory; CBA is meant to align the first "
        f"with the second (Theorem 1 of its paper). Mean over seeds{over}."
    )
    return Section("Gradient alignment", [Charts(caption, [Chart("Gradient alignment", svg)]), Note(f"Mean: {means}.")])


def training(scene: Scene) -> Section | None:
    """Show memory, prequential accuracy and loss."""
    parts: list[Charts] = []
    if stored := _memories(scene):
        caption = (
            "Samples in memory by class (rows) at the end of each task (columns), mean over seeds. "
            "Groups with the same memory share a figure."
        )
        parts.append(Charts(caption, stored, small=True))
    kinds: list[tuple[str, str, str, Callable[[Results], Mapping[int, float]]]] = [
        (
            "Prequential accuracy",
            "Percent of each incoming batch predicted correctly before it was learned.",
            "accuracy (%)",
            lambda run: {
                step.step: 100 * step.correct / step.samples for step in run.steps if step.correct is not None
            },
        ),
        (
            "Training loss",
            "The loss of each step as the method defines it, so it cannot be compared between methods.",
            "loss",
            lambda run: {step.step: step.loss for step in run.steps if step.loss is not None},
        ),
    ]
    for title, caption, ylabel, points in kinds:
        if lines := _lines(scene, points):
            smooth, length = _smooth(lines, 60)
            over = f"Mean over seeds and over {length} steps." if length > 1 else "Mean over seeds."
            svg = curves(scene, smooth, ylabel, limits=(0, None))
            parts.append(Charts(f"{title}. {caption} {over}", [Chart(title, svg)]))
    return Section("Memory and training", parts) if parts else None


def _memories(scene: Scene) -> list[Chart]:
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
        svg = heat_map(
            mean,
            rows=scene.class_names if named else [str(label) for label in range(len(mean))],
            columns=scene.task_ticks[: mean.shape[1]],
            xlabel="after task",
            ylabel="class",
            highest=None,
        )
        charts.append(Chart(", ".join(labels), svg))
    return charts


def _lines(scene: Scene, points: Callable[[Results], Mapping[int, float]]) -> dict[str, Series]:
    return {group.label: line for group in scene.drawn if (line := series(group.runs, points))}


def _smooth(lines: Mapping[str, Series], most: int) -> tuple[dict[str, Series], int]:
    """Return all lines averaged over windows, and the length of the longest window."""
    done = {label: windows(line, most) for label, line in lines.items()}
    return {label: line for label, (line, _) in done.items()}, max(length for _, length in done.values())


def _heights(scene: Scene, by_task: Sequence[Measure]) -> dict[str, Heights]:
    """Return mean and interval of each task, for the groups that have any."""
    estimates = {label: [group.estimate(each) for each in by_task] for label, group in scene.finished.items()}
    return {label: Heights.of(known) for label, each in estimates.items() if (known := [e for e in each if e])}


def _whiskers(heights: Mapping[str, Heights]) -> bool:
    return any(each.half.any() for each in heights.values())


def _by_task(scene: Scene, title: str, by_task: Sequence[Measure]) -> list[ResultTable]:
    """Return tasks as rows and groups as columns, from finished runs only, as in every table."""
    table = groups_table(list(scene.finished.values()), by_task, title, sides=()).transposed("task")
    return split(replace(table, folded=len(by_task) > 10))
