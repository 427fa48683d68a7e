import os

import pytest
import torch
from hypothesis import settings

# The same examples every time, and no deadline: a slow machine is not a bug.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Use one thread: the nets of the tests are tiny, and the tests themselves run in parallel."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep decoded data with the tests' other files, not in the user's cache."""
    os.environ["EVENKEEL_CACHE"] = str(tmp_path_factory.mktemp("cache"))
