"""A fixture that opens services in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from evenkeel.service.service import Service
from tests.helpers.services import Open
from tests.helpers.serving import VECTORS


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens the folder `model`; it is closed in the end. Learning starts only with `start`."""
    threads, services = torch.get_num_threads(), list[Service]()

    def open_one(*settings: str, folder: str = "model", start: bool = True, rollback: int | None = None) -> Service:
        path = tmp_path / folder
        service = Service(path, None, settings if path.exists() else [*VECTORS, *settings], rollback=rollback)
        services.append(service)
        if start:
            service.start()
        return service

    yield open_one
    for service in services:
        service.close()
    torch.set_num_threads(threads)
