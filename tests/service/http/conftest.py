"""One server for vectors and one for images, for all tests of a process: their limits suit everybody.

A test leaves them working, and expects nothing of labels, ids and counts but what it has caused itself.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.helpers.hostile import LIMITS, X
from tests.helpers.serving import PICTURES, VECTORS, Served, encoded, text


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that has learned vectors of the labels a and b."""
    samples = ({"x": X}, {"x": [*X[1:], X[0]]})
    yield from served(tmp_path_factory.mktemp("vectors") / "model", VECTORS, dict(zip("ab", samples, strict=True)))


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that has learned dark and light images."""
    shades = {"dark": 20, "light": 230}
    samples = {label: {"image": text(encoded(Image.new("L", (8, 8), shade)))} for label, shade in shades.items()}
    yield from served(tmp_path_factory.mktemp("pictures") / "model", PICTURES, samples)


def served(folder: Path, settings: tuple[str, ...], samples: dict[str, dict[str, Any]]) -> Iterator[Served]:
    """Start a service and teach it samples by label; in the end, check that it has logged no error."""
    with Served(folder, (*settings, *LIMITS)) as one:
        one.post("/v1/learn", {"examples": [x | {"label": label} for label, x in samples.items()] * 20})
        one.settled()
        yield one
        assert not one.failures()
