"""On real data: CLINC150 sentence embeddings (see ../shared/data/README.md), found by EVENKEEL_DATA."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import evenkeel as ek
from evenkeel.data.scenarios import disjoint
from evenkeel.evaluate import task_accuracies
from evenkeel.metrics import average_accuracy, forgetting, learning_accuracy

FILE = Path(os.environ.get("EVENKEEL_DATA", "")) / "clinc150" / "minilm-l6.npz"
pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="EVENKEEL_DATA does not lead to clinc150/minilm-l6.npz")
TASKS = [list(range(start, start + 10)) for start in range(0, 60, 10)]


def run(adaptor: ek.CBA | None, seed: int) -> tuple[float, float, float]:
    """ACC, FM, learning accuracy over the first six tasks of ten classes; float16 features as they come."""
    data = dict(np.load(FILE))  # all of it now: the file reads an array anew at each access
    y, y_test = torch.from_numpy(data["y_train"]), torch.from_numpy(data["y_test"])
    seen = y_test < 60
    learner = ek.Learner(
        ek.mlp(features=384, classes=60, seed=seed),
        ek.ER(),
        adaptor=adaptor,
        memory=150,
        replay=10,
        optimizer=partial(torch.optim.SGD, lr=0.3),
        classes=range(60),
        seed=seed,
    )
    rows = []
    for samples in disjoint(y, tasks=TASKS, seed=seed):
        for batch in samples.split(10):
            learner.learn(data["x_train"][batch], y[batch])
        rows.append(task_accuracies(learner.logits(data["x_test"][seen]), y_test[seen], TASKS))
    r = np.array(rows)
    return average_accuracy(r), forgetting(r), learning_accuracy(r)


def test_replay_learns_and_cba_forgets_less() -> None:
    plain, corrected = (np.array([run(make(), seed) for seed in (0, 1)]) for make in (lambda: None, _cba))
    assert plain[:, 0].mean() > 50  # chance is 1.7
    assert (corrected[:, 1] < plain[:, 1] - 3).all()  # forgetting, seed by seed
    assert corrected[:, 0].mean() > plain[:, 0].mean()


def _cba() -> ek.CBA:
    return ek.CBA(every=1, lr=1e-2)
