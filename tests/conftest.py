import gc
import os
import sys
from collections.abc import Generator
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from tests.helpers.browsers import browser

__all__ = ["browser"]

# The same examples every time, and no deadline: a slow machine is not a bug.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    """Use one thread: the nets of the tests are tiny, and the tests themselves run in parallel."""
    if config.getoption("numprocesses", None) is None or hasattr(config, "workerinput"):  # tests run in this process
        import torch

        torch.set_num_threads(1)


HAS_SLOW = pytest.StashKey[dict[str, bool]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note which files have slow tests, before these are left out."""
    files = config.stash.setdefault(HAS_SLOW, {})
    for item in items:
        file = item.nodeid.partition("::")[0]
        files[file] = files.get(file, False) or item.get_closest_marker("slow") is not None


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Let a test draw the same numbers whichever tests were run before it."""
    import torch

    torch.default_generator.manual_seed(0)  # torch.manual_seed also notes the stack for every kind of device


@pytest.fixture
def has_slow(request: pytest.FixtureRequest) -> dict[str, bool]:
    """The files of this test run, and whether they have tests that only `make test-all` runs."""
    return request.config.stash[HAS_SLOW]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """Before the first test: keep decoded data out of the user's cache, and fork what processes are forked from."""
    with TemporaryDirectory(prefix="evenkeel-cache-") as folder:
        os.environ["EVENKEEL_CACHE"] = folder
        if processes := sys.modules.get("tests.helpers.processes"):  # some test needs it
            processes.fork_server_from_here()
        gc.collect()
        gc.freeze()  # what was imported and collected stays, so nobody need look through it again
        try:
            return (yield)
        finally:
            if simulated := sys.modules.get("tests.helpers.simulated"):
                simulated.end_process()
