"""Tables in a terminal, folded to its width: nothing is cut off.

Text is folded between words, numbers are not. Columns that do not fit next to the others continue below, with the
columns that name the rows repeated.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

GAP = "  "  # between columns
HANG = "  "  # before the second and later lines of a folded text
WORD = 24  # cells of the longest word that gets a column wide enough for it
BREAK = re.compile(r"(?<! \+) (?![↑↓])")  # "ER + CBA" and "ACC ↑" keep their signs


@dataclass(frozen=True)
class Column:
    heading: str
    cells: Sequence[str]
    in_words: bool  # aligned left, and may be folded; numbers are aligned right

    @cached_property
    def most(self) -> int:
        """Return the width at which nothing is folded."""
        return max(map(cell_len, [self.heading, *self.cells]))

    @cached_property
    def least(self) -> int:
        """Return the width below which words would be broken, unless they are very long."""
        heading = max(map(cell_len, BREAK.split(self.heading)))
        if not self.in_words:
            return max([heading, *map(cell_len, self.cells)])
        return min(self.most, max([heading, *(_least(cell) for cell in self.cells)]))

    def aligned(self, text: str, width: int) -> str:
        space = " " * (width - cell_len(text))
        return f"{text}{space}" if self.in_words else f"{space}{text}"


@dataclass(frozen=True)
class FoldedTable:
    """A table that rich prints at the width of its console."""

    title: str
    columns: Sequence[Column]
    bold: Sequence[bool]  # by row
    notes: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield Text(self.title, style="table.title")
        for place, part in enumerate(_parts(self.columns, options.max_width)):
            yield from ([Text()] if place else [])
            yield from self._lines(part, _widths(part, options.max_width))
        for note in self.notes:
            yield Text(note, style="table.caption")

    def _lines(self, part: Sequence[Column], widths: Sequence[int]) -> Iterator[Text]:
        if any(column.heading for column in part):
            for line in _row(part, [column.heading for column in part], widths, bottom=True):
                yield Text(line, style="bold", no_wrap=True)
            yield Text("─" * (sum(widths) + len(GAP) * (len(widths) - 1)))
        for place, bold in enumerate(self.bold):
            for line in _row(part, [column.cells[place] for column in part], widths):
                yield Text(line, style="bold" if bold else "", no_wrap=True)


def without_repeats(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that name the rows, each but the last one blank where it would repeat the row above."""
    shown, same = list[Column](), [True] * len(columns[0].cells)
    for column in columns[:-1]:
        same = [k > 0 and before and column.cells[k] == column.cells[k - 1] for k, before in enumerate(same)]
        cells = ["" if repeated else cell for repeated, cell in zip(same, column.cells, strict=True)]
        shown.append(Column(column.heading, cells, column.in_words))
    return [*shown, columns[-1]]


def folded(text: str, width: int, hang: str = HANG) -> list[str]:
    """Return the text in lines of at most `width` cells. What indents it indents all lines; later ones also hang.

    >>> folded("ER + CBA (memory 20, lr 0.1)", 12)
    ['ER + CBA', '  (memory', '  20, lr', '  0.1)']
    """
    margin = " " * (len(text) - len(text.lstrip(" ")))
    lines, later = [margin], max(1, width - len(margin) - len(hang))
    for place, word in enumerate(BREAK.split(text.strip(" "))):
        room = later if place else width - len(margin)
        for piece in [word] if cell_len(word) <= room else chop_cells(word, later):
            gap = " " if lines[-1].strip(" ") else ""
            if gap and (piece is not word or cell_len(f"{lines[-1]} {piece}") > width):
                lines.append(margin + hang)
                gap = ""
            lines[-1] += gap + piece
    return lines


def _least(text: str) -> int:
    words = BREAK.split(text.strip(" "))
    margin = len(text) - len(text.lstrip(" "))
    return margin + min(WORD, max(map(cell_len, words))) + (len(HANG) if len(words) > 1 else 0)


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.least for column in columns) + len(GAP) * (len(columns) - 1)


def _parts(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """Return the columns in as few parts as fit, of similar widths; each begins with the columns that name the rows."""
    names = max(1, next((k for k, column in enumerate(columns) if not column.in_words), len(columns)))
    keys, others = without_repeats(columns[:names]), columns[names:]
    few = len(_filled(keys, others, width))
    narrow = next(each for each in range(1, width + 1) if len(_filled(keys, others, each)) == few)
    return _filled(keys, others, narrow)


def _filled(keys: Sequence[Column], others: Sequence[Column], width: int) -> list[list[Column]]:
    """Return parts of which each has as many of the `others` as fit."""
    parts = [[*keys, *others[:1]]]
    for column in others[1:]:
        if _needed([*parts[-1], column]) <= width:
            parts[-1].append(column)
        else:
            parts.append([*keys, column])
    return parts


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """Return the widths of columns: what they need, and of the rest most for the column that is folded most."""
    room = width - len(GAP) * (len(columns) - 1)
    if sum(column.most for column in columns) <= room:
        return [column.most for column in columns]
    widths = [column.least for column in columns]
    while sum(widths) > room and max(widths) > 1:  # a terminal too narrow for whole words
        widths[widths.index(max(widths))] -= 1
    for _ in range(room - sum(widths)):
        folds = [(column.in_words, column.most / each) for column, each in zip(columns, widths, strict=True)]
        place = max((k for k, column in enumerate(columns) if widths[k] < column.most), key=folds.__getitem__)
        widths[place] += 1
    return widths


def _row(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], *, bottom: bool = False) -> list[str]:
    """Return the lines of a row; `bottom`: of a heading, whose cells are at its bottom."""
    hangs = ["" if bottom or not column.in_words else HANG for column in columns]
    blocks = [folded(*each) for each in zip(cells, widths, hangs, strict=True)]
    height = max(map(len, blocks))
    for block in blocks:
        empty = [""] * (height - len(block))
        block[:] = [*empty, *block] if bottom else [*block, *empty]
    aligned = (
        GAP.join(column.aligned(each, width) for column, each, width in zip(columns, line, widths, strict=True))
        for line in zip(*blocks, strict=True)
    )
    return [line.rstrip() for line in aligned]
