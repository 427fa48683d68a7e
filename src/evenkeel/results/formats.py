"""Result tables as terminal text, Markdown, LaTeX, CSV and HTML."""

import csv
import re
from collections.abc import Callable
from html import escape
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evenkeel.errors import one_of
from evenkeel.results.groups import Estimate
from evenkeel.results.table import Cell, ResultTable, Shown, value_of


def render(sheet: ResultTable, format: str) -> str:
    """Return `sheet` in one of FORMATS, ending with a newline.

    >>> print(render(ResultTable("In percent", ["", "ACC"], [["ER", Estimate(52.06, 1.3, 5)]]), "markdown"), end="")
    In percent
    <BLANKLINE>
    |  | ACC |
    | :-- | --: |
    | ER | 52.1 ± 1.3 |
    """
    one_of("format", format, FORMATS)
    return _RENDERERS[format](sheet)


def to_rich(sheet: ResultTable) -> Table:
    """Return `sheet` for a terminal. Every string is a `Text`: rich would interpret brackets and colons in names."""
    table = Table(
        title=Text(_line(sheet.title), style="table.title"),
        title_justify="left",
        caption=Text("\n".join(map(_line, sheet.notes)), style="table.caption") if sheet.notes else None,
        caption_justify="left",
    )
    for column, words in zip(sheet.columns, sheet.in_words, strict=True):
        table.add_column(Text(_line(column)), justify="left" if words else "right")
    for place, row in enumerate(sheet.rows):
        table.add_row(*(Text(_text(cell)) for cell in row), style="bold" if place in sheet.bold else None)
    return table


def _text(cell: Cell) -> str:
    """Return a cell as people read it: rounded, on one line."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.1f}"
    return _line(cell.text if isinstance(cell, Shown) else str(cell))


def _line(text: str) -> str:
    """Replace characters that would break the line, control a terminal or be refused by a file."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text)


def _as_text(sheet: ResultTable) -> str:
    """Return the table as in a terminal, but at full width and without colours, for files and pipes."""
    file = StringIO()
    Console(file=file, width=100_000, color_system=None, force_jupyter=False).print(to_rich(sheet))
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def _markdown(sheet: ResultTable) -> str:
    def row(cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |"

    def cell(text: str, bold: bool) -> str:
        escaped = _in_markdown(text)
        return f"**{escaped}**" if bold and escaped else escaped

    lines = [
        row([_in_markdown(column) for column in sheet.columns]),
        row([":--" if words else "--:" for words in sheet.in_words]),
        *(row([cell(_text(each), place in sheet.bold) for each in cells]) for place, cells in enumerate(sheet.rows)),
    ]
    return "\n\n".join([_in_markdown(sheet.title), "\n".join(lines), *map(_in_markdown, sheet.notes)]) + "\n"


def _in_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|~&$])", r"\\\1", _line(text).strip())


def _latex(sheet: ResultTable) -> str:
    def row(cells: list[str]) -> str:
        return " & ".join(cells) + r" \\"

    def cell(each: Cell, bold: bool) -> str:
        escaped = _in_latex(_text(each))
        if not isinstance(value_of(each), str | None):
            escaped = escaped.replace("-", "$-$")  # a minus, not a hyphen
        return rf"\textbf{{{escaped}}}" if bold else escaped

    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_in_latex(sheet.title)}}}",
        rf"\begin{{tabular}}{{{''.join('l' if words else 'r' for words in sheet.in_words)}}}",
        r"\toprule",
        row([_in_latex(column) for column in sheet.columns]),
        r"\midrule",
        *(row([cell(each, place in sheet.bold) for each in cells]) for place, cells in enumerate(sheet.rows)),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\smallskip{{\footnotesize {_in_latex(note)}\par}}" for note in sheet.notes),
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


def _csv(sheet: ResultTable) -> str:
    """Return every digit, one number per field, one line per row, no title or notes; an estimate has three columns."""
    estimates = [any(isinstance(value_of(row[k]), Estimate) for row in sheet.rows) for k in range(len(sheet.columns))]
    header = list[str]()
    for column, estimated in zip(sheet.columns, estimates, strict=True):
        name = _line(column).rstrip(" ↑↓") or "name"
        header += [name, f"{name} half interval", f"{name} n"] if estimated else [name]
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    for row in sheet.rows:
        fields = list[str | float | None]()
        for cell, estimated in zip(row, estimates, strict=True):
            value = value_of(cell)
            if isinstance(value, Estimate):
                fields += [value.mean, value.half, value.n]
            else:
                kept = _line(value) if isinstance(value, str) else value
                fields += [kept, None, None] if estimated else [kept]
        writer.writerow(fields)
    return file.getvalue()


def _html(sheet: ResultTable) -> str:
    """Return a single <table> to embed in any page."""

    def row(tag: str, cells: list[str], bold: bool = False) -> str:
        tags = list[str]()
        for text, words in zip(cells, sheet.in_words, strict=True):
            content = f"<strong>{_in_html(text)}</strong>" if bold else _in_html(text)
            tags.append(f'<{tag} style="text-align: {"left" if words else "right"}">{content}</{tag}>')
        return f"<tr>{''.join(tags)}</tr>"

    lines = [
        "<table>",
        f"<caption>{_in_html(sheet.title)}</caption>",
        f"<thead>\n{row('th', sheet.columns)}\n</thead>",
        "<tbody>",
        *(row("td", [*map(_text, cells)], place in sheet.bold) for place, cells in enumerate(sheet.rows)),
        "</tbody>",
    ]
    if sheet.notes:
        notes = "<br>".join(map(_in_html, sheet.notes))
        lines.append(f'<tfoot>\n<tr><td colspan="{len(sheet.columns)}">{notes}</td></tr>\n</tfoot>')
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
