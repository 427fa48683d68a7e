"""Our numbers next to the paper's: from records to cells, recomputed here the slow way."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from evenkeel.experiment.config import Config
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.paper import paper_table
from evenkeel.grids.paper_tables import result_tables
from evenkeel.grids.run_names import run_key
from evenkeel.results.formats import render
from evenkeel.results.records import to_line
from evenkeel.results.run_files import RECORDS, Results
from tests.helpers.commands import call
from tests.helpers.data_files import pictures, write_cifar_parquet
from tests.helpers.runs import make_run

ASKED = {"data": ["cifar10"], "memory": [500], "methods": ["er", "derpp"], "net": "slim", "seeds": 3}


def keep(ledger: Ledger, config: Config, skill: float = 0.0) -> Results:
    """Write a made-up run of this config to the ledger."""
    run = make_run(config.name, seed=config.seed, adaptor=config.adaptor is not None, skill=skill, steps=4)
    started = replace(run.started, config=config.model_dump(mode="json"))
    folder = ledger.folder(run_key(config))
    folder.mkdir(parents=True)
    records = [started, *run.steps, *run.tested, run.ended]
    (folder / RECORDS).write_text("".join(to_line(record) for record in records if record is not None))
    return replace(run, started=started, path=folder)


def as_csv(name: str, ledger: Ledger, **asked: object) -> list[dict[str, str]]:
    (sheet,) = result_tables(paper_table(name, **asked), ledger)  # type: ignore[arg-type]
    lines = list(csv.reader(io.StringIO(render(sheet, "csv"))))
    header = [f"{name} {lines[0][:k].count(name)}" for k, name in enumerate(lines[0])]  # "paper" comes more than once
    return [dict(zip(header, line, strict=True)) for line in lines[1:]]


def test_means_gains_and_distances(tmp_path: Path) -> None:
    ledger, runs = Ledger(tmp_path), dict[tuple[str, int], Results]()
    for cell in paper_table("table1", **ASKED).cells:  # type: ignore[arg-type]
        for config in cell.configs[: 2 if cell.row == "er-cba" else 3]:  # one is not run yet
            runs[cell.row, config.seed] = keep(ledger, config)
    er, er_cba, gain, derpp, derpp_cba, _ = as_csv("table1", ledger, **ASKED)
    accuracy = {key: float(np.mean(run.tested[-1].accuracy)) for key, run in runs.items()}
    assert [row["name 0"] for row in (er, er_cba, derpp)] == ["ER", "ER + CBA", "DER++"]
    assert [int(row["seeds 0"]) for row in (er, er_cba, gain, derpp, derpp_cba)] == [3, 2, 2, 3, 3]
    mean = fmean(accuracy["er", seed] for seed in range(3))
    assert float(er["ACC 0"]) == pytest.approx(mean)
    assert float(er["paper 0"]) == 42.32
    assert float(er["distance 0"]) == pytest.approx(mean - 42.32)
    paired = fmean(accuracy["er-cba", seed] - accuracy["er", seed] for seed in range(2))  # over common seeds only
    assert float(gain["ACC 0"]) == pytest.approx(paired)
    assert float(gain["paper 0"]) == pytest.approx(3.09)
    assert float(gain["distance 0"]) == pytest.approx(paired - 3.09)
    assert float(derpp_cba["paper 1"]) == 16.75


def test_accuracy_by_task(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    asked = {"data": ["cifar10"], "net": "slim", "seeds": 2}
    runs = [keep(ledger, config) for config in paper_table("table2", **asked).cells[0].configs]  # type: ignore[arg-type]
    rows = as_csv("table2", ledger, **asked)
    assert [row["name 0"] for row in rows] == ["a(1,5)", "a(2,5)", "a(3,5)", "a(4,5)", "a(5,5)", "ACC"]
    for task in range(5):
        assert float(rows[task]["ER 0"]) == pytest.approx(fmean(run.tested[-1].accuracy[task] for run in runs))
    assert float(rows[5]["ER 0"]) == pytest.approx(fmean(float(row["ER 0"]) for row in rows[:5]))
    assert rows[0]["ER + CBA 0"] == ""  # not run yet
    assert float(rows[0]["paper 1"]) == 44.29


def test_other_settings_are_not_mistaken_for_the_same(tmp_path: Path) -> None:
    """Runs of the full net, or with other memory or settings, are not shown as those of the slim net."""
    ledger = Ledger(tmp_path)
    for other in ({"net": "full"}, {"memory": [200]}, {"settings": ["optimizer.lr=0.1"]}):
        for config in paper_table("table1", **(ASKED | other)).configs():  # type: ignore[arg-type]
            keep(ledger, config)
    assert {row["seeds 0"] for row in as_csv("table1", ledger, **ASKED)} == {"0"}


def test_settings_on_top_are_in_the_title(tmp_path: Path) -> None:
    asked = ASKED | {"methods": ["rar"], "settings": ["learner.repeats=2"]}
    (sheet,) = result_tables(paper_table("table1", **asked), Ledger(tmp_path))  # type: ignore[arg-type]
    assert "learner.repeats=2" in sheet.title


def test_the_command_shows_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger(tmp_path)
    for config in paper_table("table1", **ASKED).configs():  # type: ignore[arg-type]
        keep(ledger, config)
    arguments = ["reproduce", "table1", "--data-set", "cifar10", "--memory", "500", "--methods", "er, derpp"]
    arguments += ["--net", "slim", "--seeds", "3", "--out", str(tmp_path)]
    code, shown, _ = call(capsys, *arguments, "--show", "--format", "markdown")
    assert code == 0
    assert "| ER + CBA | 3 |" in shown
    assert "| 45.41 |" in shown
    # Nothing is left to run, so the command needs no data.
    (tmp_path / "empty").mkdir()
    absent = ["--data", str(tmp_path / "empty")]
    code, shown, _ = call(capsys, *arguments, "--list", *absent)
    assert code == 0
    assert shown.count("finished") == 12 + 1
    assert "12 runs, 12 finished" in shown
    code, shown, errors = call(capsys, *arguments, *absent)
    assert code == 0, errors
    assert "DER++ + CBA" in shown


def test_a_list_without_data_has_no_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVENKEEL_DATA", raising=False)
    arguments = ["reproduce", "table5", "--memory", "200", "--seeds", "1", "--out", str(tmp_path / "ledger")]
    code, shown, errors = call(capsys, *arguments, "--list", "--data", str(tmp_path))
    assert code == 0
    assert shown.count("to do") == 7
    assert "No estimate" in errors
    code, _, errors = call(capsys, *arguments, "--data", str(tmp_path))  # nothing can be run
    assert code == 1
    assert "evenkeel data get cifar10" in errors
    assert not (tmp_path / "ledger").exists()


def test_a_table_is_run_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole command on a data set of the real layout, made here: 16 images per class, one step per task."""
    write_cifar_parquet(tmp_path / "data" / "cifar10", pictures(160), pictures(20))
    arguments = ["reproduce", "table2", "--data-set", "cifar10", "--net", "slim", "--seeds", "1", "--workers", "0"]
    arguments += ["--set", "threads=1", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "ledger")]
    code, shown, errors = call(capsys, *arguments, "--format", "csv")
    assert code == 0, errors
    rows = list(csv.reader(io.StringIO(shown)))
    assert [row[0] for row in rows[1:]] == ["a(1,5)", "a(2,5)", "a(3,5)", "a(4,5)", "a(5,5)", "ACC"]
    er, cba = sorted(Ledger(tmp_path / "ledger").entries(), key=lambda entry: entry.name)
    assert (er.name, cba.name) == ("ER", "ER + CBA")
    place = rows[0].index("ER + CBA")
    assert float(rows[-1][rows[0].index("ER")]) == er.metrics["acc"]
    assert float(rows[-1][place]) == cba.metrics["acc"]
    assert float(rows[-1][rows[0].index("gain, paired")]) == cba.metrics["acc"] - er.metrics["acc"]
    before = (tmp_path / "ledger" / er.key / "usage.jsonl").read_text()
    assert call(capsys, *arguments, "--format", "csv")[1] == shown
    assert (tmp_path / "ledger" / er.key / "usage.jsonl").read_text() == before  # it was not run again


def test_figures_are_drawn_from_the_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["reproduce", "figure3", "--net", "slim", "--seeds", "2", "--out", str(tmp_path), "--show"]
    code, _, errors = call(capsys, *arguments)
    assert code == 1
    assert "None of the runs of Figure 3 is finished" in errors
    for config in paper_table("figure3", net="slim", seeds=2).configs():
        keep(Ledger(tmp_path), config)
    code, shown, errors = call(capsys, *arguments)
    assert code == 0, errors
    assert "figure3.html" in shown.replace("\n", "")
    assert "<svg" in (tmp_path / "figure3.html").read_text()


def test_rows_without_runs_are_left_out_if_asked_for(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    table = paper_table("table1", data=["cifar10"], methods=["er", "derpp"], net="slim", seeds=2)
    assert result_tables(table, ledger, only_finished=True) == []
    (er,) = (cell for cell in table.cells if (cell.row, cell.memory) == ("er", 500))
    keep(ledger, er.configs[1])
    (shown,) = result_tables(table, ledger, only_finished=True)
    assert [[cell.value for cell in row.cells[:2]] for row in shown.rows] == [["ER", 1]]
    assert shown.notes == []  # no slip is about these cells
    assert sum(len(each.rows) for each in result_tables(table, ledger)) > 8


def test_slips_are_listed_below_the_cells_they_are_about(tmp_path: Path) -> None:
    def notes(**part: Any) -> list[str]:
        *above, last = result_tables(paper_table("table1", net="slim", seeds=1, **part), Ledger(tmp_path))
        assert not any(table.notes for table in above)
        return [note.split(",")[0] for note in last.notes]

    assert len(notes()) == 5
    assert notes(methods=["rar"]) == [
        "The gain in FM of RAR on Tiny-ImageNet",
        "The text says CBA gains up to 9.23 in ACC; RAR on CIFAR-100",
    ]
    assert notes(data=["cifar10"], methods=["derpp-cba"]) == ["On CIFAR-10"]
    assert notes(data=["cifar10"], methods=["derpp-cba"], memory=[500]) == []
    assert notes(data=["cifar10"], methods=["rar", "icarl", "er"]) == []
