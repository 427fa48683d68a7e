"""The elements of a page. The template knows how each of them looks, and nothing about runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from evenkeel.report.svg import inline
from evenkeel.results.formats import text_of
from evenkeel.results.groups import Estimate
from evenkeel.results.table import Cell, ResultTable


@dataclass(frozen=True)
class Chart:
    title: str
    svg: str

    def inline(self, prefix: str) -> Markup:
        return inline(self.svg, prefix, self.title)


@dataclass(frozen=True)
class Charts:
    """Figures under one caption; small ones are placed side by side."""

    caption: str
    charts: Sequence[Chart]
    small: bool = False


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
    parts: Sequence[ResultTable | Charts | Note | RunDetails]

    @property
    def slug(self) -> str:
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


@dataclass(frozen=True)
class PageBlock:
    """One comparison: the runs on one data set and scenario."""

    title: str
    findings: Sequence[str]
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section] = field(default_factory=list)


ABSENT = "\u2013"


def split(table: ResultTable, most: int = 6) -> list[ResultTable]:
    """Split into tables with at most `most` columns besides the first, as many as fit on a sheet of paper."""
    parts = []
    for begin in range(1, len(table.columns), most):
        kept = [0, *range(begin, min(begin + most, len(table.columns)))]
        rows = [replace(row, cells=[row.cells[k] for k in kept]) for row in table.rows]
        title = f"{table.title} (continued)" if begin > 1 else table.title
        parts.append(replace(table, title=title, columns=[table.columns[k] for k in kept], rows=rows))
    return parts


def shown(cell: Cell) -> str:
    """Return a cell as a page shows it."""
    if isinstance(cell.value, str):
        return unbroken(text_of(cell).strip())
    if isinstance(cell.value, Estimate):
        return number(cell.value, signed=cell.signed)
    return ABSENT if cell.value is None else minus(text_of(cell))


def unbroken(heading: str) -> str:
    """Keep an arrow on the line of its measure."""
    return heading.replace(" ↑", "\u00a0↑").replace(" ↓", "\u00a0↓")


def minus(text: str) -> str:
    return text.replace("-", "\u2212")


def number(estimate: Estimate, *, signed: bool = False) -> str:
    """Return mean and half interval (or values) to one decimal, with the number of runs if some have no value."""
    mean = estimate.mean if abs(estimate.mean) >= 0.05 else 0.0  # no "-0.0"
    digits = ",.0f" if abs(mean) >= 1000 else ".1f"
    text = minus(replace(estimate, mean=mean).text(("+" if signed and mean else "") + digits))
    return f"{text} (n = {estimate.n})" if estimate.missing else text
