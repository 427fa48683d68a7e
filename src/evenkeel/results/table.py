"""The content of a table of results, independent of the format it is shown in."""

from dataclasses import dataclass, field

from evenkeel.results.groups import Estimate


@dataclass(frozen=True)
class Shown:
    """A value that people see as another text, for example with a sign or more digits; CSV has the value itself."""

    value: str | float | Estimate
    text: str


Cell = str | int | float | Estimate | Shown | None  # None if there is no value


@dataclass(frozen=True)
class ResultTable:
    """A table whose columns are aligned left if they contain words, or else hold numbers and are aligned right."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]
    notes: list[str] = field(default_factory=list)
    bold: frozenset[int] = frozenset()  # indices of rows

    @property
    def in_words(self) -> list[bool]:
        """Return for each column whether it contains words."""
        return [any(isinstance(value_of(row[place]), str) for row in self.rows) for place in range(len(self.columns))]


def signed(difference: Estimate | None) -> Cell:
    """Return the difference as a cell with an explicit sign."""
    if difference is None:
        return None
    text = str(difference)
    return Shown(difference, text if text.startswith("-") else f"+{text}")


def value_of(cell: Cell) -> str | int | float | Estimate | None:
    return cell.value if isinstance(cell, Shown) else cell
