"""Figures of the paper: curves and tables checked by hand, the runs they need, and self-contained pages."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from evenkeel.errors import RunError, SettingsError
from evenkeel.report import charts
from evenkeel.report.elements import Charts, Note, PageBlock, number, shown
from evenkeel.report.figures import curves
from evenkeel.report.paper_figures import FIGURES, write_figure
from evenkeel.report.scene import Scene, Series
from evenkeel.report.svg import Picture
from evenkeel.results.groups import gain, paired
from evenkeel.results.measures import MEASURES
from evenkeel.results.records import Anytime
from evenkeel.results.run_files import Results
from evenkeel.results.table import ResultTable
from tests.helpers.runs import make_run, make_runs

CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FROG_FIRST, SHIP_FIRST = "{frog, horse} then {ship, truck}", "{ship, truck} then {frog, horse}"
T_975 = 4.302652730  # Student's t, 97.5%, 2 degrees of freedom, from a table


def _swapped(run: Results, one: int = 3, other: int = 4) -> Results:
    """Return the same numbers from a stream in which these two tasks are swapped."""
    tasks: list[Mapping[str, Any]] = list(run.started.tasks)
    names = run.started.data["classes"]
    tasks[one], tasks[other] = (
        {**tasks[mine], "classes": tasks[its]["classes"]} for mine, its in ((one, other), (other, one))
    )
    scenario = {"name": "disjoint", "tasks": [[names[label] for label in task["classes"]] for task in tasks]}
    config = {**run.started.config, "scenario": scenario}
    return replace(run, started=replace(run.started, config=config, tasks=tasks, stream="ffff" * 8))


def _ended_at(run: Results, accuracy: float) -> Results:
    """Return the same run with another accuracy on the first task at the last point."""
    *points, last = run.anytime
    return replace(run, anytime=[*points, replace(last, accuracy=[accuracy, *last.accuracy[1:]])])


FROGS = [make_run(seed=seed, class_names=CIFAR10) for seed in range(3)]
SHIPS = [_ended_at(_swapped(run), 3.0 + run.seed) for run in FROGS]
BOTH = make_runs(3, ["ER"], class_names=CIFAR10)
RUNS = {"figure1": [*FROGS, *SHIPS], "figure3": BOTH, "figure4": BOTH}
ER, CBA = BOTH[:3], BOTH[3:]


def _shown(name: str, runs: Sequence[Results]) -> PageBlock:
    return FIGURES[name].show(Scene(list(runs)))


def _tables(block: PageBlock) -> list[dict[str, list[str]]]:
    """Return the texts of each row by its head; the first row holds the columns."""
    parts = [part for section in block.sections for part in section.parts if isinstance(part, ResultTable)]
    return [
        {"": part.columns[1:]} | {head: cells for head, *cells in ([*map(shown, row.cells)] for row in part.rows)}
        for part in parts
    ]


def _number(values: Sequence[float], *, signed: bool = False) -> str:
    """Return mean and half interval of three values."""
    mean = fmean(values)
    sign = "+" if signed and abs(mean) >= 0.05 else ""
    return f"{mean:{sign}.1f} ± {T_975 * stdev(values) / 3**0.5:.1f}".replace("-", "\u2212")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Series]:
    """Collect the lines of the curves that are drawn."""
    found: dict[str, Series] = {}

    def watched(scene: Scene, lines: Mapping[str, Series], ylabel: str, **how: Any) -> Picture:
        found.update(lines)
        return curves(scene, lines, ylabel, **how)

    monkeypatch.setattr(charts, "curves", watched)
    return found


def test_figure_1_follows_the_first_task(drawn: dict[str, Series]) -> None:
    block = _shown("figure1", RUNS["figure1"])
    assert list(drawn) == [f"ER: {FROG_FIRST}", f"ER: {SHIP_FIRST}"]
    for line, runs in zip(drawn.values(), (FROGS, SHIPS), strict=True):
        assert line.x.tolist() == [point.step for point in runs[0].anytime]
        for place, mean in enumerate(line.mean):
            assert mean == pytest.approx(fmean(run.anytime[place].accuracy[0] for run in runs))
    (said,) = block.findings
    assert said.startswith("Accuracy on the classes of the first task, {airplane, automobile}, ")
    assert said.endswith("in orders that differ in tasks 4 and 5; mean over 3 seeds.")


def test_figure_1_in_numbers() -> None:
    (table,) = _tables(_shown("figure1", RUNS["figure1"]))
    for task in range(5):
        means = [fmean(point.accuracy[0] for point in run.anytime if point.task == task) for run in RUNS["figure1"]]
        assert table[f"ER: {FROG_FIRST}"][task] == _number(means[:3])
        assert table[f"ER: {SHIP_FIRST}"][task] == _number(means[3:])
        changes = [after - before for before, after in zip(means[:3], means[3:], strict=True)]
        assert table["difference from the first order, paired by seed"][task] == _number(changes, signed=True)
    assert table["difference from the first order, paired by seed"][:4] == ["0.0 ± 0.0"] * 4


def test_figure_1_distinguishes_methods_and_orders(drawn: dict[str, Series]) -> None:
    small = {"capacity": 50, "policy": "reservoir"}
    runs = [make_run(class_names=CIFAR10), make_run(class_names=CIFAR10, memory=small)]
    adapted = make_run("ER + CBA", adaptor=True, class_names=CIFAR10)
    block = _shown("figure1", [*runs, *map(_swapped, runs), _swapped(adapted)])
    assert list(drawn) == [
        *(f"ER (memory 200): {FROG_FIRST}", f"ER (memory 50): {FROG_FIRST}"),
        *(f"ER (memory 200): {SHIP_FIRST}", f"ER (memory 50): {SHIP_FIRST}"),
        f"ER + CBA: {SHIP_FIRST}",
    ]
    part = next(part for part in block.sections[0].parts if isinstance(part, ResultTable))
    assert [row.bold for row in part.rows] == [False, False, False, True, False, True, False]
    assert "a single seed" in block.findings[0]


def test_figure_1_gives_one_name_to_groups_that_differ_only_in_order() -> None:
    """Such as presets, whose names already include the order; whichever comes first."""
    named = [_named(run, "ER, tasks 4 and 5 swapped") for run in SHIPS]
    expected = _tables(_shown("figure1", [*SHIPS, *FROGS]))
    assert _tables(_shown("figure1", [*named, *FROGS])) == expected


def test_figure_1_does_not_compare_before_and_after_an_edit_of_own_code() -> None:
    versions = {**FROGS[0].started.versions, "mine:Own": "sha256 aa of mine.py"}
    edited = [replace(run, started=replace(run.started, versions=versions)) for run in FROGS]
    (table,) = _tables(_shown("figure1", [*edited, *SHIPS]))
    assert list(table) == ["", f"ER: {FROG_FIRST}", f"ER: {SHIP_FIRST}"]  # without their difference


def _named(run: Results, name: str) -> Results:
    return replace(run, started=replace(run.started, config={**run.started.config, "name": name}))


def test_figure_1_with_many_classes() -> None:
    """Labels name only the first classes if that distinguishes the orders."""
    run = make_run(classes=20)
    (table,) = _tables(_shown("figure1", [run, _swapped(run)]))
    assert "ER: {class 12, class 13, …} then {class 16, class 17, …}" in table
    *tasks, last = run.started.tasks
    other = replace(run, started=replace(run.started, tasks=[*tasks, {**last, "classes": [16, 17, 0, 1]}]))
    (table,) = _tables(_shown("figure1", [run, other]))
    assert "ER: {class 16, class 17, class 0, class 1}" in table


def test_figure_1_marks_the_ends_of_tasks() -> None:
    assert Scene(RUNS["figure1"]).boundaries == [40, 80, 120, 160, 200]
    (part,) = (part for part in _shown("figure1", RUNS["figure1"]).sections[0].parts if isinstance(part, Charts))
    assert part.charts[0].picture.svg.count("stroke-dasharray: 0.6,1.2") == 4


def test_figure_3_in_numbers() -> None:
    block = _shown("figure3", BOTH)
    shares, *between = _tables(block)
    for task in range(5):
        plain, adapted = ([run.tested[-1].predicted[task] for run in runs] for runs in (ER, CBA))
        assert shares["ER"][task] == _number(plain)
        assert shares["ER + CBA"][task] == _number(adapted)
        changes = [after - before for before, after in zip(plain, adapted, strict=True)]
        assert shares["change by CBA, paired"][task] == _number(changes, signed=True)
    counts = np.array(ER[0].tested[-1].confusion)
    assert shares["fair share"] == [
        f"{100 * counts[2 * task : 2 * task + 2].sum() / counts.sum():.1f}" for task in range(5)
    ]
    for table, runs in zip(between, (ER, CBA), strict=True):
        for true in range(5):
            assert table[f"task {true}"] == [f"{_taken(runs, true, taken):.1f}" for taken in range(5)]


def _taken(runs: Sequence[Results], true: int, taken: int) -> float:
    """Return the percent of the samples of one task predicted as another, mean over runs, sample by sample."""
    found = []
    for run in runs:
        right = total = 0
        for label, row in enumerate(run.tested[-1].confusion):
            for guess, count in enumerate(row):
                total += count * (label // 2 == true)
                right += count * (label // 2 == true) * (guess // 2 == taken)
        found.append(100 * right / total)
    return fmean(found)


def test_figure_3_has_the_letters_of_the_paper() -> None:
    block = _shown("figure3", BOTH)
    assert [each.title for each in block.sections] == [
        *("(a) Predictions by task", "(b) and (c) Confusion", "What was compared", "Every run"),
    ]
    charts = [part.charts for each in block.sections for part in each.parts if isinstance(part, Charts)]
    assert [[chart.title for chart in each] for each in charts] == [
        ["Share of predictions by task at the end"],
        ["(b) ER", "(c) ER + CBA"],
    ]


def test_figure_4_in_numbers(drawn: dict[str, Series]) -> None:
    block = _shown("figure4", BOTH)
    for label, runs in (("ER", ER), ("ER + CBA", CBA)):
        for place, mean in enumerate(drawn[label].mean):
            assert mean == pytest.approx(fmean(fmean(run.anytime[place].accuracy) for run in runs))
    (table,) = _tables(block)
    assert table[""] == [*(f"task {task}" for task in range(5)), "whole stream"]
    for place in range(6):
        plain, adapted = ([_area(run, place) for run in runs] for runs in (ER, CBA))
        assert table["ER"][place] == _number(plain)
        assert table["ER + CBA"][place] == _number(adapted)
        changes = [after - before for before, after in zip(plain, adapted, strict=True)]
        assert table["gain by CBA, paired"][place] == _number(changes, signed=True)
    ((without, with_),) = Scene(BOTH).pairs
    found = gain(MEASURES["acc_auc"], paired(without, with_))
    assert found is not None
    assert table["gain by CBA, paired"][5] == number(found, signed=True)
    assert block.findings[0].endswith("mean over 3 seeds.")
    assert block.findings[1].startswith(f"CBA changed ACC_AUC by {table['gain by CBA, paired'][5]} for ER")


def _area(run: Results, task: int) -> float:
    """Return ACC_AUC of one task; 5 stands for all tasks."""
    points = [sum(point.accuracy) / len(point.accuracy) for point in run.anytime if task in (point.task, 5)]
    return sum(points) / len(points)


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize(("seeds", "expected"), [(1, "1 seed."), (2, "(both values)."), (3, "95% interval.")])
def test_a_caption_speaks_of_intervals_only_where_there_are_any(name: str, seeds: int, expected: str) -> None:
    block = _shown(name, [run for run in RUNS[name] if run.seed < seeds])
    table = next(part for section in block.sections for part in section.parts if isinstance(part, ResultTable))
    assert table.title.endswith(expected)


def test_areas_by_hand() -> None:
    """The mean within each task, over the tasks seen by then; the whole stream by points, not by tasks."""
    accuracies = [(0, [10.0]), (0, [30.0]), (0, [50.0]), (2, [20.0, 40.0, 60.0])]
    points = [Anytime(5 * place, task, accuracy, []) for place, (task, accuracy) in enumerate(accuracies)]
    (table,) = _tables(_shown("figure4", [replace(make_run(tasks=3, classes=3), anytime=points)]))
    assert table["ER"] == ["30.0", "\u2013", "40.0", "32.5"]


def test_gains_are_of_the_same_stream_and_seed() -> None:
    other = replace(CBA[1], started=replace(CBA[1].started, stream="other"))
    (table,) = _tables(_shown("figure4", [*ER, CBA[0], other]))
    change = _area(CBA[0], 5) - _area(ER[0], 5)
    assert table["gain by CBA, paired"][5] == f"{change:+.1f}"
    (table,) = _tables(_shown("figure4", [*ER, other]))
    assert table["gain by CBA, paired"] == ["\u2013"] * 6
    assert "mean over 1 to 3 seeds" in _shown("figure4", [*ER, other]).findings[0]


def test_unfinished_runs_are_in_no_table() -> None:
    (before,), (after,) = (_tables(_shown("figure4", runs)) for runs in (BOTH, [*BOTH, make_run(seed=9, stop=130)]))
    assert {name: row for name, row in after.items() if name} == {name: row for name, row in before.items() if name}


@pytest.mark.parametrize("name", FIGURES)
def test_pages_are_self_contained(name: str, tmp_path: Path) -> None:
    path = tmp_path / "new folder" / f"{name}.html"
    write_figure(name, RUNS[name], path)
    html = path.read_text()
    assert re.findall(r"https?:|//www|@import", html.replace("http://www.w3.org/2000/svg", "")) == []
    links = re.findall(r'(?:href|src)="([^"]*)"', html)
    assert all(link.startswith(("#", "data:image/png")) for link in links)
    ids = re.findall(r' id="([^"]*)"', html)
    assert len(set(ids)) == len(ids)
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert f"<h1>{FIGURES[name].name}: {FIGURES[name].title}</h1>" in html
    pictures = sorted(path.parent.glob("*.svg"))
    letters = "abc" if name == "figure3" else [""]
    assert [each.name for each in pictures] == [f"{name}{letter}.svg" for letter in letters]
    for picture in pictures:
        assert ET.parse(picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"
        assert "http" not in re.sub(r'(xmlns(:\w+)?=|PUBLIC "[^"]*"\s*|rdf:\w+=)"[^"]*"', "", picture.read_text())
    before = [each.read_bytes() for each in (path, *pictures)]
    write_figure(name, RUNS[name], path)
    assert [each.read_bytes() for each in (path, *pictures)] == before


def test_names_cannot_inject_scripts(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    runs = [make_run(f"{evil}{seed}", class_names=[evil, *CIFAR10[1:9], evil * 9], data=evil) for seed in range(2)]
    for name, given in {"figure1": [*runs, *map(_swapped, runs)], "figure3": runs, "figure4": runs}.items():
        write_figure(name, given, tmp_path / "page.html")
        assert "<script>alert" not in "".join(path.read_text() for path in tmp_path.iterdir())


@pytest.mark.parametrize("name", ["figure1", "figure4"])
def test_without_a_curve(name: str, tmp_path: Path) -> None:
    first, *others = RUNS[name]
    with pytest.raises(RunError, match=r"do not have: ER, seed 0\. Run them with evaluation\.every=5"):
        write_figure(name, [replace(first, anytime=[]), *others], tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_figure_3_needs_no_curve(tmp_path: Path) -> None:
    write_figure("figure3", [replace(run, anytime=[]) for run in BOTH], tmp_path / "page.html")


WRONG: dict[str, tuple[str, list[Results], str]] = {
    "none": ("figure4", [], "no runs were given"),
    "unfinished": ("figure4", [make_run(stop=90)], "none of these runs is finished"),
    "two-scenarios": (
        "figure4",
        RUNS["figure1"],
        r"one data set and scenario, and .* 2: digits, disjoint \(tasks: 5\);",
    ),
    "two-data-sets": ("figure1", [make_run(), make_run(data="other")], "one data set"),
    "two-digests": ("figure4", [make_run(), make_run(class_names=CIFAR10)], r"5\), which differ in the data itself\."),
    "one-order": ("figure1", FROGS, "all have the same one: set scenario.tasks or scenario.order"),
    "other-first-task": (
        "figure1",
        [*FROGS, _swapped(FROGS[0], 0, 1)],
        "the same in all runs; here it is {airplane, automobile} or {bird, cat}",
    ),
    "domains": ("figure3", [make_run(domains=True)], "each with classes of its own"),
    "one-task": ("figure3", [make_run(tasks=1)], "more than one task"),
    "no-test": ("figure3", [*ER, replace(make_run(seed=7, class_names=CIFAR10), tested=[])], "must have test data"),
}


@pytest.mark.parametrize("which", WRONG)
def test_unsuitable_runs(which: str, tmp_path: Path) -> None:
    name, runs, message = WRONG[which]
    with pytest.raises(RunError, match=message):
        write_figure(name, runs, tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_other_names(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="figure='figure2' is not one of 'figure1', 'figure3', 'figure4'"):
        write_figure("figure2", BOTH, tmp_path / "page.html")
    with pytest.raises(RunError, match=r"Cannot write the figure to .*: it is a folder"):
        write_figure("figure4", BOTH, tmp_path)


def test_longer_streams_fit_on_paper() -> None:
    """Ten tasks and the whole stream are more columns than fit on a sheet."""
    tables = _tables(_shown("figure4", make_runs(2, ["ER"], tasks=10)))
    assert [len(table[""]) for table in tables] == [6, 5]
    assert [name for table in tables for name in table[""]][-1] == "whole stream"
    note = _shown("figure4", BOTH).sections[0].parts[-1]
    assert isinstance(note, Note)
    assert "a sum" in note.text
