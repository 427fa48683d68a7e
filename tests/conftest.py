import os

import pytest
import torch
from hypothesis import settings

from tests.helpers.browsers import browser

__all__ = ["browser"]

# The same examples every time, and no deadline: a slow machine is not a bug.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


HAS_SLOW = pytest.StashKey[dict[str, bool]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note which files have slow tests, before these are left out."""
    files = config.stash.setdefault(HAS_SLOW, {})
    for item in items:
        file = item.nodeid.partition("::")[0]
        files[file] = files.get(file, False) or item.get_closest_marker("slow") is not None


@pytest.fixture
def has_slow(request: pytest.FixtureRequest) -> dict[str, bool]:
    """The files of this test run, and whether they have tests that only `make test-all` runs."""
    return request.config.stash[HAS_SLOW]


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Use one thread: the nets of the tests are tiny, and the tests themselves run in parallel."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep decoded data with the tests' other files, not in the user's cache."""
    os.environ["EVENKEEL_CACHE"] = str(tmp_path_factory.mktemp("cache"))
