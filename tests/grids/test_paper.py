"""The paper's cells, checked against the paper, and the presets that reproduce them."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from evenkeel.errors import SettingsError
from evenkeel.grids.paper import paper_table, paper_tables, published, without
from evenkeel.grids.run_names import run_key

TABLES = [name for name in published() if name.startswith("table")]
PAPER = Path(os.environ.get("EVENKEEL_DATA", "/nowhere")).parent / "paper" / "cba.tex"


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper is not next to EVENKEEL_DATA")
def test_the_cells_are_exactly_the_numbers_of_the_papers_tables() -> None:
    tables = re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", PAPER.read_text(), re.S)
    for name, text in zip(TABLES, tables, strict=True):
        body = re.sub(r"scalebox\{[^}]*\}", "", text)
        printed = Counter(abs(float(number)) for number in re.findall(r"(?<![\d.])\d+\.\d\d(?!\d)", body))
        about = published()[name]
        ours = Counter(
            abs(value)
            for values in [
                *(cell for sizes in about["cells"].values() for rows in sizes.values() for cell in rows.values()),
                *about.get("printed_gains", {}).values(),
            ]
            for value in values
        )
        assert ours == printed, name


def test_some_cells_are_where_they_belong() -> None:
    """From a list of targets that was made by hand."""
    cells = published()["table1"]["cells"]
    assert cells["cifar10"]["200"]["derpp-cba"] == [45.14, 23.39]
    assert cells["cifar100"]["5000"]["clser"] == [23.18, 34.35]
    assert cells["tiny-imagenet"]["2000"]["er_ace"] == [17.89, 7.04]
    assert published()["table3"]["cells"]["cifar10"]["500"]["clser-cba"][0] == 54.69
    assert published()["table4"]["cells"]["cifar10"]["200"]["rar"][0] == 60.57
    assert published()["table5"]["cells"]["cifar10"]["500"]["er-cba-joint-memory"][0] == 44.58


def test_printed_gains_are_the_differences_except_where_a_slip_is_noted() -> None:
    wrong = []
    for name in TABLES:
        about = published()[name]
        blocks = [(data, size) for data, sizes in about["cells"].items() for size in sizes]
        for row, gains in about.get("printed_gains", {}).items():
            cells = [about["cells"][data][size] for data, size in blocks]
            pairs = [(cell[row], cell[row.removesuffix("-cba")]) for cell in cells]
            true = [after - before for one, other in pairs for after, before in zip(one, other, strict=True)]
            wrong += [
                (name, row, printed) for value, printed in zip(true, gains, strict=True) if abs(value - printed) > 0.006
            ]
    assert wrong == [("table1", "rar-cba", -38.59), ("table3", "clser-cba", -8.45)]
    for name, _, printed in wrong:
        assert any(f"{printed}" in slip["text"] for slip in published()[name]["slips"])


@pytest.mark.parametrize("name", published())
@pytest.mark.parametrize("net", ["full", "slim"])
def test_every_cell_has_a_preset_and_a_run_of_its_own(name: str, net: str) -> None:
    found = paper_table(name, net=net, seeds=2, cba="both")
    keys = [run_key(config) for config in found.configs()]
    assert len(set(keys)) == len(keys) == 2 * len(found.cells)
    titles = [(cell.data, cell.memory, cell.title) for cell in found.cells]
    assert len(set(titles)) == len(titles)
    for cell in found.cells:
        for config in cell.configs:
            assert config.memory.capacity == cell.memory
            assert config.net["width"] == {"full": 64, "slim": 20}[net]
            assert config.data["name"] == cell.data
            assert (config.adaptor is not None) == ("-cba" in cell.row)
        assert (without(found.cells, cell) is not None) == ("-cba" in cell.row)
        tasks = {"cifar10": 5, "cifar100": 10, "tiny-imagenet": 10}[cell.data]
        assert len(cell.values) == (0 if name.startswith("figure") else tasks + 1 if name == "table2" else 2)


def test_the_configs_have_the_settings_of_the_paper() -> None:
    scenarios = {name: paper_table(name).cells[0].configs[0].scenario for name in ("table1", "table3", "table4")}
    assert [each and each["name"] for each in scenarios.values()] == ["disjoint", "blurry", "offline"]
    assert (scenarios["table3"] or {})["percent"] == 10
    adaptors = {cell.row: cell.configs[0].adaptor or {} for cell in paper_table("table5", memory=[500]).cells}
    assert adaptors["er-cba-64"]["hidden"] == [64]
    assert adaptors["er-cba-4-layers"]["hidden"] == [256] * 3
    assert [adaptors[f"er-cba-{each}"]["training"] for each in ("joint", "joint-memory")] == ["joint", "joint+memory"]
    as_paper = (
        paper_table("table1", data=["cifar100"], methods=["er"], cba="as-paper").cells[1].configs[0].adaptor or {}
    )
    expected = {"input": "logits", "through": True, "every": 1, "start": "first", "lr": 0.01}
    assert expected.items() <= as_paper.items()
    first, swapped = ((cell.configs[0].scenario or {})["order"] for cell in paper_table("figure1").cells)
    assert first == "given"
    assert swapped == [0, 1, 2, 3, 4, 5, 8, 9, 6, 7]


def test_a_part_of_a_table() -> None:
    found = paper_table("table1", data=["cifar10"], memory=[500], methods=["er", "derpp-cba"], seeds=3)
    assert [cell.row for cell in found.cells] == ["er", "er-cba", "derpp-cba"]
    assert [config.seed for config in found.configs()] == [0] * 3 + [1] * 3 + [2] * 3
    assert len(paper_table("table1").configs()) == 780
    assert len(paper_table("table4").cells[0].configs) == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "table6"}, r"'table6' is not one of 'table1'"),
        ({"methods": ["der"]}, "method='der' is not one of 'icarl'"),
        ({"memory": [300]}, "memory=300 is not one of 200, 500"),
        ({"data": ["cifar"]}, "Did you mean 'cifar10"),
        ({"net": "thin"}, "net='thin' is not one of 'full', 'slim'"),
        ({"data": ["cifar10"], "memory": [2000]}, "memory=2000 is not one of 200, 500"),
        ({"settings": ["optimizer.rate=1"]}, "optimizer.rate is unknown"),
        ({"settings": ["data.name=digits"]}, "fixed by the paper"),
        ({"settings": ["scenario.tasks=10"]}, "fixed by the paper"),
        ({"settings": ["limits.tasks=2"]}, "fixed by the paper"),
    ],
)
def test_unknown_values_are_reported(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        paper_table(**({"name": "table1"} | settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "pairs"), [("table1", 24), ("table3", 8), ("table4", 8), ("table5", 12), ("figure1", 1), ("figure4", 1)]
)
def test_every_run_with_cba_has_a_base_of_the_same_seed_and_a_figure_compares_with_its_first(
    name: str, pairs: int
) -> None:
    table = paper_table(name, seeds=2)
    configs = {run_key(config): config for config in table.configs()}
    bases = {configs[key].name: configs[base].name for key, base in table.bases().items()}
    assert len(table.bases()) == 2 * pairs
    assert all(configs[key].seed == configs[base].seed for key, base in table.bases().items())
    assert all(plain.partition(" + ")[0] == cba.partition(" + ")[0].partition(",")[0] for cba, plain in bases.items())
    assert not any("CBA" in plain for plain in bases.values())


def test_a_value_that_is_named_twice_counts_once() -> None:
    assert len(paper_table("table1", memory=[500, 500], methods=["er"], seeds=1).cells) == 2


def cells_of(**selection: list[str] | list[int]) -> set[tuple[str, str, int, str]]:
    whole: dict[str, list[str] | list[int]] = {"data": [], "memory": [], "methods": []}
    tables = paper_tables(**{**whole, **selection}, net="slim", seeds=1)  # type: ignore[arg-type]
    return {(table.name, cell.data, cell.memory, cell.row) for table in tables for cell in table.cells}


@pytest.mark.parametrize(
    "selection",
    [
        {"data": ["cifar10", "cifar100"]},
        {"methods": ["er", "derpp"]},
        {"memory": [500, 5000]},
        {"data": ["cifar10", "cifar100"], "memory": [500, 2000], "methods": ["er", "clser"]},
    ],
    ids="-".join,
)
def test_of_the_whole_paper_a_selection_has_the_cells_that_have_it(selection: dict[str, list[str] | list[int]]) -> None:
    wanted = {
        cell
        for cell in cells_of()
        if cell[1] in selection.get("data", [cell[1]])
        and cell[2] in selection.get("memory", [cell[2]])
        and cell[3].partition("-cba")[0] in selection.get("methods", [cell[3].partition("-cba")[0]])
    }
    assert cells_of(**selection) == wanted
    assert len({name for name, *_ in wanted}) > 2


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"data": ["cifar"]}, "cifar10"),
        ({"methods": ["derp"]}, "derpp"),
        ({"data": ["cifar10"], "memory": [5000]}, "No table or figure has a cell"),
    ],
)
def test_a_selection_that_nothing_has_is_refused(selection: dict[str, list[str] | list[int]], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        cells_of(**selection)
