"""Services in this process: examples to teach them, and checks of what they counted."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evenkeel.learning import checkpoint
from evenkeel.learning.learner import Learner
from evenkeel.service.examples import Example
from evenkeel.service.service import Service
from evenkeel.service.worker.pipe import WorkerReport
from tests.helpers.processes import wait_for
from tests.helpers.serving import VECTORS

Open = Callable[..., Service]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens the folder `model`, and closes it in the end. Learning starts only with `start`."""
    threads, services = torch.get_num_threads(), list[Service]()

    def open_one(*settings: str, folder: str = "model", start: bool = True, **how: Any) -> Service:
        path = tmp_path / folder
        service = Service(path, None, settings if path.exists() else [*VECTORS, *settings], **how)
        services.append(service)
        if start:
            service.start()
        return service

    yield open_one
    for service in services:
        service.close()
    torch.set_num_threads(threads)


def examples(
    count: int, *, labels: Sequence[str | int] = ("cat", "dog"), seed: int = 0, own: str = ""
) -> list[Example]:
    """Return examples with random vectors around a corner for each label."""
    generator = np.random.default_rng(seed)
    chosen = [labels[place % len(labels)] for place in range(count)]
    x = generator.normal(scale=0.3, size=(count, 4))
    for row, label in zip(x, chosen, strict=True):
        row[labels.index(label) % 4] += 2
    packed = [row.tobytes() for row in x.astype(np.float32)]
    return [
        Example(row, label, f"{own}{place}" if own else "")
        for place, (row, label) in enumerate(zip(packed, chosen, strict=True))
    ]


def settle(service: Service) -> None:
    """Wait until everything accepted has been learned, and saved."""
    wait_for(lambda: not service.waiting)
    assert service.supervisor is not None
    service.supervisor.command("save").result()  # then the last batch is finished, and the counts are reported


def teach(service: Service, given: list[Example]) -> list[str]:
    """Teach examples, wait until they have been learned, and return their ids."""
    accepted = service.learn(given).result()
    settle(service)
    return [each.id for each in accepted]


def report(service: Service) -> WorkerReport:
    assert service.supervisor is not None
    return service.supervisor.report


def adds_up(service: Service) -> bool:
    """Check whether every accepted example was learned, refused or withdrawn, or is waiting."""
    counts, reported = service.counts().result(), report(service)
    return counts["accepted"] == reported.learned + reported.refused + service.waiting + counts["withdrawn"]


def rows(service: Service, query: str) -> list[tuple[object, ...]]:
    """Return the rows of a query to the journal."""
    with closing(sqlite3.connect(service.model_folder.journal)) as db:
        return db.execute(query).fetchall()


def learner_of(service: Service) -> Learner:
    """Return the learner of the newest version, as it is on disk after `settle`."""
    return Learner.load(service.model_folder.version(service.model_folder.versions()[-1]))


def failing_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the next checkpoint fail as if the disk were full."""
    write, calls = checkpoint.write, list[int]()

    def fail_first(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("No space left on device")
        write(*arguments)

    monkeypatch.setattr("evenkeel.learning.checkpoint.write", fail_first)
