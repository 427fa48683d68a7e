"""What a service leaves if it is killed at any moment; `test_crashes` kills real ones."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from evenkeel.config.build import make_learner
from evenkeel.learning.probes import differences, snapshot
from evenkeel.service.examples import Example
from evenkeel.service.service import Service
from evenkeel.service.store.model_folder import ModelFolder
from tests.helpers.moments import Moments
from tests.helpers.services import adds_up, examples, learner_of, settle
from tests.helpers.serving import VECTORS

SETTINGS = [*VECTORS, "batches.size=4", "batches.wait=3600", "checkpoints.batches=2"]
REQUESTS = [examples(4, own=f"{place}-", seed=place) for place in range(5)]
ALL = {example.id: example for request in REQUESTS for example in request}


def test_what_was_acknowledged_is_learned_once_whenever_the_service_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acknowledged = list[str]()
    moments = Moments(tmp_path / "whole", tmp_path / "killed", step=7, note=acknowledged.copy)
    with monkeypatch.context() as patch:
        moments.watch(patch)
        with closing(Service(tmp_path / "whole", None, SETTINGS)) as service:
            service.start()
            for request in REQUESTS:
                acknowledged += [each.id for each in service.learn(request).result()]
            settle(service)
    left = [each for each in moments.left if (each[0] / "service.toml").exists()]
    for folder, promised in left[:: max(1, len(left) // 12)]:
        with closing(Service(folder)) as service:
            assert set(promised) <= {id for _, id in journal(folder)}, folder
            service.start()
            for request in REQUESTS:  # the client repeats what it has no answer to, and more
                service.learn(request).result()
            settle(service)
            assert adds_up(service)
            assert sorted(id for _, id in journal(folder)) == sorted(ALL)
            require_equal_to_a_twin(service)


def journal(folder: Path) -> list[tuple[int, str]]:
    """Return the batch and the id of each example, in the order in which they are learned."""
    with closing(sqlite3.connect(ModelFolder(folder).journal)) as db:
        return db.execute("SELECT batch, id FROM examples ORDER BY batch, seq").fetchall()


def require_equal_to_a_twin(service: Service) -> None:
    """Fail if a learner that was never killed and learns the same batches differs."""
    config = service.model_folder.read()
    twin = make_learner(config, config.input.sample, config.classes)
    batches: dict[int, list[Example]] = {}
    for batch, id in journal(service.model_folder.path):
        batches.setdefault(batch, []).append(ALL[id])
    for batch_of in batches.values():
        twin.learn(vectors(batch_of), [each.label for each in batch_of], key=[each.id for each in batch_of])
    assert not differences(snapshot(learner_of(service)), snapshot(twin))


def vectors(given: list[Example]) -> NDArray[np.float32]:
    return np.stack([np.frombuffer(each.x, dtype=np.float32) for each in given])
