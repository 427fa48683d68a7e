"""The sections of a report that are curves and bars. Each is None if the runs recorded nothing for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from evenkeel.report.charts import BANDS, about_whiskers, each_or_ends, heights_of, line_charts, lines_of
from evenkeel.report.elements import WIDEST, Chart, Charts, Note, Section, split
from evenkeel.report.figures import ByName, by_name
from evenkeel.report.matrices import memories
from evenkeel.report.scene import Scene, Series, windows
from evenkeel.results import measures
from evenkeel.results.measures import Measure
from evenkeel.results.metrics import areas_by_task
from evenkeel.results.overview import groups_table
from evenkeel.results.records import Anytime
from evenkeel.results.run_files import Results
from evenkeel.results.table import ResultTable


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
    lines = lines_of(scene, lambda run: {point.step: of(point) for point in run.anytime})
    if not lines:
        return None
    lines = {label: line.within(0, 100) for label, line in lines.items()}
    sizes = {run.started.config["evaluation"].get("sample") for run in scene.runs}
    size = sizes.pop() if len(sizes) == 1 else None
    sample = f"a fixed sample of {size:,} test samples" if isinstance(size, int) else "a fixed sample of the test data"
    caption = f"{about}, on {sample}. {BANDS} Dotted lines: ends of tasks."
    caption += f" Dashed: without {scene.adaptors}; solid: with." if scene.adaptors else ""
    return replace(line_charts(scene, title, lines, "accuracy (%)", limits=(0, None)), caption=caption)


def area(run: Results, task: int) -> float | None:
    """Return ACC_AUC while this task was being learned; None if it has no point."""
    during = [point.task for point in run.anytime]
    return areas_by_task([point.mean for point in run.anytime], during)[task] if task in during else None


def final_accuracy(scene: Scene) -> Section | None:
    by_task = scene.by_task(measures.final_accuracy)
    heights = heights_of(scene, by_task)
    if not heights:
        return None
    picture = by_name(scene.looks, ByName(heights, scene.task_ticks, "task", "accuracy (%)", percent=True))
    caption = f"Accuracy on each task after the whole stream, in percent. {about_whiskers(picture, heights)}".strip()
    chart = Chart("Final accuracy on each task", picture)
    about = "Final accuracy on each task, in numbers."
    return Section("Final accuracy by task", [Charts(caption, [chart]), *_by_task(scene, about, by_task)])


def alignment(scene: Scene) -> Section | None:
    raw = lines_of(scene, lambda run: {point.step: point.cosine for point in run.aligned})
    if not raw:
        return None
    smooth, length = _smooth(raw, 30)
    behind = {label: windows(line, 300)[0] for label, line in raw.items()}
    charts = line_charts(scene, "Gradient alignment", smooth, "cosine", behind=behind, level=0)
    over = f" and over {length} measurements; faint: single measurements" if length > 1 else ""
    means = each_or_ends({label: float(line.mean.mean()) for label, line in raw.items()}, "+.2f")
    caption = (
        "Cosine between the gradient that trains the network (with the adaptor, if there is one) and that of the "
        "plain loss on memory. Above 0, learning the new batch also helps on memory; CBA is meant to align the first "
        f"with the second (Theorem 1 of its paper). Mean over seeds{over}."
    )
    return Section("Gradient alignment", [replace(charts, caption=caption), Note(f"Mean: {means}.")])


def training(scene: Scene) -> Section | None:
    """Show memory, prequential accuracy and loss."""
    parts: list[Charts] = []
    if stored := memories(scene):
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
        if lines := lines_of(scene, points):
            smooth, length = _smooth(lines, 60)
            over = f"Mean over seeds and over {length} steps." if length > 1 else "Mean over seeds."
            charts = line_charts(scene, title, smooth, ylabel, limits=(0, None))
            parts.append(replace(charts, caption=f"{title}. {caption} {over}"))
    return Section("Memory and training", parts) if parts else None


def _smooth(lines: Mapping[str, Series], most: int) -> tuple[dict[str, Series], int]:
    """Return all lines averaged over windows, and the length of the longest window."""
    done = {label: windows(line, most) for label, line in lines.items()}
    return {label: line for label, (line, _) in done.items()}, max(length for _, length in done.values())


def _by_task(scene: Scene, title: str, by_task: Sequence[Measure]) -> list[ResultTable]:
    """Return tasks as rows and groups as columns, or the reverse if that is narrower, from finished runs only."""
    table = groups_table(list(scene.finished.values()), by_task, title, sides=())
    if len(table.rows) <= max(WIDEST, len(by_task)):
        table = table.transposed("task")
    return split(replace(table, folded=len(table.rows) > 10))
