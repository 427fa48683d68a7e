"""Every link between our pages leads somewhere: file and anchor, on GitHub and (the slow test) on the site."""

import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest

from evenkeel import PUBLIC
from tests.helpers.pages import ROOT

PAGES = sorted(
    page for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if "build" not in page.relative_to(ROOT).parts
)
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?:\]\(|(?:src|srcset|href)=\")(?P<target>[^)\"\s]+)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_and_an_anchor(page: Path) -> None:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    wrong = [target for target in LINK.findall(text) if not urlsplit(target).scheme and not _exists(page, target)]
    assert not wrong


def _exists(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    return file.exists() and (not anchor or anchor in _anchors(file))


@cache
def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = HEADING.findall(re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = re.findall(r'= "([^"]+\.md)"', (ROOT / "docs" / "site" / "zensical.toml").read_text(encoding="utf-8"))
    reference = {f"docs/reference/{page}.md" for page in (*_site().REFERENCE, "commands")}
    assert sorted(navigation) == sorted({*(str(page.relative_to(ROOT)) for page in PAGES), *reference})


def test_every_public_name_is_in_the_reference() -> None:
    modules = [module for _, modules in _site().REFERENCE.values() for module in modules]
    assert sorted(modules) == sorted(PUBLIC), "enter the module in REFERENCE of docs/site/build.py"


@pytest.mark.slow
def test_every_link_of_the_built_site_leads_to_a_file_and_an_anchor(tmp_path: Path) -> None:
    pytest.importorskip("zensical", reason="needs the extra docs: make site")
    html = _site().build(tmp_path / "site")
    pages = {path: Page.read(path) for path in html.rglob("*.html")}
    assert len(pages) > len(PAGES)
    assert not list(_wrong_links(pages))
    assert not [url for page in pages.values() for url in page.loaded if urlsplit(url).netloc], "loaded from elsewhere"


def _wrong_links(pages: dict[Path, "Page"]) -> Iterator[str]:
    for path, page in pages.items():
        for target in (*page.links, *page.loaded):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or path.name == "404.html":  # whose links begin at the root of a server
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            anchors = pages[file].ids if file in pages else set()
            if not file.exists() or (parts.fragment and unquote(parts.fragment) not in anchors):
                yield f"{path.name}: {target}"


class Page(HTMLParser):
    """The ids of a page, what it links to and what a browser loads for it."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    @classmethod
    def read(cls, path: Path) -> "Page":
        page = cls()
        page.feed(path.read_text(encoding="utf-8"))
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        (self.links if tag == "a" else self.loaded).extend(
            found[name] for name in ("href", "src", "srcset") if name in found
        )


def _site() -> ModuleType:
    """Return the script that builds the site, as a module."""
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "docs" / "site" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    return site
