"""A server for vectors."""

from collections.abc import Iterator

import pytest

from tests.helpers.hostile import LIMITS, X
from tests.helpers.serving import VECTORS, Served


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("vectors") / "model", (*VECTORS, *LIMITS)) as served:
        served.post("/v1/learn", {"examples": [{"x": X, "label": "ab"[at % 2]} for at in range(32)]})
        served.settled()
        yield served
        assert "Traceback" not in served.log.read_text()
