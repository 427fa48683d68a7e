"""A service whose learner averages its weights: it answers by them, and they survive a stop, a rollback and a kill."""

import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenkeel.config.build import make_learner
from evenkeel.learning.learner import Learner
from evenkeel.learning.probes import differences, snapshot
from evenkeel.service.service import Service
from tests.helpers.processes import wait_for
from tests.helpers.services import Open, examples, learner_of, settle

SETTINGS = ("batches.size=4", "learner.average=0.9", "learner.predict_with=average")
GIVEN = examples(32, own="e")


def answered(service: Service) -> NDArray[np.float64]:
    """Return the probabilities of "cat" that the service gives for some samples."""
    _, answers = service.predict([each.x for each in examples(6, seed=5)])
    return np.array([dict(answer.probabilities)["cat"] for answer in answers])


def known(learner: Learner) -> NDArray[np.float64]:
    x = np.stack([np.frombuffer(each.x, dtype=np.float32) for each in examples(6, seed=5)])
    probabilities: NDArray[np.float64] = learner.predict_proba(x)[:, learner.classes.index("cat")]
    return probabilities


def test_a_service_answers_by_averaged_weights_after_a_stop_and_a_rollback_too(opened: Open) -> None:
    service = opened(*SETTINGS)
    twin = make_learner(service.config, (4,), None)
    for part in (GIVEN[start : start + 4] for start in range(0, 16, 4)):
        service.learn(part).result()
        settle(service)
        x = np.stack([np.frombuffer(each.x, dtype=np.float32) for each in part])
        twin.learn(x, [each.label for each in part], key=[each.id for each in part])
    assert not differences(snapshot(learner_of(service)), snapshot(twin))
    np.testing.assert_allclose(answered(service), known(twin), rtol=1e-6)
    twin.predict_with = "working"
    assert np.abs(answered(service) - known(twin)).max() > 1e-3  # the test can tell them apart
    before, version = answered(service), service.save().result().number
    service.close()
    again = opened()
    np.testing.assert_array_equal(answered(again), before)
    again.learn(GIVEN[16:]).result()
    settle(again)
    assert np.abs(answered(again) - before).max() > 1e-6
    again.rollback(version).result()
    np.testing.assert_array_equal(answered(again), before)


def test_averages_survive_a_kill(opened: Open, tmp_path: Path) -> None:
    service = opened(*SETTINGS)
    service.learn(GIVEN).result()
    wait_for(lambda: not service.waiting)  # all of it is learned, and in no checkpoint yet
    shutil.copytree(tmp_path / "model", tmp_path / "killed")
    again = opened(folder="killed")
    for each in (service, again):
        settle(each)
    np.testing.assert_array_equal(answered(again), answered(service))
    assert not differences(snapshot(learner_of(again)), snapshot(learner_of(service)))
