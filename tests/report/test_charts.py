"""Charts of a report in a real browser: values under the pointer, hidden lines, saved pictures and numbers."""

import csv
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from evenkeel.report.answer import answer
from evenkeel.report.bias import class_forgetting
from evenkeel.report.elements import PageBlock
from evenkeel.report.matrices import accuracy_matrix, confusions
from evenkeel.report.page import render, write_report
from evenkeel.report.scene import Scene
from evenkeel.report.sections import final_accuracy
from tests.helpers.runs import make_runs

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

NAMES = ["RAR(DER++)", "WWWW WWWW", "a", "日本語日本語日本", "i" * 30, *"bcdef"[:5]]
RUNS = make_runs(3, ["ER"], diagnostics=False, steps=16, class_names=NAMES)
CURVE, TILT, MATRIX = "Anytime accuracy over the stream", "Share of predictions by task at the end", "ER + CBA"


@pytest.fixture(scope="module")
def page(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator["Page"]:
    path = tmp_path_factory.mktemp("charts") / "report.html"
    write_report(RUNS, path)
    opened = browser.new_context(viewport={"width": 1000, "height": 800}, color_scheme="dark").new_page()
    errors = list[str]()
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto(path.as_uri())
    yield opened
    assert errors == []


def _chart(page: "Page", title: str) -> "Locator":
    return page.locator(f".chart:has(> svg[aria-label='{title}'])").first


def _point(chart: "Locator", across: float, down: float) -> None:
    """Move the pointer to a place of the picture, each in parts of its size."""
    svg = chart.locator("svg")
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    assert box is not None
    chart.page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])


def _saved(chart: "Locator", kind: str) -> str:
    with chart.page.expect_download() as waiting:
        chart.get_by_role("button", name=f"as {kind}").click()
    assert waiting.value.suggested_filename.endswith(f".{kind.lower()}")
    return Path(waiting.value.path()).read_text()


def _curve(label: str, step: int) -> float:
    points = [point.mean for run in RUNS if run.label == label for point in run.anytime if point.step == step]
    return sum(points) / len(points)


def test_values_are_shown_under_the_pointer(page: "Page") -> None:
    chart = _chart(page, CURVE)
    assert chart.locator(".readout").is_hidden()
    _point(chart, 0.99, 0.6)
    end = RUNS[0].anytime[-1].step
    assert chart.locator(".readout strong").inner_text() == f"step {end}"
    values = chart.locator(".readout .key").all_inner_texts()
    assert [re.sub(r" \(.+ to .+\)", "", text) for text in values] == [
        f"{label} {_curve(label, end):.1f}" for label in ("ER", "ER + CBA")
    ]
    key, strokes = chart.evaluate(
        "each => [getComputedStyle(each.querySelector('.readout .key'), '::before').backgroundColor, "
        "[...each.querySelectorAll('.series-0 *')].map(part => getComputedStyle(part).stroke)]"
    )
    assert key in strokes  # in the dark, too
    page.mouse.move(0, 0)
    assert chart.locator(".readout").is_hidden()
    _point(_chart(page, TILT), 0.95, 0.7)
    assert _chart(page, TILT).locator(".readout").inner_text().startswith("task 4")
    _point(_chart(page, MATRIX), 0.3, 0.08)
    assert re.match(r"after task 0, accuracy on task \d", _chart(page, MATRIX).locator(".readout").inner_text())


def test_arrow_keys_do_the_same(page: "Page") -> None:
    chart = _chart(page, CURVE)
    chart.locator("svg").press("Home")
    assert chart.locator(".readout strong").inner_text() == f"step {RUNS[0].anytime[0].step}"
    chart.locator("svg").press("ArrowRight")
    assert chart.locator(".readout strong").inner_text() == f"step {RUNS[0].anytime[1].step}"
    chart.locator("svg").evaluate("each => each.blur()")
    assert chart.locator(".readout").is_hidden()


@pytest.mark.parametrize("title", [CURVE, TILT])
def test_a_method_can_be_hidden(page: "Page", title: str) -> None:
    chart = _chart(page, title)
    key = chart.get_by_role("button", name="Show ER", exact=True)
    drawn = chart.locator(".series-0")
    assert drawn.count() > 0
    key.press("Enter")
    assert not any(each.is_visible() for each in drawn.all())
    assert key.get_attribute("aria-pressed") == "false"
    assert all(each.is_visible() for each in chart.locator("g.series-1").all())
    assert "ER" not in next(csv.reader(StringIO(_saved(chart, "CSV"))))
    key.press("Shift+Enter")  # only this one
    assert chart.get_by_role("button", name="Show ER + CBA").get_attribute("aria-pressed") == "false"
    chart.get_by_role("button", name="Show ER + CBA").press("Enter")
    assert chart.locator(".off").count() == 0


def test_fingers_get_buttons_that_are_large_enough(browser: "Browser", page: "Page") -> None:
    """Entries of a legend are too small for them."""
    how: Any = {"viewport": {"width": 360, "height": 780}, "is_mobile": True, "has_touch": True}
    touched = browser.new_context(**how).new_page()
    touched.goto(page.url)
    chart = _chart(touched, CURVE)
    chart.get_by_text("Hide or show", exact=True).tap()
    buttons = [each.bounding_box() for each in chart.get_by_role("button").all()]
    assert len(buttons) == 2 + 2  # the methods; SVG and CSV
    assert all(box and min(box["width"], box["height"]) >= 44 for box in buttons)
    key = chart.get_by_role("button", name="Show ER", exact=True)
    key.tap()
    assert not any(each.is_visible() for each in chart.locator(".series-0").all())
    assert all(each.is_visible() for each in chart.locator("g.series-1").all())
    assert key.get_attribute("aria-pressed") == "false"
    key.tap()
    assert chart.locator("g.series-0").first.is_visible()
    assert touched.evaluate("document.documentElement.scrollWidth") <= 360
    touched.context.close()


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 780)])
def test_sentence_gain_and_tilt_are_on_the_first_screen(
    browser: "Browser", page: "Page", width: int, height: int
) -> None:
    opened = browser.new_context(viewport={"width": width, "height": height}).new_page()
    opened.goto(page.url)
    boxes = [opened.locator(f"article {part}").first.bounding_box() for part in (".finding", ".value", ".answer svg")]
    assert all(box and box["y"] + box["height"] <= height for box in boxes)
    opened.context.close()


CROWDED = """() => [...document.querySelectorAll('.chart svg')].flatMap(svg => {
    const [left, top, width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
    const toUnits = svg.getScreenCTM().inverse();
    const unit = (x, y) => new DOMPoint(x, y).matrixTransform(toUnits);
    const texts = [...svg.querySelectorAll('text')].map(text => {
        const box = text.getBoundingClientRect();
        const name = `${svg.getAttribute('aria-label')}: ${text.textContent}`;
        return { name, from: unit(box.left, box.top), to: unit(box.right, box.bottom) };
    });
    const isOut = ({ from, to }) => from.x < left || from.y < top || to.x > left + width || to.y > top + height;
    const overlap = (a, b, axis) => Math.min(a.to[axis], b.to[axis]) - Math.max(a.from[axis], b.from[axis]);
    const meet = (a, b) => overlap(a, b, 'x') > 1 && overlap(a, b, 'y') > 3; // letters do not fill the height of a line
    const crowded = texts.filter((a, place) => isOut(a) || texts.slice(place + 1).some(b => meet(a, b)));
    return crowded.map(({ name }) => name);
})"""
SIZES = [(2, 5, 5), (40, 5, 5), (8, 100, 10), (2, 200, 20), (40, 100, 10)]  # methods, classes, tasks


@pytest.mark.parametrize(
    ("methods", "classes", "tasks"), [SIZES[0], *(pytest.param(*size, marks=pytest.mark.slow) for size in SIZES[1:])]
)
def test_no_text_of_a_picture_is_cut_off_or_meets_another(
    browser: "Browser", methods: int, classes: int, tasks: int, tmp_path: Path
) -> None:
    """Margins are estimated before the font is known: a browser must have room for its own."""
    names = [f"{'WM' * 5} {place}" for place in range(classes)]
    bases = [f"RAR(method {place})" for place in range(methods // 2)]
    runs = make_runs(2, bases, diagnostics=False, steps=8, classes=classes, tasks=tasks, class_names=names)
    scene = Scene(runs)
    sections = [make(scene) for make in (final_accuracy, class_forgetting, accuracy_matrix, confusions)]
    block = PageBlock("", [], [section for section in sections if section], answer(scene))
    (tmp_path / "report.html").write_text(render("", [block]))
    opened = browser.new_context(viewport={"width": 1000, "height": 800}).new_page()
    opened.goto((tmp_path / "report.html").as_uri())
    opened.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert opened.evaluate("document.querySelectorAll('.chart svg text').length") > 40
    assert opened.evaluate(CROWDED) == []
    opened.context.close()


def test_the_pictures_of_a_whole_report_have_room_for_their_texts(page: "Page") -> None:
    assert page.evaluate(CROWDED) == []


def test_numbers_are_saved_as_csv(page: "Page") -> None:
    header, *rows = csv.reader(StringIO(_saved(_chart(page, CURVE), "CSV")))
    assert header == ["step", *(f"{label}{end}" for label in ("ER", "ER + CBA") for end in ("", ", low", ", high"))]
    assert [int(float(row[0])) for row in rows] == [point.step for point in RUNS[0].anytime]
    for row in rows:
        step = int(float(row[0]))
        assert [float(row[1]), float(row[4])] == pytest.approx([_curve("ER", step), _curve("ER + CBA", step)], abs=0.01)
        assert float(row[2]) <= float(row[1]) <= float(row[3])
    header, *rows = csv.reader(StringIO(_saved(_chart(page, MATRIX), "CSV")))
    assert header == ["", *"01234"]
    assert len(rows) == 5


def test_pictures_are_saved_as_svg_in_light_colours(page: "Page") -> None:
    """In a dark page, too; without the cursor, and on their own."""
    chart = _chart(page, CURVE)
    chart.locator("svg").press("Home")
    text = _saved(chart, "SVG")
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "var(" not in text
    assert "#0072b2" in text
    assert 'class="cursor"' not in text
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"ER", "ER + CBA", "accuracy (%)"} <= set(texts)
