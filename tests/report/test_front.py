"""The figure of accuracy against cost, and the command that draws it."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenkeel.cli import app
from evenkeel.errors import RunError
from evenkeel.report.elements import shown
from evenkeel.report.front import _ticks, front
from evenkeel.report.page import write_front
from evenkeel.report.scene import Look, Scene
from evenkeel.results.run_files import RECORDS, Results
from tests.helpers.runs import make_run

COSTS = {"er": 10.0, "derpp": 20.0, "icarl": 15.0, "mir": 40.0}


def timed(folder: Path | None = None, methods: int = 4, **config: Any) -> list[Results]:
    runs = [
        make_run(name, seed=seed, skill=cpu / 5, folder=folder and folder / f"{name} {seed}", **config)
        for name, cpu in list(COSTS.items())[:methods]
        for seed in range(3)
    ]
    return [replace(run, sessions=[replace(run.sessions[0], learning_cpu=COSTS[run.label])]) for run in runs]


def test_a_figure_has_a_mark_for_each_method_and_the_front_as_a_line() -> None:
    section = front(Scene(timed()))
    assert section is not None
    charts, table = section.parts
    assert [chart.title for chart in charts.charts] == [  # type: ignore[union-attr]
        "ACC against cost",
        "average incremental accuracy against cost",
        "ACC_AUC against cost",
    ]
    values = charts.charts[0].picture.values  # type: ignore[union-attr]
    assert values["at"] == pytest.approx([math.log10(cost) for cost in (1.0, 1.5, 2.0, 4.0)])
    assert values["names"] == ["1.00", "1.50", "2.00", "4.00"]
    left, right = values["x"]
    assert left < 0 < math.log10(4) < right < 1
    assert [line["name"] for line in values["lines"]] == ["er", "icarl", "derpp", "mir"]
    assert [sum(value is not None for value in line["mean"]) for line in values["lines"]] == [1, 1, 1, 1]
    assert [shown(row.cells[1]) for row in table.rows] == [  # type: ignore[union-attr]
        "1.00 ± 0.00",
        "1.50 ± 0.00",
        "2.00 ± 0.00",
        "4.00 ± 0.00",
    ]


def test_tables_of_several_data_sets_say_which_is_which(tmp_path: Path) -> None:
    timed(tmp_path / "digits")
    for name in COSTS:
        make_run(name, data="cifar10", folder=tmp_path / "cifar10" / name)
    for arguments in ([], ["--format", "csv"]):
        done = CliRunner().invoke(app, ["front", str(tmp_path), *arguments])
        assert done.exit_code == 0, done.output
        assert "cifar10, disjoint" in done.output
        assert "digits, disjoint" in done.output


def test_two_methods_make_no_front(tmp_path: Path) -> None:
    assert front(Scene(timed(methods=2))) is None
    with pytest.raises(RunError, match="fewer than three methods"):
        write_front(timed(methods=2), tmp_path / "front.html")
    assert not list(tmp_path.iterdir())


def test_the_command_prints_a_table_and_writes_a_page(tmp_path: Path) -> None:
    timed(tmp_path / "runs")  # on disk their CPU time is unknown, so the clock counts
    done = CliRunner().invoke(app, ["front", str(tmp_path / "runs"), "--page", str(tmp_path / "front.html")])
    assert done.exit_code == 0, done.output
    assert all(name in done.output for name in COSTS)
    assert "cost, ER = 1" in done.output
    assert "seconds of a clock" in (tmp_path / "front.html").read_text(encoding="utf-8")


def test_where_the_page_is_does_not_get_into_the_table(tmp_path: Path) -> None:
    timed(tmp_path / "runs")
    page = tmp_path / "front.html"
    done = CliRunner().invoke(app, ["front", str(tmp_path / "runs"), "--format", "csv", "--page", str(page)])
    assert "front.html" in done.stderr
    assert "front.html" not in done.stdout


def test_the_variants_of_a_method_have_marks_of_their_own() -> None:
    looks = [Look.of(0, kind) for kind in range(5)]
    assert len({(look.colour, look.marker, look.fill) for look in looks}) == 5


def test_a_method_without_and_with_an_adaptor_has_one_colour_unless_it_is_alone() -> None:
    pair = [make_run(), make_run("ER + CBA", adaptor=True, method={"name": "ER"})]
    for runs, colours in ((pair, 2), ([*pair, make_run("DER++")], 1), (pair[:1], 1)):
        looks = Scene(runs).looks
        assert len({looks[name].colour for name in looks if name.startswith("ER")}) == colours
    assert Scene(pair).looks["ER + CBA"] == Scene(pair[:1]).looks["ER"]  # nothing is dashed without a reason
    assert Scene(pair).looks["ER"].line == "--"


def test_each_size_of_memory_has_figures_and_a_table_of_its_own(tmp_path: Path) -> None:
    small = timed(tmp_path / "small", memory={"capacity": 20, "policy": "reservoir"})
    section = front(Scene([*timed(), *small]))
    assert section is not None
    charts, *tables = section.parts
    titles = [chart.title for chart in charts.charts]  # type: ignore[union-attr]
    assert [title.rpartition(", ")[2] for title in titles] == [f"memory {size}" for size in (200,) * 3 + (20,) * 3]
    assert [table.title.partition(",")[0] for table in tables] == ["Memory 200", "Memory 20"]  # type: ignore[union-attr]
    timed(tmp_path / "others")
    done = CliRunner().invoke(app, ["front", str(tmp_path), "--format", "csv"])
    assert done.exit_code == 0, done.output
    assert [f"digits, disjoint, memory {size}" in done.output for size in (200, 20, 500)] == [True, True, False]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.81, 4.5, [1, 1.5, 2, 3, 4]),
        (0.8, 12.5, [1, 2, 5, 10]),
        (8.0, 70000.0, [10, 100, 1000, 10000]),
    ],
)
def test_ticks_are_round_and_few(low: float, high: float, expected: list[float]) -> None:
    assert _ticks(low, high) == pytest.approx(expected)


def test_data_sets_without_a_finished_run_are_left_out(tmp_path: Path) -> None:
    make_run("er", folder=tmp_path / "other", data="other", finished=False)
    failed = CliRunner().invoke(app, ["front", str(tmp_path)])
    assert isinstance(failed.exception, RunError)
    assert "none of these runs is finished" in str(failed.exception)
    timed(tmp_path / "runs")
    done = CliRunner().invoke(app, ["front", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert done.output.count("cost, ER = 1") == 1
    assert "seconds  seeds" not in done.output


def test_tables_of_several_streams_say_which_is_which(tmp_path: Path) -> None:
    for noise in (0.1, 0.4):
        for name in COSTS:
            folder = tmp_path / f"{name} {noise}"
            make_run(name, folder=folder)
            records = (folder / RECORDS).read_text()
            plain = '"scenario":{'
            (folder / RECORDS).write_text(records.replace(plain, f'{plain}"noise":{noise},'))
    done = CliRunner().invoke(app, ["front", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "digits, disjoint (noise 0.1)" in done.output
    assert "digits, disjoint (noise 0.4)" in done.output
