import os
from pathlib import Path

import pytest

from tests.helpers.data_files import Told

REAL = os.environ.get("EVENKEEL_DATA")  # before the tests hide it


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for each test, and no data but what it writes."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("EVENKEEL_CACHE", str(folder))
    monkeypatch.delenv("EVENKEEL_DATA", raising=False)
    return folder


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def real_data() -> Path:
    if REAL is None:
        pytest.skip("EVENKEEL_DATA names no folder with real data")
    return Path(REAL)
