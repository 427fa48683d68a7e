"""A real browser for the tests of a module."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    sync = pytest.importorskip("playwright.sync_api")
    quiet = ("gpu", "quic", "background-networking", "component-update", "sync")
    with sync.sync_playwright() as play:
        args = ["--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in quiet)]
        found = play.chromium.launch(executable_path=CHROMIUM, args=args)
        yield found
        found.close()
