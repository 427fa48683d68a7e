"""Noise and imbalance as settings of every scenario: in streams, configs, run keys, records and tables."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

import evenkeel as ek
from evenkeel.data.stream import Batch
from evenkeel.experiment.setup import planned
from evenkeel.grids.run_names import run_key
from evenkeel.results.groups import groups, paired

DATA = ek.load_data("digits").limited(train=40, test=5)
SCENARIOS: dict[str, dict[str, Any]] = {
    "disjoint": {},
    "blurry": {"percent": 20},
    "i-blurry": {"disjoint": 50, "blur": 20},
    "gradual": {},
    "offline": {"epochs": 2},
    "rotated": {"tasks": 2},
    "permuted": {"tasks": 2, "repeat": False},
}
SHORT = ["limits.train=20", "limits.test=5", "net.width=4", "evaluation.every=0", "evaluation.alignment=0"]


def batches(name: str, **settings: Any) -> list[Batch]:
    return list(ek.stream(DATA, name, batch=16, seed=3, **SCENARIOS[name], **settings).batches())


def digest_of(run: list[Batch]) -> list[tuple[bytes, tuple[Any, ...], int]]:
    return [(batch.x.numpy().tobytes(), tuple(batch.labels), batch.task) for batch in run]


def side_by_side(one: list[Batch], other: list[Batch]) -> list[tuple[Any, Any]]:
    return [pair for a, b in zip(one, other, strict=True) for pair in zip(a.labels, b.labels, strict=True)]


def test_every_scenario_is_tested() -> None:
    assert SCENARIOS.keys() == ek.SCENARIOS.keys(), "Add settings of a new scenario."


@pytest.mark.parametrize("name", SCENARIOS)
def test_noise_changes_labels_but_not_the_order_of_samples(name: str) -> None:
    clean, wrong, again = batches(name), batches(name, noise=0.2), batches(name, noise=0.2)
    assert digest_of(wrong) == digest_of(again)
    assert [(batch.x.numpy().tobytes(), batch.task) for batch in clean] == [
        (batch.x.numpy().tobytes(), batch.task) for batch in wrong
    ]
    labels = side_by_side(clean, wrong)
    assert sum(a != b for a, b in labels) == pytest.approx(0.2 * len(labels))  # 8 of the 40 of each class
    together = ek.stream(DATA, name, **SCENARIOS[name]).tasks
    assert all(any({a, b} <= set(classes) for classes in together) for a, b in labels)


@pytest.mark.parametrize("name", SCENARIOS)
def test_classes_are_as_rare_as_the_imbalance_says(name: str) -> None:
    run = batches(name, imbalance=20)
    assert digest_of(run) == digest_of(batches(name, imbalance=20))
    counts = sorted(Counter(label for batch in run for label in batch.labels).values())
    passes = counts[-1] // 40
    assert counts == [passes * round(40 * 20 ** (-place / 9)) for place in range(9, -1, -1)]
    assert len(counts) == 10


@pytest.mark.parametrize("name", SCENARIOS)
def test_noise_and_imbalance_together_are_exact(name: str) -> None:
    clean, wrong = batches(name, imbalance=4), batches(name, imbalance=4, noise=0.25)
    labels = side_by_side(clean, wrong)
    total, errors = Counter(a for a, _ in labels), Counter(a for a, b in labels if a != b)
    passes = total.most_common(1)[0][1] // 40
    for label, count in total.items():
        assert errors[label] == passes * round(0.25 * (count // passes))


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_test_data_stays_clean(name: str) -> None:
    unclean: dict[str, Any] = {"noise": 0.3, "imbalance": 5}
    clean, other = (ek.stream(DATA, name, **SCENARIOS[name], **more).test for more in ({}, unclean))
    assert torch.equal(clean.x, other.x)
    assert torch.equal(clean.y, other.y)
    assert clean.tasks == other.tasks


def test_the_first_tasks_of_a_limited_run_have_the_same_labels() -> None:
    config = ek.load_config("digits", ["scenario={name='blurry', tasks=5, percent=20, noise=0.3, imbalance=3}"])
    runs = []
    for limit in ([], ["limits.tasks=2"]):
        setup = planned(ek.load_config(config, limit), DATA, None, lambda *_: None)
        runs.append([batch for batch in setup.stream.batches() if batch.task < 2])
    assert digest_of(runs[0]) == digest_of(runs[1])


def test_keys_and_records_tell_unclean_streams_apart_and_clean_ones_stay() -> None:
    plain = ek.load_config("digits")
    assert run_key(ek.load_config("digits", ["scenario.noise=0", "scenario.imbalance=none"])) == run_key(plain)
    others = [run_key(ek.load_config("digits", [each])) for each in ("scenario.noise=0.1", "scenario.imbalance=2")]
    assert len({run_key(plain), *others}) == 3
    assert not {"noise", "imbalance"} & plain.model_dump(mode="json")["scenario"].keys()


def test_runs_of_unclean_streams_are_groups_of_their_own_and_can_be_paired() -> None:
    configs = [ek.load_config("digits", [*SHORT, *more]) for more in ([], ["scenario.noise=0.2"])]
    clean, noisy = (ek.Results.of(ek.run(config)) for config in configs)
    one, other = groups([clean, noisy])
    assert "noise 0.2" in other.label
    assert len(paired(one, other)) == 1  # the same samples at the same time: the digest of the order is equal
    assert noisy.started.config["scenario"]["noise"] == 0.2


def test_prequential_accuracy_counts_the_labels_that_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner that always knows the right label is wrong as often as the stream is."""
    config = ek.load_config("digits", [*SHORT, "scenario.noise=0.2"])
    right = {image.tobytes(): label for image, label in zip(DATA.train.x, DATA.train.labels, strict=True)}

    def predict(_: ek.Learner, x: torch.Tensor) -> Any:
        return np.array([right[image.tobytes()] for image in x.numpy()])

    monkeypatch.setattr(ek.Learner, "predict", predict)
    run = ek.Results.of(ek.run(config, data=DATA))
    assert sum(step.correct or 0 for step in run.steps) == 0.8 * sum(step.samples for step in run.steps)


def test_a_stream_of_ones_own_refuses_noise() -> None:
    config = ek.load_config("digits", ["scenario.noise=0.2"])
    with pytest.raises(ek.SettingsError, match=r"scenario\.noise needs a data set"):
        list(ek.run(config, stream=[(torch.zeros(2, 1, 8, 8), [0, 1])]))
