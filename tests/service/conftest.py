"""Services in this process, and what is taught to them."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from evenkeel.service.examples import Given
from evenkeel.service.service import Service
from tests.service.serving import VECTORS

Open = Callable[..., Service]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens the folder `model`, and closes it in the end. Learning starts only with `start`."""
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


def examples(count: int, *, labels: Sequence[str | int] = ("cat", "dog"), seed: int = 0, own: str = "") -> list[Given]:
    """Random vectors around a corner for each label."""
    generator = np.random.default_rng(seed)
    chosen = [labels[place % len(labels)] for place in range(count)]
    x = generator.normal(scale=0.3, size=(count, 4))
    for row, label in zip(x, chosen, strict=True):
        row[labels.index(label) % 4] += 2
    packed = [row.tobytes() for row in x.astype(np.float32)]
    return [
        Given(row, label, f"{own}{place}" if own else None)
        for place, (row, label) in enumerate(zip(packed, chosen, strict=True))
    ]
