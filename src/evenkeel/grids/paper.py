"""Which runs each table and figure of the CBA paper needs, and the numbers it published."""

import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from evenkeel.errors import SettingsError, one_of
from evenkeel.experiment.config import Config, load_config
from evenkeel.grids.run_names import run_key

Value = TypeVar("Value")
WIDTHS = {"full": 64, "slim": 20}  # of the paper's ResNet-18, and of the slim one in the literature
FIXED = ("data", "limits", "scenario", "memory.capacity", "net", "seed", "name")  # by the paper; not to be set
VARIANTS = {"as-released": ("-cba",), "as-paper": ("-cba-as-paper",), "both": ("-cba", "-cba-as-paper")}


@dataclass(frozen=True)
class PaperCell:
    """One row of a table under one heading: a setting, its runs by seed, and the paper's values."""

    data: str
    memory: int
    row: str
    values: list[float]  # one for each of the table's values; empty in a figure
    configs: list[Config]  # by seed

    @property
    def title(self) -> str:
        return self.configs[0].name

    @property
    def place(self) -> tuple[str, int, str]:
        return self.data, self.memory, self.row


@dataclass(frozen=True)
class Slip:
    """Something in the paper that does not agree with itself or with the released code, and the cells it is about."""

    text: str
    data: Sequence[str] = ()  # empty: any
    memory: Sequence[int] = ()
    methods: Sequence[str] = ()

    def concerns(self, cell: PaperCell) -> bool:
        parts = ((self.data, cell.data), (self.memory, cell.memory), (self.methods, _base(cell.row)))
        return all(not chosen or part in chosen for chosen, part in parts)


@dataclass(frozen=True)
class PaperTable:
    """A table or figure of the paper, or the requested part of it."""

    name: str  # table1
    title: str
    values: list[str]  # what its cells contain: measures by name, and "tasks" for the accuracy on each
    seeds: int  # number of seeds in the paper
    slips: list[Slip]
    settings: list[str]  # the user's, on top of the presets
    cells: list[PaperCell]

    @property
    def number(self) -> str:
        """Return the name as in the paper, such as Table 1."""
        return f"{self.name[:-1].capitalize()} {self.name[-1]}"

    def blocks(self) -> list[list[PaperCell]]:
        """Return the cells by data set and memory size."""
        blocks: dict[tuple[str, int], list[PaperCell]] = {}
        for cell in self.cells:
            blocks.setdefault((cell.data, cell.memory), []).append(cell)
        return list(blocks.values())

    def configs(self) -> list[Config]:
        """Return all runs, those of the first seed first, so that a table stopped early can be compared."""
        longest = max(len(cell.configs) for cell in self.cells)
        return [cell.configs[place] for place in range(longest) for cell in self.cells if place < len(cell.configs)]

    def bases(self) -> dict[str, str]:
        """Return by the key of each run that of the run it is compared with: without CBA, or first in its figure."""
        keys = dict[str, str]()
        for block in self.blocks():
            for cell in block:
                base = without(block, cell) if self.values else block[0]
                if base is not None and base is not cell:
                    keys |= zip(map(run_key, cell.configs), map(run_key, base.configs), strict=True)
        return keys


class EmptyTableError(SettingsError):
    """A table has no cell that was selected."""


@cache
def published() -> dict[str, Any]:
    return tomllib.loads((files("evenkeel.grids") / "published.toml").read_text(encoding="utf-8"))


def data_sets(name: str) -> list[str]:
    """Return the data sets of a table or figure."""
    return list(published()[name]["cells"])


def memories(name: str, sets: Sequence[str]) -> list[int]:
    """Return the memory sizes that a table or figure has with any of these data sets."""
    return [int(size) for each in sets for size in published()[name]["cells"][each]]


def rows_of(name: str) -> list[str]:
    """Return the methods of a table or figure, and its rows."""
    rows = [row for each in published()[name]["cells"].values() for block in each.values() for row in block]
    return list(dict.fromkeys([*map(_base, rows), *rows]))


def paper_table(
    name: str,
    *,
    data: Sequence[str] = (),
    memory: Sequence[int] = (),
    methods: Sequence[str] = (),
    net: str = "full",
    seeds: int | None = None,
    cba: str = "as-released",
    settings: Sequence[str] = (),
) -> PaperTable:
    """Return a table or figure, or a part of it: some data sets, memory sizes, methods (with and without CBA).

    seeds: how many, starting at 0; by default as many as in the paper. cba: as in the released code, closer to the
    paper's text, or both. settings: overrides, as in `--set`.
    """
    one_of("what", name, published())
    one_of("net", net, WIDTHS)
    one_of("cba", cba, VARIANTS)
    table = published()[name]
    sets = _chosen("data set", data, data_sets(name))
    sizes = _chosen("memory", memory, memories(name, sets))
    chosen = _chosen("method", methods, rows_of(name))
    for setting in settings:
        part = setting.partition("=")[0].strip()
        if any(part == each or part.startswith(f"{each}.") for each in FIXED):
            raise SettingsError(
                f"--set {setting}: data, tasks, net and seeds are fixed by the paper; choose among them with "
                "--data-set, --memory, --net and --seeds. For other runs write a grid: `evenkeel grid`."
            )
    count = table["seeds"] if seeds is None else seeds
    slips = [Slip(**slip) for slip in table["slips"]]
    selected = PaperTable(name, table["title"], table["values"], table["seeds"], slips, list(settings), [])
    # Tables only need tests at task ends; curves need points in between.
    evaluation = ["evaluation.prequential=false", "evaluation.alignment=0"]
    evaluation += [] if table.get("curve") else ["evaluation.every=0"]
    fixed = [f"net.width={WIDTHS[net]}", *evaluation, *settings]
    for each in sets:
        for size in sizes:
            for row, values in table["cells"][each].get(str(size), {}).items():
                if row not in chosen and _base(row) not in chosen:
                    continue
                for variant in (
                    [row.replace("-cba", suffix) for suffix in VARIANTS[cba]] if row.endswith("-cba") else [row]
                ):
                    preset = table["preset"].format(data=each, row=variant)
                    first = load_config(preset, [f"memory.capacity={size}", *fixed])
                    configs = [first.model_copy(update={"seed": seed}) for seed in range(count)]
                    selected.cells.append(PaperCell(each, size, variant, values, configs))
    if not selected.cells:
        raise EmptyTableError(f"{selected.number} has no cell with these data sets, memory sizes and methods.")
    return selected


def paper_tables(
    *, data: Sequence[str], memory: Sequence[int], methods: Sequence[str], **others: Any
) -> list[PaperTable]:
    """Return all tables of the paper, then its figures, each with what it has of the selection."""
    every = list(published())
    _chosen("data set", data, [each for name in every for each in data_sets(name)])
    _chosen("memory", memory, [each for name in every for each in memories(name, data_sets(name))])
    _chosen("method", methods, [each for name in every for each in rows_of(name)])
    tables = list[PaperTable]()
    for name in every:
        sets = [each for each in data_sets(name) if each in data or not data]
        sizes = [each for each in memory if each in memories(name, sets)]
        rows = [each for each in methods if each in rows_of(name)]
        if sets and bool(sizes) == bool(memory) and bool(rows) == bool(methods):
            with suppress(EmptyTableError):  # a method that it has with another memory, say
                tables.append(paper_table(name, data=sets, memory=sizes, methods=rows, **others))
    if not tables:
        raise EmptyTableError("No table or figure has a cell with these data sets, memory sizes and methods.")
    return tables


def _base(row: str) -> str:
    """Return the method of a row: er for er-cba-64."""
    return row.partition("-cba")[0]


def _chosen(what: str, requested: Sequence[Value], available: Iterable[Value]) -> list[Value]:
    """Return the requested values, or else all that are available."""
    known = list(dict.fromkeys(available))
    for each in requested:
        one_of(what, each, known)
    return list(dict.fromkeys(requested)) or known


def without(cells: Sequence[PaperCell], cell: PaperCell) -> PaperCell | None:
    """Return the cell against which the gain by CBA of `cell` is measured."""
    if "-cba" not in cell.row:
        return None
    same = [each for each in cells if (each.data, each.memory, each.row) == (cell.data, cell.memory, _base(cell.row))]
    return same[0] if same else None
