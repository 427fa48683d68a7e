"""Result tables as terminal text, Markdown, LaTeX, CSV and HTML."""

import csv
import re
from collections.abc import Callable
from html import escape
from io import StringIO

from rich.console import Console

from evenkeel.errors import one_of
from evenkeel.results.groups import Estimate
from evenkeel.results.table import Cell, ResultTable
from evenkeel.results.terminal import Column, FoldedTable


def render(table: ResultTable, format: str) -> str:
    """Return `table` in one of FORMATS, ending with a newline.

    >>> from evenkeel.results.table import Row
    >>> rows = [Row.of("ER", Estimate(52.06, 1.3, 5))]
    >>> print(render(ResultTable("In percent", ["", "ACC"], rows), "markdown"), end="")
    In percent
    <BLANKLINE>
    |  | ACC |
    | :-- | --: |
    | ER | 52.1 ± 1.3 |
    """
    one_of("format", format, FORMATS)
    return _RENDERERS[format](table)


def to_rich(table: ResultTable) -> FoldedTable:
    """Return `table` for a terminal, folded to its width. Brackets and colons in names are not interpreted."""
    columns = [
        Column(_line(heading), [text_of(row.cells[place]) for row in table.rows], words)
        for place, (heading, words) in enumerate(zip(table.columns, table.in_words, strict=True))
    ]
    return FoldedTable(_line(table.title), columns, [row.bold for row in table.rows], [*map(_line, table.notes)])


def text_of(cell: Cell) -> str:
    """Return a cell as people read it: rounded, on one line."""
    if cell.text or cell.value is None:
        return _line(cell.text or "-")
    form = f"{'+' * cell.signed}.{cell.digits}f"
    if isinstance(cell.value, Estimate):
        return cell.value.text(form)
    return f"{cell.value:{form}}" if isinstance(cell.value, float) else _line(str(cell.value))


def _line(text: str) -> str:
    """Replace characters that would break the line, control a terminal or be refused by a file."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text)


def _as_text(table: ResultTable) -> str:
    """Return the table as in a terminal, but at full width and without colours, for files and pipes."""
    file = StringIO()
    Console(file=file, width=100_000, color_system=None, force_jupyter=False).print(to_rich(table))
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def _markdown(table: ResultTable) -> str:
    def row(cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |"

    def cell(text: str, bold: bool) -> str:
        escaped = _in_markdown(text)
        return f"**{escaped}**" if bold and escaped else escaped

    lines = [
        row([_in_markdown(column) for column in table.columns]),
        row([":--" if words else "--:" for words in table.in_words]),
        *(row([cell(text_of(each), line.bold) for each in line.cells]) for line in table.rows),
    ]
    return "\n\n".join([_in_markdown(table.title), "\n".join(lines), *map(_in_markdown, table.notes)]) + "\n"


def _in_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|~&$])", r"\\\1", _line(text).strip())


def _latex(table: ResultTable) -> str:
    def row(cells: list[str]) -> str:
        return " & ".join(cells) + r" \\"

    def cell(each: Cell, apart: bool) -> str:
        escaped = _in_latex(text_of(each))
        if not isinstance(each.value, str | None):
            escaped = escaped.replace("-", "$-$")  # a minus, not a hyphen
        if apart:
            return rf"\textit{{{escaped}}}"  # as in reports: bold is the best mean
        return rf"\textbf{{{escaped}}}" if each.best else escaped

    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_in_latex(table.title)}}}",
        rf"\begin{{tabular}}{{{''.join('l' if words else 'r' for words in table.in_words)}}}",
        r"\toprule",
        row([_in_latex(column) for column in table.columns]),
        r"\midrule",
        *(row([cell(each, line.bold) for each in line.cells]) for line in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\smallskip{{\footnotesize {_in_latex(note)}\par}}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


# Brackets and stars are escaped too: right after \\ LaTeX would read them as its arguments.
_LATEX = str.maketrans(
    {each: f"\\{each}" for each in "&%$#_{}"}
    | {each: f"{{{each}}}" for each in "[]*"}
    | {each: f"${each}$" for each in "<>|"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "→": r"$\rightarrow$"}
)


def _in_latex(text: str) -> str:
    return _line(text).strip().translate(_LATEX)


def _csv(table: ResultTable) -> str:
    """Return every digit, one number per field, one line per row, no title or notes; an estimate has three columns.

    A fourth says which are the best, as 1 or 0, if the table has a name for it.
    """
    estimates = [any(isinstance(row.cells[k].value, Estimate) for row in table.rows) for k in range(len(table.columns))]
    marks = [bool(table.best_means) and any(row.cells[k].best for row in table.rows) for k in range(len(table.columns))]
    header = list[str]()
    for column, estimated, marked in zip(table.columns, estimates, marks, strict=True):
        name = _line(column).rstrip(" ↑↓") or "name"
        header += [name, f"{name} half interval", f"{name} n"] if estimated else [name]
        header += [f"{name} {table.best_means}"] if marked else []
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    for row in table.rows:
        fields = list[str | float | None]()
        for cell, estimated, marked in zip(row.cells, estimates, marks, strict=True):
            value = cell.value
            if isinstance(value, Estimate):
                fields += [value.mean, value.half, value.n]
            else:
                kept = _line(value) if isinstance(value, str) else value
                fields += [kept, None, None] if estimated else [kept]
            fields += [int(cell.best)] if marked else []
        writer.writerow(fields)
    return file.getvalue()


def _html(table: ResultTable) -> str:
    """Return a single <table> to embed in any page."""

    def row(tag: str, cells: list[str], bold: bool = False) -> str:
        tags = list[str]()
        for text, words in zip(cells, table.in_words, strict=True):
            content = f"<strong>{_in_html(text)}</strong>" if bold else _in_html(text)
            tags.append(f'<{tag} style="text-align: {"left" if words else "right"}">{content}</{tag}>')
        return f"<tr>{''.join(tags)}</tr>"

    lines = [
        "<table>",
        f"<caption>{_in_html(table.title)}</caption>",
        f"<thead>\n{row('th', table.columns)}\n</thead>",
        "<tbody>",
        *(row("td", [*map(text_of, line.cells)], line.bold) for line in table.rows),
        "</tbody>",
    ]
    if table.notes:
        notes = "<br>".join(map(_in_html, table.notes))
        lines.append(f'<tfoot>\n<tr><td colspan="{len(table.columns)}">{notes}</td></tr>\n</tfoot>')
    return "\n".join([*lines, "</table>"]) + "\n"


def _in_html(text: str) -> str:
    return escape(_line(text).strip())


_RENDERERS: dict[str, Callable[[ResultTable], str]] = {
    "text": _as_text,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "html": _html,
}
FORMATS = tuple(_RENDERERS)
