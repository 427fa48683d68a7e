"""The quickstart: data by name or path, the batches of a run, the accuracy of a run, errors that help."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import evenkeel as ek
from evenkeel.experiment.setup import new_learner, planned
from evenkeel.results.measures import summarise
from tests.helpers.experiments import DATA, config

SCENARIOS: dict[str, dict[str, Any]] = {
    "disjoint": {"tasks": 2, "order": "drawn"},
    "blurry": {"tasks": 2, "percent": 20},
    "i-blurry": {"tasks": 2, "disjoint": 50, "blur": 20},
    "gradual": {"tasks": 2},
    "offline": {"tasks": [["dog"], ["ant", "cat"]], "epochs": 2},
    "rotated": {"tasks": 3},
    "permuted": {"tasks": 2},
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_stream_gives_the_batches_of_a_run_and_its_test_the_acc(name: str) -> None:
    scenario = {"name": name, **SCENARIOS[name]}
    one = config("seed=3", scenario=scenario, batches={"size": 7, "drop_last": True})
    setup = planned(one, DATA, None, lambda *_: None)
    stream = ek.stream(DATA, name, batch=7, drop_last=True, seed=3, **SCENARIOS[name])
    for _ in range(2):  # as often as one likes
        learner = ek.learner_for(DATA, one)
        for (x, labels), batch in zip(stream, setup.stream.batches(), strict=True):
            assert torch.equal(x, batch.x)
            assert labels == list(batch.labels)
            learner.learn(x, labels)
            if batch.ends_task and stream.boundaries:
                learner.boundary()
    assert len(stream) == setup.stream.steps
    assert stream.boundaries == setup.boundaries
    assert [len(task) for task in stream.tasks] == [len(task["classes"]) for task in setup.tasks]
    assert ek.accuracy(learner, stream.test) == summarise(ek.Results.of(ek.run(one, data=DATA)))["acc"]


def test_a_learner_for_data_has_the_seed_and_threads_of_a_run() -> None:
    before = torch.get_num_threads()
    try:
        learner = ek.learner_for(DATA, config("threads=1", "seed=3"), seed=5)
        assert (learner.seed, torch.get_num_threads()) == (5, 1)
    finally:
        torch.set_num_threads(before)
    assert ek.learner_for(DATA, config("seed=3")).seed == 3
    assert ek.learner_for(DATA, config("learner.head=growing")).classes == []


def test_accuracy_is_the_share_of_correct_predictions() -> None:
    learner = new_learner(planned(config(), DATA, None, lambda *_: None))
    for x, labels in ek.stream(DATA, tasks=2, batch=6):
        learner.learn(x, labels)
    expected = 100 * np.mean(learner.predict(DATA.test.x) == np.array(DATA.test.labels))
    assert ek.accuracy(learner, DATA.test) == pytest.approx(expected)
    assert ek.accuracy(learner, (DATA.test.x, DATA.test.labels)) == pytest.approx(expected)
    assert ek.accuracy(learner, (DATA.test.x[:1], DATA.test.labels[:1])) in (0.0, 100.0)


def test_a_learner_that_has_learned_nothing_is_right_nowhere() -> None:
    assert ek.accuracy(ek.Learner(ek.convnet(classes=4), ek.ER()), DATA.test) == 0


def test_data_by_name_and_by_path(tmp_path: Path) -> None:
    assert ek.load_data("digits", test_share=0.5, seed=1).digest != ek.load_data("digits").digest
    train, test = DATA.train, DATA.test
    names = np.array(DATA.classes)
    np.savez(tmp_path / "mine.npz", x_train=train.x, y_train=train.y, x_test=test.x, y_test=test.y, names=names)
    assert ek.load_data(tmp_path / "mine.npz").digest == DATA.digest
    assert ek.load_data("mine.npz", root=tmp_path).digest == DATA.digest
    for split in ("train", "test"):
        for label in ("cat", "dog"):
            folder = tmp_path / "photos" / split / label
            folder.mkdir(parents=True)
            Image.new("RGB", (9, 7)).save(folder / "one.png")
    assert ek.load_data(tmp_path / "photos", size=4).train.x.shape == (2, 3, 4, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ek.load_data("digit"), "neither a path nor the name of a data set.*Did you mean 'digits'"),
        (lambda: ek.load_data("digits", share=1), r"data.digits has no setting 'share'.*test_share"),
        (lambda: ek.stream(DATA, "disjont"), "scenario.name = 'disjont' is not one of .* Did you mean 'disjoint'"),
        (lambda: ek.stream(DATA, tasks=2, percent=3), "scenario.disjoint has no setting 'percent'"),
        (lambda: ek.stream(DATA, tasks=2, batch=0), "batches.size = 0"),
        (lambda: ek.stream(DATA.train, tasks=2), "data is a Split, not a DataSet"),  # type: ignore[arg-type]
        (lambda: ek.learner_for("digits", "digits"), r"data is a str, not a DataSet; load_data"),  # type: ignore[arg-type]
        (lambda: ek.accuracy(taught(), ([[1.0]], ["bee"])), "knows none of the labels of the test data.*'cat'.*'bee'"),
        (lambda: ek.accuracy(taught(), ([[1.0]], ["cat", "dog"])), "test has 2 labels for x of shape"),
        (lambda: ek.accuracy(taught(), 3), "test is a int; give data.test"),  # type: ignore[arg-type]
    ],
)
def test_errors_are_sentences(call: Any, message: str) -> None:
    with pytest.raises(ek.EvenkeelError, match=message):
        call()


def taught() -> ek.Learner:
    learner = ek.Learner(ek.mlp(features=1, classes=1), ek.ER(), memory=5)
    learner.learn([[1.0], [2.0]], ["cat", "dog"])
    return learner
