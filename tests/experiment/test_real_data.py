"""Runs on real data: CLINC150 sentence embeddings and CIFAR-10, in the folder EVENKEEL_DATA."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenkeel as ek

DATA = Path(os.environ.get("EVENKEEL_DATA", "nowhere"))


def last(config: ek.Config, **how: Any) -> ek.Ended:
    *_, end = ek.run(config, root=DATA, **how)
    assert isinstance(end, ek.Ended)
    return end


@pytest.mark.skipif(not (DATA / "clinc150").is_dir(), reason="clinc150 is not in EVENKEEL_DATA")
@pytest.mark.parametrize(
    ("classes", "seeds"), [(30, 1), *(pytest.param(classes, 2, marks=pytest.mark.slow) for classes in (30, 60))]
)
def test_on_sentences_replay_learns_and_cba_forgets_less(classes: int, seeds: int) -> None:
    """The first tasks of ten classes; float16 features as stored."""
    first = [f"scenario.order={list(range(classes))}", f"scenario.tasks={classes // 10}", "evaluation.every=0"]
    first += [f"memory.capacity={classes * 5 // 2}"]
    scores = {}
    for name, settings in {"plain": [], "cba": ["adaptor.name=cba", "adaptor.every=1", "adaptor.lr=0.01"]}.items():
        runs = [last(ek.load_config("clinc150", [*first, *settings, f"seed={seed}"])) for seed in range(seeds)]
        scores[name] = np.array([[run.metrics["acc"], run.metrics["fm"]] for run in runs], dtype=np.float64)
    plain, corrected = scores["plain"], scores["cba"]
    assert plain[:, 0].mean() > 50  # chance is below 4
    assert (corrected[:, 1] < plain[:, 1] - 3).all()  # forgetting, seed by seed
    if classes == 60:  # of few classes memory holds enough, and CBA costs accuracy
        assert corrected[:, 0].mean() > plain[:, 0].mean()


@pytest.mark.skipif(not (DATA / "cifar10").is_dir(), reason="cifar10 is not in EVENKEEL_DATA")
@pytest.mark.slow
def test_the_slim_resnet_learns_from_a_short_stream_of_cifar10() -> None:
    """The paper's preset except for the width, 200 images per class instead of 5,000, and a test set of 500."""
    short = ["net.width=20", "threads=1", "limits.train=200", "limits.test=50", "evaluation.sample=100"]
    records = list(ek.run(ek.load_config("paper/cifar10-er-cba", [*short, "evaluation.alignment=10"]), root=DATA))
    results = ek.Results.of(records)
    assert results.ended is not None
    assert [test.step for test in results.tested] == [0, 12, 24, 36, 48, 60]  # 400 images per task, full batches only
    assert all(step.loss is not None and np.isfinite(step.loss) for step in results.steps)
    assert sum(step.outer_loss is not None for step in results.steps) == 4 * 3  # every fifth step from the second task
    assert results.ended.metrics["learning_accuracy"] > 55  # type: ignore[operator]  # two classes per task; untrained: 10
    assert results.ended.metrics["acc_task_il"] > 55  # type: ignore[operator]  # chance is 50
    assert results.ended.metrics["acc"] > 12  # type: ignore[operator]
    assert len(results.aligned) == 6
