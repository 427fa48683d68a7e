import os
from pathlib import Path

import pytest

from tests.helpers.data_files import ProgressLog

REAL = os.environ.get("EVENKEEL_DATA")  # read before the tests hide it


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test its own cache, and no data but what it writes."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("EVENKEEL_CACHE", str(folder))
    monkeypatch.delenv("EVENKEEL_DATA", raising=False)
    return folder


@pytest.fixture
def progress() -> ProgressLog:
    return ProgressLog()


@pytest.fixture
def real_data() -> Path:
    if REAL is None:
        pytest.skip("EVENKEEL_DATA names no folder with real data")
    return Path(REAL)
