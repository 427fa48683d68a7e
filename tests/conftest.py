import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """The nets of the tests are tiny, and the tests themselves run side by side."""
    torch.set_num_threads(1)
