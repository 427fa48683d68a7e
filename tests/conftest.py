import os

import pytest
import torch
from hypothesis import settings

# The same examples every time, and no deadline: a slow machine is no fault of the code.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """The nets of the tests are tiny, and the tests themselves run side by side."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Decoded data goes where the tests' other files go, not into the user's cache."""
    os.environ["EVENKEEL_CACHE"] = str(tmp_path_factory.mktemp("cache"))
