"""The elements of a page. The template knows how each of them looks, and nothing about runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from evenkeel.report.svg import Picture, inline
from evenkeel.results.formats import text_of
from evenkeel.results.groups import Estimate
from evenkeel.results.table import Cell, ResultTable


@dataclass(frozen=True)
class Chart:
    title: str
    picture: Picture

    def inline(self, prefix: str) -> Markup:
        return inline(self.picture.svg, prefix, self.title)


@dataclass(frozen=True)
class Charts:
    """Figures under one caption; small ones are placed side by side."""

    caption: str
    charts: Sequence[Chart]
    small: bool = False

    @property
    def folded(self) -> bool:
        """Return whether they are too many to look at without being asked for."""
        return len(self.charts) > MOST_OPEN


@dataclass(frozen=True)
class BigNumber:
    """What a reader should remember."""

    value: str
    about: str


@dataclass(frozen=True)
class Facts:
    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class RunDetails:
    """What is known about one run, folded until opened."""

    title: str
    facts: Sequence[tuple[str, str]]
    code: str
    printed: bool  # also on paper: only the first of a group, because the others differ from it only in the seed


@dataclass(frozen=True)
class Section:
    title: str
    parts: Sequence["Part"]

    @property
    def slug(self) -> str:
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


@dataclass(frozen=True)
class PageBlock:
    """One comparison: the runs on one data set and scenario."""

    title: str
    findings: Sequence[str]
    sections: Sequence[Section]
    answer: Sequence[Charts | BigNumber] = ()  # below the findings, side by side


Part = ResultTable | Charts | Note | Facts | RunDetails
ABSENT = "\u2013"
WIDEST = 6  # columns of a table, besides the first, that fit on a sheet of paper
MOST_OPEN = 12  # charts under one caption; more are folded
LONGEST = 160  # letters of a fact or title; more are folded or cut off


def split(table: ResultTable, most: int = WIDEST) -> list[ResultTable]:
    """Split into tables with at most `most` columns besides the first."""
    parts = []
    for begin in range(1, len(table.columns), most):
        kept = [0, *range(begin, min(begin + most, len(table.columns)))]
        rows = [replace(row, cells=[row.cells[k] for k in kept]) for row in table.rows]
        title = f"Continued: {table.columns[kept[1]]} to {table.columns[kept[-1]]}" if begin > 1 else table.title
        folded = table.folded or begin > 1
        parts.append(replace(table, title=title, columns=[table.columns[k] for k in kept], rows=rows, folded=folded))
    return parts


def shown(cell: Cell) -> str:
    """Return a cell as a page shows it."""
    if isinstance(cell.value, str):
        return unbroken(text_of(cell).strip())
    if isinstance(cell.value, Estimate):
        return number(cell.value, signed=cell.signed, digits=cell.digits)
    return ABSENT if cell.value is None else minus(text_of(cell))


def unbroken(heading: str) -> str:
    """Keep an arrow on the line of its measure."""
    return heading.replace(" ↑", "\u00a0↑").replace(" ↓", "\u00a0↓")


def minus(text: str) -> str:
    return text.replace("-", "\u2212")


def number(estimate: Estimate, *, signed: bool = False, digits: int = 1) -> str:
    """Return mean and half interval (or values), rounded, with the number of runs if some have no value."""
    mean = estimate.mean if abs(estimate.mean) >= 0.5 * 10**-digits else 0.0  # no "-0.0"
    form = ",.0f" if abs(mean) >= 1000 else f".{digits}f"
    text = minus(replace(estimate, mean=mean).text(("+" if signed and mean else "") + form))
    return f"{text} (n = {estimate.n})" if estimate.missing else text
