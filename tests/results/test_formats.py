"""Tables in each format: nothing is lost or cut off, and no name is interpreted as markup."""

import csv
import re
import sys
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from evenkeel.cli import console
from evenkeel.errors import SettingsError
from evenkeel.results.formats import FORMATS, render, text_of, to_rich
from evenkeel.results.groups import Estimate, gain, groups, paired, pairs
from evenkeel.results.measures import MEASURES
from evenkeel.results.overview import measures_table
from evenkeel.results.table import Cell, ResultTable, Row
from tests.helpers.commands import call
from tests.helpers.runs import make_run, make_runs

HOSTILE = r"[a] *b* & 50% $x$ #1 _c_ {d} ~e^2 \end{tabular} | <b onclick='f()'>\"</b> `g` :smile: [red]h[/red]"
SMALL = ResultTable(
    "Title",
    ["", "ACC ↑", "p", "n"],
    [
        Row.of("ER", Cell(Estimate(52.0612345678901, 1.3, 5), best=True), 0.05, 5, note="a formula"),
        Row.of(
            Cell("ER: gain", "  gain"),
            Cell(Estimate(-0.1 - 0.2, None, 1), signed=True),
            Cell(1e-17, "<0.001"),
            None,
            bold=True,
        ),
    ],
    ["A note.", "Another."],
)


def fields(text: str) -> list[list[str]]:
    return list(csv.reader(StringIO(text), strict=True))


def test_csv_has_every_digit() -> None:
    assert fields(render(SMALL, "csv")) == [
        ["name", "ACC", "ACC half interval", "ACC n", "p", "n"],
        ["ER", "52.0612345678901", "1.3", "5", "0.05", "5"],
        ["ER: gain", repr(-0.1 - 0.2), "", "1", "1e-17", ""],
    ]


TEXTS = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" ,;\"'"))
FLOATS = st.floats(allow_nan=False)


@given(st.lists(st.tuples(TEXTS, FLOATS, FLOATS), min_size=1))
def test_csv_reads_back(rows: list[tuple[str, float, float]]) -> None:
    sheet = ResultTable(
        "", ["a", "b", "c"], [Row.of(name, value, Estimate(mean, value, 3)) for name, value, mean in rows]
    )
    _, *found = fields(render(sheet, "csv"))
    assert [(name, float(b), float(c), float(half), n) for name, b, c, half, n in found] == [
        (name, value, mean, value, "3") for name, value, mean in rows
    ]


def test_csv_has_a_line_for_each_row() -> None:
    text = render(ResultTable("", ["a\nb"], [*map(Row.of, ("two\nlines", "\r", "\x00\ud800"))]), "csv")
    assert text.encode().decode().split("\n") == ["a b", "two lines", " ", "\ufffd\ufffd", ""]


def test_people_read_rounded_numbers() -> None:
    assert render(SMALL, "markdown").splitlines() == [
        "Title",
        "",
        "|  | ACC ↑ | p | n |",
        "| :-- | --: | --: | --: |",
        "| ER | 52.1 ± 1.3 | 0.1 | 5 |",
        r"| **gain** | **-0.3** | **\<0.001** | **-** |",
        "",
        "A note.",
        "",
        "Another.",
    ]
    assert render(SMALL, "text").splitlines() == [
        "Title",
        "             ACC ↑       p  n",
        "─────────────────────────────",
        "ER      52.1 ± 1.3     0.1  5",
        "  gain        -0.3  <0.001  -",
        "A note.",
        "Another.",
    ]


def test_latex_sets_the_best_mean_bold_and_gains_apart_as_the_report_does() -> None:
    lines = render(SMALL, "latex").splitlines()
    assert r"ER & \textbf{52.1 $\pm$ 1.3} & 0.1 & 5 \\" in lines
    assert r"\textit{gain} & \textit{$-$0.3} & \textit{$<$0.001} & \textit{-} \\" in lines


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((Estimate(1.0, 2.0, 3), "+1.0 ± 2.0"), (Estimate(-1.0, None, 1), "-1.0"), (0.0, "+0.0"), (None, "-")),
        (Estimate.of([-1.0, 4.0]), "+1.5 (-1.0, +4.0)"),
    ],
)
def test_a_difference_has_a_sign(value: Estimate | float | None, text: str) -> None:
    assert text_of(Cell(value, signed=True)) == text


def hostile(text: str) -> ResultTable:
    """Return a table with the text everywhere a text may be."""
    return ResultTable(text, [text, "n"], [Row.of(text, 1.0), Row.of(Cell("x", text), 2.0, bold=True)], [text])


def test_markdown_with_hostile_names() -> None:
    title, table, note = render(hostile(f"{HOSTILE}\n# new"), "markdown").rstrip("\n").split("\n\n")
    assert title == note
    assert len(table.splitlines()) == 4
    for line in table.splitlines():
        assert len(re.split(r"(?<!\\)(?:\\\\)*\|", line)) == 4  # two cells, each with a bar on both sides
    plain = re.sub(r"\\(.)", "", title)  # without escaped characters
    assert not set("`*_[]<>|~&$\\") & set(plain)
    assert re.sub(r"\\(.)", r"\1", title) == f"{HOSTILE} # new"


LATEX = {
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"$\pm$": "±",
    r"$\uparrow$": "↑",
    r"$\downarrow$": "↓",
    **{f"${each}$": each for each in "<>|"},
    **{f"{{{each}}}": each for each in "[]*"},
    **{f"\\{each}": each for each in "&%$#_{}"},
}


def unlatex(text: str) -> str:
    """Return what LaTeX would print; fail on a character that it would interpret."""
    known = "|".join(map(re.escape, LATEX))
    assert re.fullmatch(rf"(?:{known}|[^\\&%$#_{{}}~^<>|\[\]*±↑↓\n])*", text), text
    return re.sub(known, lambda found: LATEX[found[0]], text)


@pytest.mark.parametrize(
    "text", [HOSTILE, "[1ex]", "*", "5 ± 1 ↑ ↓", "two\nlines\r% and more", "\\", "$$", "{}"], ids=lambda text: text[:5]
)
def test_latex_with_hostile_names(text: str) -> None:
    lines = render(hostile(text), "latex").splitlines()
    shown = re.sub(r"[\n\r]", " ", text)
    assert unlatex(lines[3].removeprefix(r"\caption{").removesuffix("}")) == shown
    assert [line for line in lines if line.startswith((r"\begin", r"\end", r"\top", r"\mid", r"\bottom"))] == [
        *(r"\begin{table}", r"\begin{tabular}{lr}", r"\toprule", r"\midrule"),
        *(r"\bottomrule", r"\end{tabular}", r"\end{table}"),
    ]
    heading, _, first, second = lines[6:10]
    assert unlatex(heading.removesuffix(r" & n \\")) == shown
    assert unlatex(first.removesuffix(r" & 1.0 \\")) == shown
    assert unlatex(second.removeprefix(r"\textit{").removesuffix(r"} & \textit{2.0} \\")) == shown
    (note,) = (line for line in lines if line.startswith(r"\par"))
    assert unlatex(note.removeprefix(r"\par\smallskip{\footnotesize ").removesuffix(r"\par}")) == shown


class _Parsed(HTMLParser):
    """The tags of a page, all closed, and the texts between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag != "br":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data)


@pytest.mark.parametrize(
    "text",
    [HOSTILE, "</td></table><script>alert(1)</script>", "&amp;", "<!--", "a\x1b\x00b"],
    ids=["all", "script", "entity", "comment", "control"],
)
def test_html_with_hostile_names(text: str) -> None:
    page = _Parsed(render(hostile(text), "html"))
    assert page.tags == {"table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td", "strong"}
    assert page.attributes == {"style", "colspan"}
    shown = re.sub(r"[\x00\x1b]", "\ufffd", text)
    assert page.texts == [shown, shown, "n", shown, "1.0", shown, "2.0", shown]


def test_text_is_never_cut_or_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("FORCE_COLOR", "1")
    names = [f"column {place} {'x' * 30}" for place in range(30)]
    sheet = ResultTable("Title", ["", *names], [Row.of(HOSTILE * 5, *map(float, range(30)), bold=True)])
    text = render(sheet, "text")
    assert "\x1b" not in text
    assert all(any(name in line for line in text.splitlines()) for name in [*names, HOSTILE * 5])
    assert len(text.splitlines()) == 4


def test_a_terminal_interprets_no_name() -> None:
    console = Console(width=400, file=StringIO(), record=True)  # with markup and emoji, as a user's console may be
    console.print(to_rich(hostile(f"{HOSTILE}\x1b[2J")))
    assert console.export_text().count(f"{HOSTILE}\ufffd[2J") == 5


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_ends_with_one_newline(format: str) -> None:
    for sheet in (SMALL, ResultTable("", ["a"], [])):
        assert re.search(r"[^\n]\n\Z", render(sheet, format))


def test_an_unknown_format() -> None:
    with pytest.raises(SettingsError, match=r"format='latx' is not one of 'text', .* Did you mean 'latex'"):
        render(SMALL, "latx")


def test_the_measures_equal_those_in_the_terminal() -> None:
    runs = [*make_runs(3, ["ER"]), make_run("DER++", data="cifar10", stop=90)]
    sheet = measures_table(runs, ["acc", "fwt"])
    ((without, with_),) = pairs(groups(runs))
    home = "digits, disjoint"
    common, (acc, fwt) = paired(without, with_), (MEASURES[name] for name in ("acc", "fwt"))
    assert sheet.columns == ["on", "", "ACC ↑", "FWT ↑"]
    assert sheet.rows == [
        Row.of(home, "ER", without.estimate(acc), without.estimate(fwt)),
        Row.of(home, "ER + CBA", with_.estimate(acc), with_.estimate(fwt)),
        Row.of(
            home,
            Cell("ER + CBA: gain by CBA, paired", "  gain by CBA, paired"),
            *(Cell(gain(each, common), signed=True) for each in (acc, fwt)),
            bold=True,
        ),
        Row.of("cifar10, disjoint", "DER++ (1 unfinished)", None, None),
    ]
    console = Console(width=200, file=StringIO(), record=True)
    console.print(to_rich(measures_table(runs, ["acc", "fwt"])))
    assert [line.rstrip() for line in console.export_text().splitlines()] == render(sheet, "text").splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        for adaptor in (False, True):
            make_run("ER + CBA" if adaptor else "ER", seed=seed, adaptor=adaptor, folder=made / f"{seed}{adaptor}")
    return made


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "table", str(folder), "--format", "csv", "--measures", "acc, wc_acc,acc")
    assert (code, err) == (0, "")
    header, *rows = fields(out)
    assert header == [
        *("name", "ACC", "ACC half interval", "ACC n"),
        *("worst-case accuracy", "worst-case accuracy half interval", "worst-case accuracy n"),
    ]
    assert [row[0] for row in rows] == ["ER", "ER + CBA", "ER + CBA: gain by CBA, paired"]
    assert {row[3] for row in rows} == {"3"}
    path = tmp_path / "new" / "table.tex"
    code, out, _ = call(capsys, "table", str(folder), "--format", "latex", "-o", str(path))
    assert code == 0
    assert str(path) in out.replace("\n", "")
    assert path.read_text().startswith("% \\usepackage{booktabs}")
    (folder / "empty").mkdir(exist_ok=True)
    (folder / "empty" / "records.jsonl").touch()
    code, out, err = call(capsys, "table", str(folder), "--measures", ",".join(MEASURES))
    assert code == 0
    assert "Left out" in err
    lines = out.splitlines()
    assert len(lines) == 1 + 2 + 3  # wider than any screen, and still one line per row
    assert all(measure.title in lines[1] for measure in MEASURES.values())


def test_a_terminal_gets_what_fits(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", 50)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, _ = call(capsys, "table", str(folder))
    assert code == 0
    assert max(map(len, out.splitlines())) <= 50
    assert max(map(len, call(capsys, "table", str(folder), "--format", "csv")[1].splitlines())) > 50


WRONG: dict[str, tuple[list[str], str]] = {
    "measure": (["--measures", "acc,fmm"], "measures='fmm' is not one of 'acc', .*Did you mean 'fm'"),
    "no measure": (["--measures", ""], "measures='' is not one of"),
    "format": (["--format", "htm"], "format='htm' is not one of .*Did you mean 'html'"),
    "file": (["-o", "/"], "Cannot write the table to '/': Is a directory"),
}


@pytest.mark.parametrize(("arguments", "sentence"), WRONG.values(), ids=WRONG)
def test_an_error_is_one_message(
    arguments: list[str], sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, "table", str(folder), *arguments)
    assert (code, out) == (1, "")
    assert re.search(sentence, err.replace("\n", " ")), err
    assert "Traceback" not in err


def test_no_run_has_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "records.jsonl").touch()
    code, _, err = call(capsys, "table", str(tmp_path))
    assert code == 1
    assert "has begun" in err
