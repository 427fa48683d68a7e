"""A real browser: one for all tests of a process, since it takes long to start."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium")
PATIENCE = 300_000  # milliseconds that nothing takes, however busy the machine is


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """Return a browser; a test opens a context of its own in it, and closes that."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    quiet = ("gpu", "quic", "background-networking", "component-update", "sync")
    sync.expect.set_options(timeout=PATIENCE)
    with sync.sync_playwright() as play:
        args = ["--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in quiet)]
        launched = play.chromium.launch(executable_path=CHROMIUM, args=args)
        yield launched
        launched.close()
