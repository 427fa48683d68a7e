"""The content of a table of results, independent of the format it is shown in."""

from dataclasses import dataclass, field, replace

from evenkeel.results.groups import Estimate

Value = str | int | float | Estimate | None  # None if there is no value


@dataclass(frozen=True)
class Cell:
    value: Value  # CSV has the value itself, with every digit
    text: str = ""  # what people see instead
    signed: bool = False  # a difference: people see its sign
    digits: int = 1  # that people see after the point
    best: bool = False  # among the groups of the table; reports show it in bold


@dataclass(frozen=True)
class Row:
    cells: list[Cell]
    bold: bool = False  # set apart from the rows above, such as their difference
    note: str = ""  # below the row, in reports

    @classmethod
    def of(cls, *values: Value | Cell, bold: bool = False, note: str = "") -> "Row":
        """Return a row of cells and of values that need no more than to be shown."""
        return cls([each if isinstance(each, Cell) else Cell(each) for each in values], bold, note)


@dataclass(frozen=True)
class ResultTable:
    """A table whose columns are aligned left if they contain words, or else hold numbers and are aligned right."""

    title: str
    columns: list[str]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    folded: bool = False  # in reports, closed until the reader opens it
    best_means: str = ""  # what CSV calls a column that says which numbers are the best; none if it is empty

    @property
    def in_words(self) -> list[bool]:
        """Return for each column whether it contains words."""
        return [any(isinstance(row.cells[k].value, str) for row in self.rows) for k in range(len(self.columns))]

    def on(self, place: str) -> "ResultTable":
        """Return the table with a first column that says what its numbers are on, to tell it from others like it."""
        rows = [replace(row, cells=[Cell(place), *row.cells]) for row in self.rows]
        return replace(self, columns=["on", *self.columns], rows=rows)

    def transposed(self, corner: str) -> "ResultTable":
        """Return the table with rows as columns; `corner` heads the new first column. Notes of rows are dropped."""
        columns = [corner, *((row.cells[0].text or str(row.cells[0].value)).strip() for row in self.rows)]
        rows = [Row.of(name, *(row.cells[k] for row in self.rows)) for k, name in enumerate(self.columns) if k]
        return ResultTable(self.title, columns, rows, self.notes, self.folded)
