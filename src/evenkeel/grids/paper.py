"""The tables and figures of the CBA paper: which runs are in them, and what was published."""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from evenkeel.errors import SettingsError, one_of
from evenkeel.experiment.config import Config, load_config

Value = TypeVar("Value")
WIDTHS = {"full": 64, "slim": 20}  # of the paper's ResNet-18, and of the literature's small one
GIVEN = ("data", "limits", "scenario", "memory.capacity", "net", "seed", "name")  # not to be set
VARIANTS = {"as-released": ("-cba",), "as-paper": ("-cba-as-paper",), "both": ("-cba", "-cba-as-paper")}


@dataclass(frozen=True)
class PaperCell:
    """One row of a table under one heading: a setting, its runs by seed, and what the paper has."""

    data: str
    memory: int
    row: str
    values: list[float]  # one for each of the table's values; empty in a figure
    configs: list[Config]  # by seed

    @property
    def title(self) -> str:
        return self.configs[0].name


@dataclass(frozen=True)
class PaperTable:
    """A table or a figure of the paper, or the part of one that was asked for."""

    name: str  # table1
    title: str
    values: list[str]  # what its cells hold: measures by name, and "tasks" for the accuracy on each
    seeds: int  # of the paper
    slips: list[str]
    settings: list[str]  # given by the user, on top of the presets
    cells: list[PaperCell]

    @property
    def number(self) -> str:
        """Table 1."""
        return f"{self.name[:-1].capitalize()} {self.name[-1]}"

    def blocks(self) -> list[list[PaperCell]]:
        """The cells of one data set and one size of memory each."""
        found: dict[tuple[str, int], list[PaperCell]] = {}
        for cell in self.cells:
            found.setdefault((cell.data, cell.memory), []).append(cell)
        return list(found.values())

    def configs(self) -> list[Config]:
        """All runs, those of the first seed first: a table that is stopped early can be compared."""
        longest = max(len(cell.configs) for cell in self.cells)
        return [cell.configs[place] for place in range(longest) for cell in self.cells if place < len(cell.configs)]


@cache
def published() -> dict[str, Any]:
    return tomllib.loads((files("evenkeel.grids") / "published.toml").read_text(encoding="utf-8"))


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
    """A table or figure, or a part of it: some data sets, sizes of memory, methods (with and without CBA).

    seeds: from 0; by default as many as the paper has. cba: as in the released code, closer to the paper's text, or
    both. settings: on top of all, as in `--set`.
    """
    one_of("what to reproduce", name, published())
    one_of("net", net, WIDTHS)
    one_of("cba", cba, VARIANTS)
    table = published()[name]
    sets = _chosen("data set", data, table["cells"])
    sizes = _chosen("memory", memory, [int(size) for each in sets for size in table["cells"][each]])
    rows = [row for each in table["cells"].values() for block in each.values() for row in block]
    chosen = _chosen("method", methods, [*map(_base, rows), *rows])
    for setting in settings:
        part = setting.partition("=")[0].strip()
        if any(part == given or part.startswith(f"{given}.") for given in GIVEN):
            raise SettingsError(
                f"--set {setting}: a table of the paper is about its own data, tasks and seeds; --data-set, --memory, "
                "--net and --seeds choose among them. For other runs write a grid: `evenkeel grid`."
            )
    count = table["seeds"] if seeds is None else seeds
    found = PaperTable(name, table["title"], table["values"], table["seeds"], table["slips"], list(settings), [])
    # Tables need tests at task ends only; curves need points on the way.
    looking = ["evaluation.prequential=false", "evaluation.alignment=0"]
    looking += [] if table.get("curve") else ["evaluation.every=0"]
    fixed = [f"net.width={WIDTHS[net]}", *looking, *settings]
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
                    found.cells.append(PaperCell(each, size, variant, values, configs))
    if not found.cells:
        raise SettingsError(f"{found.number} has no cell with these data sets, sizes of memory and methods.")
    return found


def _base(row: str) -> str:
    """er-cba-64 is about er."""
    return row.partition("-cba")[0]


def _chosen(what: str, asked: Sequence[Value], there: Iterable[Value]) -> list[Value]:
    """What was asked for, or else all there is."""
    known = list(dict.fromkeys(there))
    for each in asked:
        one_of(what, each, known)
    return list(asked) or known


def without(cells: Sequence[PaperCell], cell: PaperCell) -> PaperCell | None:
    """The cell that the gain by CBA of `cell` is measured against."""
    if "-cba" not in cell.row:
        return None
    same = [each for each in cells if (each.data, each.memory, each.row) == (cell.data, cell.memory, _base(cell.row))]
    return same[0] if same else None
