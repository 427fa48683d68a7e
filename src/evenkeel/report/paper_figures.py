"""Figures of the CBA paper from your own runs, each as one HTML page with its pictures as SVG files next to it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from string import ascii_lowercase

import numpy as np

from evenkeel.errors import RunError, one_of
from evenkeel.report import bias, comparison, matrices, sections
from evenkeel.report.answer import findings, listed
from evenkeel.report.elements import Charts, Note, PageBlock, Section, split
from evenkeel.report.order_scene import ORDER, Orders, class_set
from evenkeel.report.page import render, save
from evenkeel.report.scene import Scene, scenes
from evenkeel.results.groups import benchmark, seeds_text
from evenkeel.results.measures import MEASURES
from evenkeel.results.overview import caption, groups_table
from evenkeel.results.run_files import Results
from evenkeel.results.table import ResultTable, Row


@dataclass(frozen=True)
class PaperFigure:
    name: str  # in the paper
    title: str
    show: Callable[[Scene], PageBlock]
    from_curve: bool = False  # needs points of the anytime curve
    compares: tuple[str, ...] = ()  # scenario settings that may differ here; for other figures they must be equal


def write_figure(name: str, runs: Sequence[Results], path: Path) -> None:
    """Draw the paper's figure `name` (see `FIGURES`) from `runs` in one HTML file at `path`.

    Next to figure4.html goes figure4.svg, and next to figure3.html go figure3a.svg, figure3b.svg and figure3c.svg.
    """
    one_of("figure", name, FIGURES)
    figure = FIGURES[name]
    block = figure.show(_scene(figure, runs))
    save(render(f"{figure.name}: {figure.title}", [block]), path, "figure")
    parts = [part for section in block.sections for part in section.parts if isinstance(part, Charts)]
    charts = [chart for part in parts for chart in part.charts]
    for place, chart in enumerate(charts):
        letter = _letter(place) if len(charts) > 1 else ""
        save(chart.picture.svg, path.with_name(f"{path.stem}{letter}.svg"), "figure")


def _scene(figure: PaperFigure, runs: Sequence[Results]) -> Scene:
    """Return the scene of all runs; raise RunError if the figure cannot be drawn from them."""
    found = scenes(runs, apart_from=figure.compares)
    if not found:
        raise RunError(f"Cannot draw {figure.name}: no runs were given.")
    if len(found) > 1:
        names = [benchmark(scene.first, full=True) for scene in found]
        listed = "; ".join(dict.fromkeys(names))
        listed += ", which differ in the data itself" if len(set(names)) < len(names) else ""
        raise RunError(f"{figure.name} shows one data set and scenario, and these runs have {len(found)}: {listed}.")
    (scene,) = found
    if not scene.finished:
        raise RunError(f"Cannot draw {figure.name} yet: none of these runs is finished.")
    bare = [f"{run.label}, seed {run.seed}" for run in scene.runs if run.ended and not run.anytime]
    if figure.from_curve and bare:
        raise RunError(
            f"{figure.name} is drawn from the anytime curve, which these runs do not have: {'; '.join(bare)}. "
            "Run them with evaluation.every=5, or another number of steps above 0."
        )
    return scene


def first_task(scene: Scene) -> PageBlock:
    """Show Figure 1: what is learned later changes the first task's accuracy, though its labels are equally rare."""
    scene = orders = Orders(scene.runs)
    if not orders.changed:
        raise RunError(
            "Figure 1 compares two orders of the tasks, and these runs all have the same one: "
            "set scenario.tasks or scenario.order differently in some of them."
        )
    if 0 in orders.changed:
        first = " or ".join(sorted({class_set(run, 0) for run in scene.runs}))
        raise RunError(f"Figure 1 follows the first task, which must be the same in all runs; here it is {first}.")
    classes, places = class_set(scene.first, 0), [str(place + 1) for place in orders.changed]
    said = (
        f"Accuracy on the classes of the first task, {classes}, while later ones are learned, in orders that differ in "
        f"tasks {listed(places)}; {_seeds(scene)}."
    )
    charts = sections.anytime_curves(
        scene,
        lambda point: point.accuracy[0],
        "Accuracy on the first task over the stream",
        f"Accuracy on the test samples of {classes}, where the outputs of all classes compete",
    )

    def within(run: Results, task: int) -> float | None:  # single points jump
        known = [point.accuracy[0] for point in run.anytime if point.task == task]
        return fmean(known) if known else None

    members = list(scene.finished.values())
    table = groups_table(
        members,
        scene.by_task(within),
        f"The mean of each curve within each task. {caption(members)}.",
        sides=orders.swaps,
        difference="difference from the first order, paired by seed",
        key=lambda run: run.seed,
    )
    return _block(scene, [said], Section("Accuracy on the first task", [*_some(charts), *split(table)]))


def recency(scene: Scene) -> PageBlock:
    """Show Figure 3: the tasks and classes predicted for the test samples at the end."""
    runs = [run for group in scene.finished.values() for run in group.runs]
    final = [run.finished_tasks[-1] for run in runs if run.finished_tasks]
    shares, confusion = bias.tilt(scene), matrices.confusions(scene)
    if len(final) < len(runs) or not all(test.predicted for test in final) or shares is None or confusion is None:
        raise RunError(
            "Figure 3 shows which task the predictions fall on: its runs must have test data, and more than one task, "
            "each with classes of its own."
        )
    said = (
        "After the last task: the share of test samples predicted as each task, next to the true share of the task, "
        f"and the predictions for the samples of each class; {_seeds(scene)}."
    )

    members = list(scene.finished.values())
    table = groups_table(
        members,
        scene.by_task(bias.predicted_share),
        f"Share of the predictions by task. {caption(members)}.",
        difference="change by {adaptor}, paired",  # a share should be fair, not high
    )
    fair = Row.of("fair share", *map(float, bias.fair_shares(scene)))
    table = replace(table, rows=[*table.rows, fair])
    (charts,) = (part for part in confusion.parts if isinstance(part, Charts))
    letters = [f"({_letter(place)})" for place in range(1, len(charts.charts) + 1)]
    lettered = [
        replace(chart, title=f"{letter} {chart.title}") for letter, chart in zip(letters, charts.charts, strict=True)
    ]
    return _block(
        scene,
        [said],
        Section("(a) Predictions by task", [shares, *split(table)]),
        Section(
            f"{listed(letters)} {confusion.title}",
            [replace(charts, charts=lettered), *_between_tasks(scene)],
        ),
    )


def _between_tasks(scene: Scene) -> list[ResultTable]:
    """Return the confusion matrices in numbers, by task: by class they could be hundreds of columns wide."""
    tables = []
    for group in scene.finished.values():
        percents = []
        for run in group.runs:
            counts = np.array(run.finished_tasks[-1].confusion, dtype=np.float64)
            tasks = [task["classes"] for task in run.started.tasks]
            summed = np.array([[counts[np.ix_(true, taken)].sum() for taken in tasks] for true in tasks])
            percents.append(100 * summed / np.maximum(summed.sum(axis=1, keepdims=True), 1))
        rows = [
            Row.of(name, *map(float, shares))
            for name, shares in zip(scene.task_names, np.mean(percents, axis=0), strict=True)
        ]
        title = (
            f"{group.label}: percent of the test samples of each task (rows) predicted as each task (columns), "
            "mean over seeds."
        )
        tables.append(ResultTable(title, ["", *scene.task_names], rows, folded=len(rows) > 10))
    return tables


def average_accuracy(scene: Scene) -> PageBlock:
    """Show Figure 4: the whole curve, not only its end."""
    said = f"Average accuracy on the tasks seen so far, throughout training; {_seeds(scene)}."

    area, whole = MEASURES["acc_auc"], "whole stream"
    by_task = [*scene.by_task(sections.area), replace(area, title=whole, higher_is_better=None)]
    members = list(scene.finished.values())
    title = f"ACC_AUC of each task and of the whole stream: the mean of the curve's points in it. {caption(members)}."
    table = groups_table(members, by_task, title)
    formula = Note(
        "The paper's formula is a sum of points times the steps between them: about this mean times all steps."
    )
    outcome = findings(scene, [area]) if scene.pairs else []
    charts = _some(sections.anytime_curves(scene))
    return _block(
        scene, [said, *outcome], Section("Average accuracy over the stream", [*charts, *split(table), formula])
    )


def _block(scene: Scene, said: list[str], *shown: Section) -> PageBlock:
    """Return a block that ends with what it takes to repeat the runs."""
    return PageBlock(
        benchmark(scene.first), said, [*shown, comparison.what_was_compared(scene), comparison.every_run(scene)]
    )


def _seeds(scene: Scene) -> str:
    """Return the number of seeds, as in 'mean over 5 seeds'."""
    counts = [len(group.runs) for group in scene.finished.values()]
    return f"mean over {seeds_text(counts)}" if max(counts) > 1 else "a single seed"


def _some(charts: Charts | None) -> list[Charts]:
    return [] if charts is None else [charts]


def _letter(place: int) -> str:
    return ascii_lowercase[place] if place < len(ascii_lowercase) else str(place + 1)


FIGURES: dict[str, PaperFigure] = {
    "figure1": PaperFigure(
        "Figure 1",
        "accuracy on the first task, by the order of later ones",
        first_task,
        from_curve=True,
        compares=ORDER,
    ),
    "figure3": PaperFigure("Figure 3", "what test samples are predicted as", recency),
    "figure4": PaperFigure("Figure 4", "accuracy throughout training", average_accuracy, from_curve=True),
}
