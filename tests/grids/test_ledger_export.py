"""A ledger as one table: every finished run is a row that other tools can read."""

import csv
from pathlib import Path

import pyarrow.parquet
import pytest

import evenkeel as ek
from evenkeel.errors import RunError, SettingsError
from evenkeel.grids.execution import Execution
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.ledger_export import write_runs
from evenkeel.grids.schedule import Grid
from evenkeel.results.front import learning_seconds
from evenkeel.results.measures import MEASURES
from evenkeel.results.run_files import USAGE
from tests.helpers.runs import make_run

LEDGER = Path(__file__).parents[2] / "results" / "demo"
SMALL = ["limits.train=5", "limits.test=5", "evaluation.every=0", "evaluation.alignment=0", "threads=1"]


def test_each_finished_run_is_a_row_with_measures_settings_and_versions(tmp_path: Path) -> None:
    ledger = Ledger(LEDGER)
    assert write_runs(ledger, tmp_path / "runs.parquet") == len(ledger.entries())
    rows = {row["key"]: row for row in pyarrow.parquet.read_table(tmp_path / "runs.parquet").to_pylist()}
    assert set(rows) == {entry.key for entry in ledger.entries()}
    for entry in ledger.entries():
        (run,), row = ledger.results([entry.key]), rows[entry.key]
        assert (row["name"], row["seed"]) == (entry.name, entry.seed)
        assert {name: row[f"measure.{name}"] for name in MEASURES} == {
            name: each.of(run) for name, each in MEASURES.items()
        }
        assert row["config.memory.capacity"] == run.started.config["memory"]["capacity"]
        assert row["config.adaptor.name"] == (run.started.config["adaptor"] or {}).get("name")
        assert row["version.torch"] == run.started.versions["torch"]
        assert row["seconds"] == sum(session.seconds for session in run.sessions) > 0
        assert row["learning_cpu"] == learning_seconds(run, by_clock=False) > 0


def test_csv_has_the_same_rows_and_columns(tmp_path: Path) -> None:
    write_runs(Ledger(LEDGER), tmp_path / "runs.parquet")
    write_runs(Ledger(LEDGER), tmp_path / "runs.csv")
    table = pyarrow.parquet.read_table(tmp_path / "runs.parquet").to_pylist()
    with (tmp_path / "runs.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            {name: "" if value is None else str(value) for name, value in row.items()} for row in table
        ]


def test_a_setting_of_several_types_is_text(tmp_path: Path) -> None:
    configs = [ek.load_config("digits", [*SMALL, f"memory.capacity={size}"]) for size in ("20", '"1MB"')]
    grid = Grid(Ledger(tmp_path / "ledger"), configs, Execution(workers=0)).finish()
    write_runs(grid.ledger, tmp_path / "runs.parquet")
    column = pyarrow.parquet.read_table(tmp_path / "runs.parquet")["config.memory.capacity"].to_pylist()
    assert sorted(column) == ["1MB", "20"]


def test_files_of_several_ledgers_are_read_together(tmp_path: Path) -> None:
    for name in ("demo", "slim"):  # the second has no curves, so none of its runs has an ACC_AUC
        write_runs(Ledger(LEDGER.parent / name), tmp_path / f"{name}.parquet")
    schemas = [pyarrow.parquet.read_schema(tmp_path / f"{name}.parquet") for name in ("demo", "slim")]
    common = [name for name in schemas[0].names if name in schemas[1].names]
    assert {name: schemas[0].field(name).type for name in common} == {
        name: schemas[1].field(name).type for name in common
    }
    assert not any(str(schema.field(name).type) == "null" for schema in schemas for name in schema.names)
    table = pyarrow.parquet.read_table(tmp_path, columns=common)
    assert len(table) == sum(len(Ledger(LEDGER.parent / name).entries()) for name in ("demo", "slim"))


def test_columns_that_begin_alike_are_side_by_side(tmp_path: Path) -> None:
    write_runs(Ledger(LEDGER.parent / "slim"), tmp_path / "runs.parquet")
    names = pyarrow.parquet.read_schema(tmp_path / "runs.parquet").names
    assert names[:3] == ["key", "name", "seed"]
    for parts in (1, 2):  # config.method.alpha is next to config.method.name, and that among config.*
        begun = [tuple(name.replace("[", ".").split(".")[:parts]) for name in names]
        blocks = [each for place, each in enumerate(begun) if place == 0 or begun[place - 1] != each]
        assert len(blocks) == len(set(begun))


def test_one_augmentation_is_in_the_columns_of_several(tmp_path: Path) -> None:
    write_runs(Ledger(LEDGER.parent / "slim"), tmp_path / "runs.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "runs.parquet").to_pylist()
    kinds = {row["config.augment"]: row["config.augment[0].name"] for row in rows}
    assert kinds["crop-flip"] == "crop-flip"
    assert kinds["crop-flip + rand-augment"] == "crop-flip"
    assert None not in kinds


def test_settings_that_came_later_have_their_defaults(tmp_path: Path) -> None:
    write_runs(Ledger(LEDGER.parent / "slim"), tmp_path / "runs.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "runs.parquet").to_pylist()
    assert {row["config.learner.repeats"] for row in rows} >= {1, 3}
    assert not any(row["config.memory.policy"] is None for row in rows)
    assert {row["bound"] for row in rows} == {None, "lower", "upper"}
    assert {row["device"] for row in rows} == {"cpu"}


def test_a_seed_may_be_larger_than_the_numbers_of_parquet(tmp_path: Path) -> None:
    configs = [ek.load_config("digits", [*SMALL, f"seed={seed}"]) for seed in (2**64 - 1, 3)]
    grid = Grid(Ledger(tmp_path / "ledger"), configs, Execution(workers=0)).finish()
    write_runs(grid.ledger, tmp_path / "runs.parquet")
    assert set(pyarrow.parquet.read_table(tmp_path / "runs.parquet")["seed"].to_pylist()) == {str(2**64 - 1), "3"}


def test_an_empty_ledger_and_another_ending_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"No run in .* is finished"):
        write_runs(Ledger(tmp_path), tmp_path / "runs.parquet")
    with pytest.raises(SettingsError, match=r"must end in \.parquet or \.csv"):
        write_runs(Ledger(LEDGER), tmp_path / "runs.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_known_is_empty(tmp_path: Path) -> None:
    make_run("caf\udce9", folder=tmp_path / f"{0:016x}")  # an argument that is not UTF-8
    (tmp_path / f"{0:016x}" / USAGE).unlink()
    for name in ("runs.csv", "runs.parquet"):
        assert write_runs(Ledger(tmp_path), tmp_path / name) == 1
    (row,) = pyarrow.parquet.read_table(tmp_path / "runs.parquet").to_pylist()
    assert row["name"] == "caf?"
    assert [row[column] for column in ("seconds", "evaluating", "learning_cpu", "peak_bytes", "machine")] == [None] * 5


def test_a_run_with_a_part_of_the_users_own_has_the_defaults_of_the_others(tmp_path: Path) -> None:
    make_run("Mine", folder=tmp_path / f"{0:016x}", method={"name": "mine:Replay", "strength": 3})
    write_runs(Ledger(tmp_path), tmp_path / "runs.parquet")
    (row,) = pyarrow.parquet.read_table(tmp_path / "runs.parquet").to_pylist()
    assert (row["config.method.name"], row["config.method.strength"]) == ("mine:Replay", 3)
    assert row["config.learner.repeats"] == ek.Config().learner.repeats
