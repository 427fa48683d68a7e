"""The dashboard in a real browser, with real services."""

import base64
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

import evenkeel as ek
from evenkeel.config.own import import_modules
from evenkeel.service.store.keys import add_key
from evenkeel.service.store.model_folder import ModelFolder
from tests.helpers.browsers import PATIENCE
from tests.helpers.own_parts import own_module
from tests.helpers.serving import Hosted, Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

__all__ = ["own_module"]

EVIL = "<img src=x onerror=alert(1)>"
# The page looks for news every few seconds; a test need not wait so long.
HURRY = "const wait = setTimeout; window.setTimeout = (call, time) => wait(call, time / 20)"
IMAGES = ("input.size=[8, 8]", "memory.capacity=50", "batches.wait=0.05")

sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


class Visit:
    """The page of a service, with the errors and requests that occurred while it was open."""

    def __init__(
        self, browser: "Browser", served: Server, width: int = 1280, scheme: Any = "light", *, own_clock: bool = False
    ) -> None:
        viewport: Any = {"width": width, "height": 900}
        self.page: Page = browser.new_context(viewport=viewport, color_scheme=scheme).new_page()
        self.page.set_default_timeout(PATIENCE)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type != "log" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", self._refuse)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.url = served.url
        if own_clock:
            self.page.clock.install()
        else:
            self.page.add_init_script(HURRY)
        self.page.goto(served.url)

    def _refuse(self, dialog: "Dialog") -> None:
        self.errors.append(dialog.message)
        dialog.dismiss()

    def reads(self, selector: str, text: str | re.Pattern[str] | list[str]) -> None:
        """Wait until an element has this text."""
        sync.expect(self.page.locator(selector)).to_have_text(text)

    def predicts(self, vector: str) -> None:
        """Enter a vector and have it predicted."""
        self.page.fill("#vector", vector)
        self.page.click("#vector-form button")

    def end(self, *refusals: int) -> None:
        """Check that there were no errors but these statuses, and no requests to other hosts; close the page."""
        expected = [f"Failed to load resource: the server responded with a status of {code}" for code in refusals]
        assert [error for error in self.errors if not error.startswith(tuple(expected))] == []
        own = (f"{self.url}/", f"blob:{self.url}/", "data:image/svg+xml,")
        assert [url for url in self.requests if not url.startswith(own)] == []
        assert self.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        self.page.context.close()


def _teach(served: Server, *labels: str | int) -> Any:
    """Teach one example of each label, far from one another, and return the status."""
    examples = [{"x": [5 * place, -place, place % 3, 1], "label": label} for place, label in enumerate(labels)]
    served.post("/v1/learn", {"examples": examples})
    return served.settled()


def _dragged(page: "Page", path: Path) -> Any:
    make = """encoded => {
        const bytes = Uint8Array.from(atob(encoded), each => each.charCodeAt(0));
        const dragged = new DataTransfer();
        dragged.items.add(new File([bytes], "dropped.png", {type: "image/png"}));
        return dragged;
    }"""
    return page.evaluate_handle(make, base64.b64encode(path.read_bytes()).decode())


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Hosted(tmp_path_factory.mktemp("pets") / "model") as served:
        _teach(served, *["cat", "dog"] * 40)
        served.post("/v1/checkpoint")
        yield served


def test_from_nothing(browser: "Browser", tmp_path: Path) -> None:
    """Nothing is learned yet; a label that tries to run as a script is taught by hand, and the numbers appear."""
    with Hosted(tmp_path / "model") as served:
        visit = Visit(browser, served)
        visit.reads("#state", re.compile("idle"))
        visit.reads("#beginning h2", "Nothing has been learned yet")
        sync.expect(visit.page.locator("#so-far")).to_be_hidden()
        visit.predicts("1, 2, 3, 4")
        visit.reads("#try-error", re.compile("learned"))
        visit.page.fill("#label", EVIL)
        visit.page.click("#teach button")
        visit.reads("#taught", re.compile(re.escape(EVIL)))
        visit.reads("#learned", "1")
        visit.reads("#class-rows th", EVIL)
        visit.page.click("#again")
        visit.reads("#answer .verdict", EVIL)
        visit.reads("#choices button", f"Yes, {EVIL}")
        assert visit.page.locator("img[src=x]").count() == 0
        assert served.settled()["classes"] == [{"label": EVIL, "learned": 1, "memory": 1}]
        visit.end(409)


OWN: dict[str, tuple[list[Any], str, str, str]] = {  # samples, the own net, the field, and what is entered
    "vectors": ([[0.0, 0, 0, 1], [3.0, 0, 0, 1]], "fronted", "vector", "3 0 0 1"),
    "texts": (["the cat says meow", "the dog says woof"], "of_texts", "text", "the fox says <b>hatee</b> ♫"),
}


@pytest.mark.parametrize("kind", OWN)
def test_a_model_of_ones_own(browser: "Browser", own_module: str, tmp_path: Path, kind: str) -> None:
    """A learner of a notebook, with an encoder of one's own in front, is served, tried and taught a new label."""
    samples, name, field, entered = OWN[kind]
    import_modules([f"{own_module}:{name}"])
    arguments = {"features": 4} if kind == "vectors" else {}
    learner = ek.Learner(getattr(sys.modules[own_module], name)(classes=2, **arguments), ek.ER(), memory=20)
    for _ in range(5):
        learner.learn(np.array(samples, np.float32) if kind == "vectors" else samples, ["cat", "dog"])
    learner.save(tmp_path / "learner.ek")
    settings = [f"net.name={own_module}:{name}", "batches.wait=0.05"]
    with Hosted(tmp_path / "model", settings, tmp_path / "learner.ek") as served:
        visit = Visit(browser, served)
        visit.reads("#class-rows th", ["cat", "dog"])
        visit.reads("#class-rows .memory .count", ["5", "5"])
        for each in ("vector", "image", "text"):
            assert visit.page.locator(f"#{each}-form").is_visible() == (each == field)
        sync.expect(visit.page.locator("#command")).to_contain_text('"text": ' if kind == "texts" else '"x": [')
        visit.page.fill(f"#{field}", entered)
        visit.page.click(f"#{field}-form button")
        sync.expect(visit.page.locator("#answer li")).to_have_count(2)
        visit.page.fill("#label", "fox")
        visit.page.click("#teach button:not(#choices *)")
        visit.reads("#taught", re.compile("Taught: fox"))
        visit.reads("#class-rows th", ["cat", "dog", "fox"])
        visit.reads("#class-rows .memory .count", ["5", "5", "1"])
        visit.page.click("#again")
        sync.expect(visit.page.locator("#answer li")).to_have_count(3)
        visit.end()


def test_correction(browser: "Browser", pets: Server) -> None:
    visit = Visit(browser, pets)
    status = pets.settled()
    visit.reads("#learned", str(status["examples"]["learned"]))
    visit.reads("#class-rows th", ["cat", "dog"])
    visit.reads("#class-rows .stream .count", [str(each["learned"]) for each in status["classes"]])
    visit.reads("#class-rows .memory .count", [str(each["memory"]) for each in status["classes"]])
    visit.predicts("[5, -1, 1, 1]")
    verdict = visit.page.locator("#answer .verdict").inner_text()
    sync.expect(visit.page.locator("#answer li")).to_have_count(2)
    other = {"cat": "dog", "dog": "cat"}[verdict]
    visit.page.get_by_role("button", name=f"No, {other}").click()
    visit.reads("#taught", re.compile(f"Taught: {other}"))
    visit.reads("#answered-of", "0 of 1 in total")
    visit.page.click("#again")
    visit.page.get_by_role("button", name=re.compile("^Yes, ")).click()
    visit.reads("#answered-of", "1 of 2 in total")
    assert pets.settled()["accuracy"]["answered"]["labelled"] == 2
    visit.predicts("1, two, 3, 4")
    visit.reads("#try-error", "“two” is not a number.")
    visit.predicts("1 2 3")
    visit.reads("#try-error", re.compile("4"))  # the server's own message
    visit.end(422)


def test_charts(browser: "Browser", pets: Server) -> None:
    """The history is drawn, and values are shown for the point under the pointer or chosen with the keyboard."""
    visit = Visit(browser, pets)
    chart = visit.page.locator("#accuracy-chart svg")
    visit.reads("#accuracy-chart .when", re.compile(r"^latest, \d+ learned"))
    chart.hover()
    visit.reads("#accuracy-chart .when", re.compile(r"^\d\d:\d\d:\d\d, \d+ learned"))
    visit.page.mouse.move(0, 0)
    visit.reads("#accuracy-chart .when", re.compile("^latest"))
    chart.press("Home")
    visit.reads("#accuracy-chart .when", re.compile(r"^\d\d:\d\d:\d\d, \d+ learned"))
    visit.page.select_option("#across", "learned")
    assert visit.page.locator("#rate-chart svg text").count() >= 3
    visit.end()


def test_charts_are_saved_by_the_script_of_reports(browser: "Browser", pets: Server) -> None:
    """The policy of the page allows it; the picture is complete without the page's styles."""
    visit = Visit(browser, pets, scheme="dark")
    visit.reads("#accuracy-chart .when", re.compile("^latest"))
    saved = {}
    for kind in ("SVG", "CSV"):
        with visit.page.expect_download() as waiting:
            visit.page.get_by_role("button", name=f"Save Accuracy as {kind}").click()
        saved[waiting.value.suggested_filename] = Path(waiting.value.path()).read_text()
    assert saved["accuracy.csv"].startswith("time,Answers,Before learning\n")
    assert "#c24f00" in saved["accuracy.svg"]
    assert "var(" not in saved["accuracy.svg"]
    for name in ("charts.js", "live_charts.js"):
        script = visit.page.evaluate(f"fetch('pages/{name}').then(answer => answer.text())")
        assert script == (files("evenkeel.report") / name).read_text(encoding="utf-8")
    visit.end()


def test_hidden_tab(browser: "Browser", pets: Server) -> None:
    """A hidden page sends no requests."""
    look = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true}); "
    look += "document.dispatchEvent(new Event('visibilitychange')); }"
    visit = Visit(browser, pets, own_clock=True)
    learned = pets.settled()["examples"]["learned"]
    visit.reads("#learned", str(learned))
    with visit.page.expect_request("**/v1/history"):
        visit.page.clock.run_for(60_000)
    visit.page.evaluate(look, True)
    before = len(visit.requests)
    visit.page.clock.run_for(60_000)
    assert len(visit.requests) == before
    _teach(pets, "cat")
    visit.page.evaluate(look, False)
    visit.reads("#learned", str(learned + 1))
    visit.end()


def test_stopped(browser: "Browser", pets: Server, tmp_path: Path) -> None:
    """Without a journal, the service predicts from the last checkpoint, cannot learn, and reports less."""
    broken = ModelFolder(
        shutil.copytree(pets.folder, tmp_path / "broken", ignore=shutil.ignore_patterns("journal.sqlite*"))
    )
    broken.journal.write_bytes(b"no database" * 1000)
    with Hosted(broken.path) as served:
        visit = Visit(browser, served)
        visit.reads("#state", re.compile("^stopped"))
        sync.expect(visit.page.locator("#trouble")).to_be_visible()
        visit.predicts("1 2 3 4")
        visit.reads("#answer .verdict", re.compile("cat|dog"))
        visit.page.locator("#choices button").first.click()
        visit.reads("#try-error", re.compile("nothing is learned"))
        visit.end(503)


def test_integers(browser: "Browser", tmp_path: Path) -> None:
    """Known labels keep their type, and a new one becomes a number like them; 200 of them fit on a phone."""
    with Hosted(tmp_path / "model") as served:
        _teach(served, *range(200))
        visit = Visit(browser, served, 380, "dark")
        visit.reads("#class-count", "200")
        assert visit.page.locator("#overview rect").count() == 400
        visit.page.locator("#overview svg").hover()
        visit.reads("#pointed", re.compile(r"^\d+: 1 in the stream, \d in memory$"))
        for typed in ("7", "1234"):
            visit.predicts("1 2 3 4")
            visit.page.fill("#label", typed)
            visit.page.locator("#label").press("Enter")
            visit.reads("#taught", re.compile(f"Taught: {typed}"))
        learned = {each["label"]: each["learned"] for each in served.settled()["classes"]}
        assert (learned[7], learned[1234], len(learned)) == (2, 1, 201)
        visit.end()


def test_image(browser: "Browser", tmp_path: Path) -> None:
    red, blue = tmp_path / "red.png", tmp_path / "blue.png"
    Image.new("RGB", (20, 10), "red").save(red)
    Image.new("RGB", (20, 10), "blue").save(blue)
    with Hosted(tmp_path / "model", IMAGES) as served:
        visit = Visit(browser, served)
        visit.page.set_input_files("#image", red)
        visit.reads("#teach-question", "Teach it")
        visit.page.fill("#label", "red")
        visit.page.click("#teach button")
        visit.reads("#learned", "1")
        visit.page.dispatch_event("#drop", "drop", {"dataTransfer": _dragged(visit.page, blue)})
        visit.reads("#answer .verdict", "red")
        assert visit.page.evaluate("document.getElementById('preview').naturalWidth") == 20
        visit.page.fill("#label", "blue")
        visit.page.click("#teach .row button")
        visit.reads("#learned", "2")
        assert [each["label"] for each in served.settled()["classes"]] == ["red", "blue"]
        visit.end(409)


def test_key(browser: "Browser", tmp_path: Path) -> None:
    """The page asks for a key, rejects a wrong one, works with a valid one, and reports when the server is gone."""
    with Hosted(tmp_path / "model") as served:
        _teach(served, "cat", "dog")
        key = add_key(ModelFolder(served.folder).keys, "anna", ["predict"])
        visit = Visit(browser, served)
        visit.reads("#key-form h2", "This service requires a key")
        sync.expect(visit.page.locator("#main")).to_be_hidden()
        for given in ("wrong", key):
            visit.page.fill("#key", given)
            visit.page.locator("#key").press("Enter")
            if given == "wrong":
                visit.reads("#key-error", "The service does not know this key.")
        visit.reads("#learned", "2")
        sync.expect(visit.page.locator("#key-form")).to_be_hidden()
        visit.predicts("1 2 3 4")
        visit.reads("#answer .verdict", re.compile("cat|dog"))
        visit.page.locator("#choices button").first.click()
        visit.reads("#try-error", re.compile("scope"))  # this key may predict, not teach
        served.stop()
        visit.reads("#trouble", re.compile(r"^The server cannot be reached\. The numbers below are from"))
        visit.errors = [error for error in visit.errors if "ERR_CONNECTION" not in error]
        visit.end(401, 403)
