"""A table of results: its content, apart from the format it is shown in."""

from dataclasses import dataclass, field

from evenkeel.results.groups import Estimate


@dataclass(frozen=True)
class Shown:
    """A value that people read as another text, with a sign or more digits, say; CSV has the value itself."""

    value: str | float | Estimate
    text: str


Cell = str | int | float | Estimate | Shown | None  # None where there is no such thing


@dataclass(frozen=True)
class ResultTable:
    """Columns with words in them are aligned left, the others hold numbers and are aligned right."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]
    notes: list[str] = field(default_factory=list)
    bold: frozenset[int] = frozenset()  # indices of rows

    @property
    def in_words(self) -> list[bool]:
        """By column."""
        return [any(isinstance(value_of(row[place]), str) for row in self.rows) for place in range(len(self.columns))]


def signed(difference: Estimate | None) -> Cell:
    """With a plus where it is above zero."""
    if difference is None:
        return None
    text = str(difference)
    return Shown(difference, text if text.startswith("-") else f"+{text}")


def value_of(cell: Cell) -> str | int | float | Estimate | None:
    return cell.value if isinstance(cell, Shown) else cell
