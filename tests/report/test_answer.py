"""The first screen: one sentence, the tilt and the gain; and the figures about forgetting and bias."""

import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenkeel.report import bias
from evenkeel.report.answer import answer, findings
from evenkeel.report.charts import each_or_ends
from evenkeel.report.elements import BigNumber, Charts, Part, Section
from evenkeel.report.figures import Heights, _whiskers
from evenkeel.report.page import write_report
from evenkeel.report.scene import Scene
from evenkeel.report.sections import accuracy_curves, final_accuracy
from evenkeel.results.groups import gain, paired
from evenkeel.results.measures import MEASURES
from evenkeel.results.run_files import Results
from tests.helpers.runs import make_run, make_runs


def _values(charts: object) -> dict[str, Any]:
    assert isinstance(charts, Charts)
    return dict(charts.charts[0].picture.values)


def _parts(section: Section | None) -> Sequence[Part]:
    assert section is not None
    return section.parts


def _with_acc(run: Results, acc: float) -> Results:
    return replace(run, tested=[*run.tested[:-1], replace(run.tested[-1], accuracy=[acc] * len(run.started.tasks))])


def _grid(*changes: list[float]) -> list[Results]:
    """Return ER with memories of several sizes, without and with CBA, which changes ACC by so much for each seed."""
    runs = []
    for size, each in enumerate(changes):
        memory = {"capacity": 100 * (size + 1), "policy": "reservoir"}
        for seed, change in enumerate(each):
            runs.append(_with_acc(make_run(seed=seed, memory=memory), 50.0))
            adapted = make_run("ER + CBA", seed=seed, memory=memory, adaptor=True, method={"name": "ER"})
            runs.append(_with_acc(adapted, 50.0 + change))
    return runs


def test_the_first_screen_has_the_tilt_and_the_gain() -> None:
    runs = make_runs(3, ["ER"])
    scene = Scene(runs)
    tilt, number = answer(scene)
    values = _values(tilt)
    assert [line["name"] for line in values["lines"]] == ["ER", "ER + CBA", "fair share"]
    expected = np.mean([run.tested[-1].predicted for run in runs[:3]], axis=0)
    assert values["lines"][0]["mean"] == pytest.approx(expected.tolist(), rel=1e-3)
    assert sum(values["lines"][2]["mean"]) == pytest.approx(100, abs=0.1)
    assert isinstance(number, BigNumber)
    found = gain(MEASURES["acc"], paired(*scene.pairs[0]))
    assert found is not None
    assert number.value == f"{found.mean:+.1f} ± {found.half:.1f}"
    assert f"ACC by {number.value}" in findings(scene, scene.headline)[0]  # the sentence and the number agree


def test_two_seeds_show_their_values_and_no_verdict() -> None:
    scene = Scene(_grid([1.0, 4.0]))
    (sentence,) = findings(scene, [MEASURES["acc"]])
    assert sentence.startswith("CBA changed ACC by +2.5 (+1.0, +4.0) for ER")
    assert sentence.endswith("(2 seeds); two seeds cannot show whether this is significant.")
    assert isinstance(number := answer(scene)[-1], BigNumber)
    assert (number.value, number.about.split("; ")[-1]) == ("+2.5 (+1.0, +4.0)", "2 seeds, no interval")


def test_several_settings_have_one_sentence_and_one_picture() -> None:
    scene = Scene(_grid([5.0, 5.5, 6.0], [-8.0, -8.1, -8.2], [1.0, -2.0, 3.0], [9.0]))
    assert findings(scene, scene.headline) == [
        "CBA changed ACC by \u22128.1 to +9.0 in 4 comparisons: significantly better in 1, significantly worse in 1, "
        "no significant change in 1, too few seeds to tell in 1 (paired t-tests at 5% with Holm's correction)."
    ]
    values = _values(answer(scene)[-1])
    assert values["lines"][0]["mean"] == pytest.approx([5.5, -8.1, 2 / 3, 9.0], rel=1e-3)
    assert values["lines"][0]["low"][3] is None
    assert all("memory" in name for name in values["names"])


def test_many_comparisons_are_corrected_for_their_number() -> None:
    """A gain that is significant alone (p = 0.03) is not among ten."""
    lucky = [1.0, 2.0, 1.5]
    alone, among = Scene(_grid(lucky)), Scene(_grid(lucky, *[[1.0, -1.0, 0.1]] * 9))
    assert "ACC got better" in findings(alone, [MEASURES["acc"]])[0]
    assert "no significant change in any" in findings(among, [MEASURES["acc"]])[0]


def test_many_methods_are_averaged_on_the_first_screen_and_single_below() -> None:
    names = [f"method {letter}" for letter in "abcde"]
    scene = Scene(make_runs(1, names, diagnostics=False))
    curves = _parts(accuracy_curves(scene))[0]
    assert isinstance(curves, Charts)
    assert [chart.title for chart in curves.charts] == names
    drawn = [[line["name"] for line in chart.picture.values["lines"]] for chart in curves.charts]
    assert drawn == [[name, f"{name} + CBA"] for name in names]
    assert len({tuple(chart.picture.values["y"]) for chart in curves.charts}) == 1  # they can be compared
    first, below = _values(bias.tilt_at_a_glance(scene)), _values(_parts(bias.recency(scene))[-1])
    assert [line["name"] for line in first["lines"]] == ["without", "with CBA", "fair share"]
    assert len(below["row_names"]) == len(below["cells"]) == 11
    assert below["row_names"][0] == "fair share"
    for line, rows in zip(first["lines"], (below["cells"][1::2], below["cells"][2::2]), strict=False):
        assert line["mean"] == pytest.approx(np.mean(rows, axis=0).tolist(), abs=0.06)  # the means of the rows below


def test_a_sentence_has_each_value_or_the_ends_of_many() -> None:
    values = {name: float(place) for place, name in enumerate("abcdefgh")}
    assert each_or_ends(values, ".1f").startswith("a 0.0; b 1.0; ")
    assert each_or_ends({"low": -2.0, **values}, "+.1f") == "from low \u22122.0 to h +7.0"


def test_forgetting_by_class_averages_to_the_measure() -> None:
    runs = make_runs(2, ["ER"])
    section = bias.class_forgetting(Scene(runs))
    assert section is not None
    for line, mine in zip(_values(section.parts[0])["lines"], (runs[:2], runs[2:]), strict=True):
        expected = np.mean([MEASURES["fm_classes"].of(run) for run in mine])
        assert np.mean(line["mean"]) == pytest.approx(expected, rel=1e-3)


def test_recency_bias_along_the_stream_is_the_share_above_fair() -> None:
    run = make_run()
    even = [replace(point, predicted=[20.0] * 5) for point in run.anytime]
    section = bias.recency(Scene([replace(run, anytime=even)]))
    assert section is not None
    values = _values(section.parts[0])
    counts = np.array(run.tested[-1].confusion).sum(axis=1).reshape(5, 2).sum(axis=1)
    tasks = [point.task for point in run.anytime]
    expected = [20 - 100 * counts[task] / counts[: task + 1].sum() for task in tasks]
    assert values["lines"][0]["mean"] == pytest.approx(expected, abs=1e-2)


def test_a_run_without_a_curve_has_recency_bias_at_the_ends_of_tasks() -> None:
    section = bias.recency(Scene([replace(make_run(), anytime=[])]))
    assert section is not None
    assert _values(section.parts[0])["at"] == [40, 80, 120, 160, 200]


def test_long_settings_are_folded(tmp_path: Path) -> None:
    """Two hundred names neither fill the first screen nor the title."""
    names = [f"a name of class {place}" for place in range(200)]
    runs = [make_run(tasks=1, diagnostics=False) for _ in range(2)]
    for run, order in zip(runs, (names, names[::-1]), strict=True):
        scenario = {"name": "disjoint", "tasks": 1, "order": order}
        run.started.config["scenario"] = scenario  # type: ignore[index]
    write_report(runs, tmp_path / "report.html")
    html = unescape((tmp_path / "report.html").read_text())
    assert all(len(title) < 200 for title in re.findall(r"<h2[^>]*>(.*?)</h2>", html))
    folded = re.findall(r"<summary>(.*?)</summary>(.*?)</details>", html, re.S)
    long = [(summary, text) for summary, text in folded if names[77] in text and "<" not in text]
    assert len(long) == 2
    assert all(len(summary) < 200 for summary, _ in long)


def test_whiskers_end_where_no_value_can_be() -> None:
    """Of a mean of 2 and one of 99 percent, each with an interval of 5 points, the whiskers end at 0 and 100."""
    heights = Heights(np.array([2.0, 50.0, 99.0]), np.array([5.0, 5.0, 5.0]))
    assert _whiskers(heights, percent=True).tolist() == [[2.0, 5.0, 5.0], [5.0, 5.0, 1.0]]
    assert _whiskers(heights, percent=False).tolist() == [[5.0] * 3] * 2


@pytest.mark.parametrize(("classes", "bars"), [(10, True), (100, False)])
def test_a_caption_speaks_of_whiskers_only_where_there_are_bars(classes: int, bars: bool) -> None:
    """Five tasks of two methods are bars, fifty of them a matrix."""
    scene = Scene(make_runs(3, ["ER"], classes=classes, tasks=classes // 2, steps=8))
    shown = next(part for part in _parts(final_accuracy(scene)) if isinstance(part, Charts))
    assert ("cells" not in shown.charts[0].picture.values) == bars
    assert ("Whiskers" in shown.caption) == bars


def test_runs_without_tests_are_compared_by_what_was_measured() -> None:
    runs = [
        replace(run, tested=[], anytime=[])
        for run in (make_run(), make_run("ER + CBA", adaptor=True, method={"name": "ER"}))
    ]
    (sentence,) = findings(Scene(runs), [])
    assert sentence.startswith("CBA changed prequential accuracy by ")
