"""The elements of a page. The template knows how each of them looks, and nothing about runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from markupsafe import Markup

from evenkeel.report.svg import inline
from evenkeel.results.groups import Estimate


@dataclass(frozen=True)
class PageCell:
    text: str
    best: bool = False


@dataclass(frozen=True)
class PageRow:
    head: str
    cells: Sequence[PageCell]
    note: str = ""  # shown as code below the whole row
    gain: bool = False  # a difference between the rows above


@dataclass(frozen=True)
class PageTable:
    part: ClassVar[str] = "table"
    caption: str
    columns: Sequence[str]  # the first one heads the column of row heads
    rows: Sequence[PageRow]
    folded: bool = False

    def split(self, most: int = 6) -> "list[PageTable]":
        """Split into tables with at most `most` columns, as many as fit on a sheet of paper."""
        parts = []
        for begin in range(0, len(self.columns) - 1, most):
            rows = [replace(row, cells=row.cells[begin : begin + most]) for row in self.rows]
            columns = [self.columns[0], *self.columns[1:][begin : begin + most]]
            caption = f"{self.caption} (continued)" if begin else self.caption
            parts.append(replace(self, caption=caption, columns=columns, rows=rows))
        return parts


@dataclass(frozen=True)
class Chart:
    title: str
    svg: str

    def inline(self, prefix: str) -> Markup:
        return inline(self.svg, prefix, self.title)


@dataclass(frozen=True)
class Charts:
    """Figures under one caption; small ones are placed side by side."""

    part: ClassVar[str] = "charts"
    caption: str
    charts: Sequence[Chart]
    small: bool = False


@dataclass(frozen=True)
class Note:
    part: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True)
class RunDetails:
    """What is known about one run, folded until opened."""

    part: ClassVar[str] = "sheet"
    title: str
    facts: Sequence[tuple[str, str]]
    code: str
    printed: bool  # also on paper: only the first of a group, because the others differ from it only in the seed


@dataclass(frozen=True)
class Section:
    title: str
    parts: Sequence[PageTable | Charts | Note | RunDetails]

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


def minus(text: str) -> str:
    return text.replace("-", "\u2212")


def number(estimate: Estimate | None, *, signed: bool = False, expected: int | None = None) -> str:
    """Return mean and half interval to one decimal, with the number of runs if it differs from `expected`."""
    if estimate is None:
        return ABSENT
    mean = estimate.mean if abs(estimate.mean) >= 0.05 else 0.0  # no "-0.0"
    digits = ",.0f" if abs(mean) >= 1000 else ".1f"
    text = minus(f"{mean:{'+' if signed and mean else ''}{digits}}")
    text += f" ± {estimate.half:{digits}}" if estimate.half is not None else ""
    return text if expected in (None, estimate.n) else f"{text} (n = {estimate.n})"
