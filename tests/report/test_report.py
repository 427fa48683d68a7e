"""The HTML report: its numbers by hand, strange runs, strange names, and a real browser."""

import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from evenkeel.errors import RunError
from evenkeel.report.answer import findings
from evenkeel.report.comparison import comparison, measures, what_was_compared
from evenkeel.report.elements import Facts, Section, shown
from evenkeel.report.page import write_report
from evenkeel.report.scene import Scene
from evenkeel.report.sections import anytime_curves
from evenkeel.report.svg import draw, inline, printable
from evenkeel.results.formats import text_of
from evenkeel.results.measures import HEADLINE, MEASURES
from evenkeel.results.overview import measures_table
from evenkeel.results.run_files import Results
from evenkeel.results.table import ResultTable
from tests.helpers.runs import make_run, make_runs

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EVIL = "<script>window.caught = 1</script>\"'><img src=x onerror='window.caught=1'>$_{\\alpha$"
T_975 = {3: 4.302652730, 5: 2.776445105}  # Student's t, 97.5%, n - 1 degrees of freedom, from a table


class _Page(HTMLParser):
    """Tables, headings, texts and ids of a page whose tags are all closed."""

    VOID = ("meta", "br", "img", "link", "input", "hr")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.bold: list[tuple[int, int, int]] = []  # table, row, column
        self.headings: list[str] = []
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.code: list[str] = []
        self.svgs = 0
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self._open.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids[value] += 1
            if name in ("href", "src") and value:
                self.links.append(value)
        self.svgs += tag == "svg"
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag in ("h1", "h2", "h3"):
            self.headings.append("")
        elif tag == "pre":
            self.code.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self._open):
            self.tables[-1][-1][-1] += data.strip()
            if "strong" in self._open:
                self.bold.append((len(self.tables) - 1, len(self.tables[-1]) - 1, len(self.tables[-1][-1]) - 1))
        elif self._open and self._open[-1] in ("h1", "h2", "h3"):
            self.headings[-1] += data
        elif self._open and self._open[-1] == "pre":
            self.code[-1] += data


def _write(runs: list[Results], folder: Path) -> tuple[_Page, str]:
    path = folder / "report.html"
    write_report(runs, path)
    html = path.read_text()
    page = _Page(html)
    assert all(count == 1 for count in page.ids.values())
    assert all(link.startswith(("#", "data:image/png")) for link in page.links)
    assert all(link[1:] in page.ids for link in page.links if link.startswith("#"))
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(page.ids)
    return page, html


def _number(mean: float, half: float | None, *, signed: bool = False) -> str:
    text = (f"{mean:+.1f}" if signed else f"{mean:.1f}").replace("-", "\u2212")
    return text if half is None else f"{text} ± {half:.1f}"


def _estimate(values: list[float], *, signed: bool = False) -> str:
    n = len(values)
    if n < 3:
        each = ", ".join(_number(value, None, signed=signed) for value in values)
        return _number(sum(values) / n, None, signed=signed) + (f" ({each})" if n > 1 else "")
    half = T_975[n] * float(np.std(values, ddof=1)) / n**0.5
    return _number(sum(values) / n, half, signed=signed)


def _acc(run: Results) -> float:
    return float(np.mean(run.tested[-1].accuracy))


def _fm(run: Results) -> float:
    rows = [test.accuracy for test in run.tested[1:]]
    drops = [max(row[task] for row in rows) - rows[-1][task] for task in range(len(rows) - 1)]
    return sum(drops) / len(drops)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def four(folder: Path) -> tuple[list[Results], _Page, str]:
    """ER and DER++ without and with CBA, on three seeds."""
    runs = make_runs(3)
    return runs, *_write(runs, folder)


def _of(runs: list[Results], label: str) -> list[Results]:
    return [run for run in runs if run.label == label]


def test_comparison_by_hand(four: tuple[list[Results], _Page, str]) -> None:
    runs, page, _ = four
    header, *rows = page.tables[0]
    assert header[1:3] == ["ACC\u00a0↑", "FM\u00a0↓"]
    assert [row[0] for row in rows] == [
        *("ER", "ER + CBA", "gain by CBA, paired"),
        *("DER++", "DER++ + CBA", "gain by CBA, paired"),
    ]
    for row in rows:
        if not row[0].startswith("gain"):
            mine = _of(runs, row[0])
            assert row[1:3] == [_estimate([_acc(run) for run in mine]), _estimate([_fm(run) for run in mine])]
            within = [[test.masked[test.task] for test in run.finished_tasks] for run in mine]
            assert row[3] == _estimate([float(np.mean(accuracies)) for accuracies in within])
            assert row[4] == _estimate([float(np.mean([point.mean for point in run.anytime])) for run in mine])
            assert row[-1] == "3"
    for place, method in ((2, "ER"), (5, "DER++")):
        both = list(zip(_of(runs, method), _of(runs, f"{method} + CBA"), strict=True))
        assert rows[place][1] == _estimate([_acc(new) - _acc(old) for old, new in both], signed=True)
        assert rows[place][2] == _estimate([_fm(new) - _fm(old) for old, new in both], signed=True)


def test_best_is_bold(four: tuple[list[Results], _Page, str]) -> None:
    runs, page, _ = four
    rows = {1: "ER", 2: "ER + CBA", 4: "DER++", 5: "DER++ + CBA"}
    accs = {row: np.mean([_acc(run) for run in _of(runs, label)]) for row, label in rows.items()}
    forgetting = {row: np.mean([_fm(run) for run in _of(runs, label)]) for row, label in rows.items()}
    best = {(0, max(rows, key=lambda row: accs[row]), 1), (0, min(rows, key=lambda row: forgetting[row]), 2)}
    assert {place for place in page.bold if place[0] == 0 and place[2] in (1, 2)} == best


def test_tables_by_task(four: tuple[list[Results], _Page, str]) -> None:
    runs, page, _ = four
    area, final = page.tables[1:3]
    assert area[0] == final[0] == ["task", "ER", "ER + CBA", "DER++", "DER++ + CBA"]
    for task in range(5):
        for place, label in enumerate(area[0][1:], start=1):
            mine = _of(runs, label)
            points = [np.mean([point.mean for point in run.anytime if point.task == task]) for run in mine]
            assert area[task + 1][place] == _estimate([float(value) for value in points])
            assert final[task + 1][place] == _estimate([run.tested[-1].accuracy[task] for run in mine])


def test_all_measures(four: tuple[list[Results], _Page, str]) -> None:
    """Every measure is there with its formula."""
    runs, page, _ = four
    rows = page.tables[-1][1:]
    for (name, measure), values, formula in zip(MEASURES.items(), rows[::2], rows[1::2], strict=True):
        assert values[0] == measure.heading.replace(" ↑", "\u00a0↑").replace(" ↓", "\u00a0↓")
        assert formula == [measure.formula]
        of = [measure.of(run) for run in _of(runs, "ER")]
        if name != "acc_auc_sum":  # in thousands
            assert values[1] == _estimate([value for value in of if value is not None])
    assert len(rows[0]) == 1 + 4 + 2


def test_sections(four: tuple[list[Results], _Page, str]) -> None:
    _, page, html = four
    assert page.headings[2:] == [
        *("Comparison", "What was compared", "Accuracy over the stream", "Recency bias", "Final accuracy by task"),
        *("Accuracy matrix", "Forgetting by class", "Confusion", "Gradient alignment", "Memory and training"),
        *("Accuracy and cost", "Time and memory", "All measures", "Every run"),
    ]
    assert page.svgs == 2 + 1 + 1 + 1 + 4 + 1 + 4 + 1 + 1 + 3 + 2  # the three are of the front
    assert "fair share" in html


def test_what_was_compared_has_each_network_and_memory() -> None:
    nets = [{"name": "resnet18", "width": 20}, {"name": "mlp", "hidden": [64]}, None]
    runs = [make_run(seed=seed, net=net) for seed, net in enumerate(nets)]
    (facts,) = (part for part in what_was_compared(Scene(runs)).parts if isinstance(part, Facts))
    assert dict(facts.items)["Network"] == "resnet18, width 20\nmlp, hidden 64"
    assert dict(facts.items)["Memory"] == "capacity 200, policy reservoir"
    without = [make_run(net=None, memory=None)]
    (facts,) = (part for part in what_was_compared(Scene(without)).parts if isinstance(part, Facts))
    assert not {"Network", "Memory"} & dict(facts.items).keys()


def test_configs_can_be_copied(four: tuple[list[Results], _Page, str]) -> None:
    runs, page, _ = four
    assert len(page.code) == len(runs)
    for run, code in zip(runs, page.code, strict=True):
        kept = tomllib.loads(code)
        assert kept["seed"] == run.seed
        assert kept["name"] == run.label
        assert kept["data"] == {"name": "digits"}  # None values are left out
        assert ("adaptor" in kept) == (run.started.config["adaptor"] is not None)


def test_findings_are_hedged() -> None:
    def finding(*runs: Results) -> str:
        scene = Scene(list(runs))
        return findings(scene, [MEASURES[name] for name in ("acc", "fm", "acc_auc", "learning_accuracy")])[0]

    better = finding(*make_runs(5, ["ER"]))
    assert "(5 seeds): ACC, FM and ACC_AUC got better" in better
    assert "learning accuracy by" in better  # the cost is reported along with the gain
    assert finding(*make_runs(1, ["ER"])).endswith("(1 seed); a single seed cannot show whether this is significant.")
    assert "no two of them differ only in the adaptor" in finding(make_run("ER"), make_run("DER++"))
    assert finding(make_run("ER")).startswith("ER reached ACC ")
    assert finding(make_run("ER", stop=90)).startswith("No run is finished yet")
    assert "no finished seed in common" in finding(make_run(), make_run("ER + CBA", adaptor=True, seed=1))
    plain = [_with_acc(make_run(seed=seed), 50.0) for seed in range(3)]
    adapted = [make_run("ER + CBA", seed=seed, adaptor=True) for seed in range(3)]
    by_chance = [_with_acc(run, acc) for run, acc in zip(adapted, [49.0, 50.0, 53.0], strict=True)]
    assert "ACC by +0.7 ± 5.2" in finding(*plain, *by_chance)
    assert re.search("the change in ACC.* is not significant", finding(*plain, *by_chance))
    worse = [_with_acc(run, acc) for run, acc in zip(adapted, [40.0, 41.0, 42.0], strict=True)]
    assert "ACC, FM and learning accuracy got worse" in finding(*plain, *worse)


def _rows(section: Section | None) -> list[list[str]]:
    """Return the first table of a section as the page shows it, header first."""
    assert section is not None
    table = next(part for part in section.parts if isinstance(part, ResultTable))
    return [list(table.columns), *([shown(cell) for cell in row.cells] for row in table.rows)]


def test_the_adaptor_is_named() -> None:
    """Each adaptor of a method is compared with the method alone."""
    runs = [*make_runs(2, ["ER"]), *(make_run("ER + Prior", seed=seed, adaptor="prior") for seed in range(2))]
    scene = Scene(runs)
    gains = ["gain by CBA, paired", "gain by Prior, paired"]
    assert [row[0] for row in _rows(comparison(scene))] == ["", "ER", "ER + CBA", gains[0], "ER + Prior", gains[1]]
    assert _rows(measures(scene))[0] == ["measure", "ER", "ER + CBA", gains[0], "ER + Prior", gains[1]]
    assert [text.split(" changed")[0] for text in findings(scene, scene.headline)] == ["CBA", "Prior"]
    assert _curves_caption(scene).endswith(" Dashed: without CBA or Prior; solid: with.")
    assert "Dashed" not in _curves_caption(Scene(runs[:2]))


@pytest.mark.parametrize(
    ("sizes", "said"),
    [((1000, 1000), "a fixed sample of 1,000 test samples."), ((1000, 50), "a fixed sample of the test data.")],
)
def test_a_curve_says_how_many_samples_it_is_from(sizes: tuple[int, int], said: str) -> None:
    evaluation = make_run().started.config["evaluation"]
    runs = [make_run(seed=seed, evaluation={**evaluation, "sample": size}) for seed, size in enumerate(sizes)]
    assert f"on {said}" in _curves_caption(Scene(runs))


def _curves_caption(scene: Scene) -> str:
    charts = anytime_curves(scene)
    assert charts is not None
    return charts.caption


def test_the_page_shows_the_table_of_the_terminal(four: tuple[list[Results], _Page, str]) -> None:
    """Equal numbers, apart from signs of zero and the letter for a minus."""
    runs, page, _ = four
    for row, texts_shown in zip(measures_table(runs).rows, page.tables[0][1:], strict=True):
        texts = [re.sub(r"^[-+](?=0\.0 )", "", text_of(cell).strip()).replace("-", "\u2212") for cell in row.cells]
        assert texts == texts_shown[:-1]


def _with_acc(run: Results, acc: float) -> Results:
    """Return the same run with another accuracy at the end."""
    tested = [*run.tested[:-1], replace(run.tested[-1], accuracy=[acc] * len(run.started.tasks))]
    return replace(run, tested=tested)


def test_a_bound_is_never_the_best() -> None:
    runs = [
        make_run("ER", method={"name": "er"}),
        make_run("DER++", skill=3, method={"name": "derpp"}),
        make_run("Joint, one pass (upper bound)", skill=9, method={"name": "joint", "epochs": 1}),
        make_run("Finetune (lower bound)", skill=-9, method={"name": "finetune"}),
    ]
    scene = Scene(runs)
    (sentence,) = findings(scene, scene.headline)
    assert sentence.startswith("DER++ reached ACC")
    assert "the best mean of 2" in sentence
    (table,) = comparison(scene).parts
    assert isinstance(table, ResultTable)
    assert {row.cells[0].value for row in table.rows for cell in row.cells if cell.best} <= {"ER", "DER++"}
    assert any("Bounds are references, not methods to use" in note for note in table.notes)


def test_unfinished_runs(tmp_path: Path) -> None:
    """They are listed, and no mean includes them."""
    done = [make_run(seed=seed, diagnostics=False) for seed in range(3)]
    killed = [make_run(name, seed=seed, stop=130, diagnostics=False) for name, seed in (("ER", 3), ("DER++", 0))]
    page, html = _write([*done, *killed], tmp_path)
    row, other = page.tables[0][1:]
    assert row[1] == _estimate([_acc(run) for run in done])
    assert (row[0], row[-1]) == ("ER (1 unfinished)", "3")
    assert other == ["DER++ (1 unfinished)", *["\u2013"] * len(HEADLINE), "0"]
    assert (
        "Unfinished, and not in the means of any table: ER seed 3 (step 130 of 200), DER++ seed 0 (step 130 of 200)."
        in html
    )
    assert "DER++ (unfinished)" in html
    for table in page.tables[1:3]:  # by task: no column for unfinished runs
        assert table[0] == ["task", "ER"]
    assert page.tables[2][5] == ["task 4", _estimate([run.tested[-1].accuracy[4] for run in done])]
    assert "ER, seed 3: unfinished: step 130 of 200" in html


@pytest.mark.parametrize("stop", [41, *(pytest.param(stop, marks=pytest.mark.slow) for stop in (0, 39, 200))])
def test_killed_anywhere(stop: int, tmp_path: Path) -> None:
    _write([make_run(stop=stop), make_run("ER + CBA", adaptor=True)], tmp_path)


def test_torn_files(tmp_path: Path) -> None:
    """A run as a kill leaves it, with half a line at the end, also of the usage."""
    make_run(folder=tmp_path / "run", diagnostics=False)
    for name in ("records.jsonl", "usage.jsonl"):
        path = tmp_path / "run" / name
        path.write_bytes(path.read_bytes()[:-20])
    _, html = _write([Results.read(tmp_path / "run")], tmp_path)
    assert "0 of 1 finished" in html
    assert "1 of 1 runs have no record of time and memory." in html


def test_a_measure_that_some_runs_lack() -> None:
    """The table says over how many runs its mean is."""
    runs = make_runs(3, ["ER"])
    rows = _rows(comparison(Scene([replace(runs[0], anytime=[]), *runs[1:]])))
    area = [row[1 + HEADLINE.index("acc_auc")] for row in rows[1:]]
    assert [text.endswith(" (n = 2)") for text in area] == [True, False, True]
    assert not any("n =" in text for row in rows for text in row[:3])


def test_a_seed_counts_once() -> None:
    runs = [make_run(seed=seed) for seed in range(2)]
    section = comparison(Scene([*runs, make_run(seed=1), make_run(seed=0, stop=50)]))
    assert _rows(section)[1][1] == _estimate([_acc(run) for run in runs])
    assert any("2 of the runs repeat another" in str(part) for part in section.parts)


@pytest.mark.slow
def test_data_sets_are_never_mixed(tmp_path: Path) -> None:
    """Nor are scenarios; each has its own comparison."""
    kinds = (("digits", "disjoint"), ("cifar10", "disjoint"), ("digits", "blurry"))
    runs = [make_run(seed=seed, data=data, scenario=scenario) for data, scenario in kinds for seed in range(2)]
    page, _ = _write(runs, tmp_path)
    assert [heading for heading in page.headings if "," in heading] == [", ".join(kind) for kind in kinds]
    first = [table for table in page.tables if table[0][-1] == "seeds"]
    for place, table in enumerate(first):
        assert table[1][1] == _estimate([_acc(run) for run in runs[2 * place : 2 * place + 2]])
        assert len(table) == 2


STRANGE: dict[str, Callable[[], list[Results]]] = {  # by name, how to make them
    "one-run": lambda: [make_run()],
    "one-task": lambda: make_runs(2, ["ER"], tasks=1),
    "one-class": lambda: [make_run(tasks=1, classes=1)],
    "one-step": lambda: make_runs(1, ["ER"], steps=1),
    "nothing-recorded": lambda: [replace(make_run(), steps=[], anytime=[], tested=[], aligned=[], sessions=[])],
    "no-diagnostics": lambda: [make_run(diagnostics=False)],
    "no-task-lengths": lambda: [
        replace(make_run(), started=replace(make_run().started, tasks=[{"name": ""}], steps=None))
    ],
    "many-methods": lambda: make_runs(1, [f"method {letter}" for letter in "abcd"], tasks=6, classes=12),
    "names": lambda: make_runs(
        1, ["_hidden", "a" * 200, "$x$ 日本語 🙂", "new\nline\x00\x1b\ud800"], diagnostics=False
    ),
    "no-adaptor-alone": lambda: [make_run("a"), make_run("a", memory={"capacity": 50, "policy": "reservoir"})],
    "two-adaptors": lambda: [
        make_run(),
        make_run("ER + CBA", adaptor=True),
        make_run("ER + CBA 2", adaptor=True, method={"name": "er", "settings": {}}),
    ],
}


USUAL = ("names", "one-class", "nothing-recorded")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in USUAL else [pytest.mark.slow]) for name in STRANGE]
)
def test_strange_runs(name: str, tmp_path: Path) -> None:
    page, _ = _write(STRANGE[name](), tmp_path)
    assert "Every run" in page.headings


def test_domains(tmp_path: Path) -> None:
    """If tasks share their classes, no prediction belongs to a task."""
    page, html = _write([make_run(domains=True, diagnostics=False)], tmp_path)
    assert "Recency bias" in page.headings
    assert "Tasks share their classes here" in html
    assert "fair share" not in html
    assert "Domain-incremental" in html


@pytest.mark.slow
def test_large(tmp_path: Path) -> None:
    runs = make_runs(2, tasks=20, classes=200, steps=20)
    _, html = _write(runs, tmp_path)
    assert len(html) < 5_000_000


def test_no_runs(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no runs were given"):
        write_report([], tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure leaves the old report and no temporary files."""
    path = tmp_path / "new folder" / "report.html"
    small: dict[str, Any] = {"tasks": 1, "diagnostics": False}
    write_report([make_run(**small)], path)
    before = path.read_bytes()
    write_report([make_run(**small)], path)
    assert path.read_bytes() == before  # equal runs, equal bytes

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(RunError, match=r"Cannot write the report to .*: disk full"):
        write_report([make_run("DER++", **small)], path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_import_is_light() -> None:
    """matplotlib is imported only to write a report, and not by a service that serves the script of reports."""
    code = (
        "import sys, evenkeel.results.groups, evenkeel.service.http.monitoring, evenkeel.report; "
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_settings_of_matplotlib_are_left_alone() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    draw(lambda figure: figure.subplots().plot([1, 2]))  # type: ignore[arg-type]
    assert dict(mpl.rcParams) == before


def test_inline() -> None:
    svg = draw(lambda figure: figure.text(0, 0, 'url(#x) id="y" $z$ <b>'))  # type: ignore[arg-type]
    shown = inline(svg, "p7", 'a "name" <b>')
    assert 'aria-label="a &quot;name&quot; &lt;b&gt;"' in shown
    assert 'url(#x) id="y" $z$ &lt;b&gt;</text>' in shown
    assert "<style" not in shown
    assert printable("a\nb\x00" + "c" * 99, 6) == "a\ufffdb\ufffdc…"


@pytest.fixture(scope="module")
def evil(folder: Path) -> Path:
    """All four groups, and names that try to run."""
    runs = make_runs(2, ["ER", EVIL], steps=8, class_names=[EVIL, *map(str, range(9))], data=EVIL, scenario=EVIL)
    path = folder / "evil.html"
    write_report([*runs, make_run(steps=8, stop=18)], path, title=EVIL)
    return path


@pytest.mark.parametrize(
    ("width", "height", "scheme"),
    [
        (1280, 900, "light"),
        (390, 844, "dark"),
        pytest.param(1280, 900, "dark", marks=pytest.mark.slow),
        pytest.param(390, 844, "light", marks=pytest.mark.slow),
    ],
)
def test_browser(browser: "Browser", evil: Path, width: int, height: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    errors, requests = _listen(page)
    page.goto(evil.as_uri())
    _figures_are_drawn(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("window.caught") is None
    assert page.locator("img, script:not(:last-child)").count() == 0
    assert page.title() == EVIL
    smallest = page.evaluate(
        "Math.min(...[...document.querySelectorAll('svg text')].map(each => parseFloat(getComputedStyle(each).fontSize)"
        " * each.getCTM().a || 99))"
    )
    assert smallest >= 8  # pixels on the screen
    assert _contrast(page) >= 4.5
    page.locator("summary").last.click()
    assert page.locator("pre").last.bounding_box() is not None
    assert (errors, requests) == ([], [evil.as_uri()])
    context.close()


def test_print(browser: "Browser", evil: Path) -> None:
    """On paper nothing is folded or cut off, whatever the colours of the screen."""
    context = browser.new_context(viewport={"width": 700, "height": 1000}, color_scheme="dark")
    page = context.new_page()
    errors, requests = _listen(page)
    page.goto(evil.as_uri())
    page.emulate_media(media="print")
    _figures_are_drawn(page)
    assert all(each.bounding_box() for each in page.locator("details:not(.repeat) pre").all())
    assert page.locator("details:not(.repeat) pre").count() > 0
    assert not any(each.bounding_box() for each in page.locator(".repeat pre").all())  # one per group is enough
    cut = "[...document.querySelectorAll('.scroll, pre')].filter(each => each.scrollWidth > innerWidth).length"
    assert page.evaluate(cut) == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert (errors, requests) == ([], [evil.as_uri()])
    context.close()


def _listen(page: "Page") -> tuple[list[str], list[str]]:
    errors: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    return errors, requests


def _figures_are_drawn(page: "Page") -> None:
    charts = page.locator("figure .chart").all()
    assert len(charts) >= 12
    for chart in charts:
        box = chart.locator("svg").bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) > 100
        assert chart.locator("svg path, svg image, svg text").count() > 3
    assert page.locator("figure").count() == page.locator("figure > figcaption").count()


def _contrast(page: "Page") -> float:
    """Return the lowest contrast between text and page, by the formula of the WCAG."""
    found = page.evaluate(
        "['body', 'figcaption', 'svg text', 'a', 'td'].map(each => { const style ="
        " getComputedStyle(document.querySelector(each)); return each.startsWith('svg') ? style.fill : style.color; })"
        ".concat(getComputedStyle(document.body).backgroundColor)"
    )
    *texts, ground = (_luminance([int(part) for part in re.findall(r"\d+", colour)[:3]]) for colour in found)
    return min((max(text, ground) + 0.05) / (min(text, ground) + 0.05) for text in texts)


def _luminance(rgb: list[int]) -> float:
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (part / 255 for part in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_scenarios_with_the_same_name_are_distinguished(tmp_path: Path) -> None:
    page, _ = _write([make_run(tasks=tasks, steps=8, diagnostics=False) for tasks in (2, 1)], tmp_path)
    names = [heading for heading in page.headings if "digits" in heading]
    assert names == ["digits, disjoint (tasks: 2)", "digits, disjoint (tasks: 1)"]
