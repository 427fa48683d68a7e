"""Settings reach the learner, the stream and the test data; records hold what is measured."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import evenkeel as ek
from evenkeel.experiment.setup import new_learner, planned
from evenkeel.experiment.testset import TestSet
from evenkeel.learning.adaptors import ADAPTORS
from evenkeel.learning.rng import make_generator
from evenkeel.results.measures import MEASURES, summarise
from tests.helpers.experiments import DATA, config
from tests.helpers.runs import make_run
from tests.helpers.streams import images, learn_all, learner

SETTINGS: dict[str, tuple[str, Callable[[ek.Learner], object], object]] = {
    "replay": ("learner.replay=7", lambda one: one.replay, 7),
    "statistics": ("learner.statistics=replay", lambda one: one.statistics, "replay"),
    "policy": ("memory.policy=balanced", lambda one: one.memory.policy, "balanced"),
    "capacity": ("memory.capacity=13", lambda one: one.memory.capacity, 13),
    "lr": ("optimizer.lr=0.7", lambda one: one.optimizer.param_groups[0]["lr"], 0.7),
    "momentum": ("optimizer.momentum=0.6", lambda one: one.optimizer.param_groups[0]["momentum"], 0.6),
    "decay": ("optimizer.weight_decay=0.2", lambda one: one.optimizer.param_groups[0]["weight_decay"], 0.2),
    "optimizer": ("optimizer.name=AdamW", lambda one: type(one.optimizer), torch.optim.AdamW),
    "normalize": (
        "learner.normalize={mean=[0.3], std=[0.2]}",
        lambda one: one.state()[0]["normalize"],
        ((0.3,), (0.2,)),
    ),
    "seed": ("seed=5", lambda one: one.seed, 5),
    "head": ("learner.head=growing", lambda one: (one.net.outputs, one.classes), (1, [])),
    "classes": ("learner.head=fixed", lambda one: (one.net.outputs, one.classes), (4, ["ant", "bee", "cat", "dog"])),
    "width": ("net.width=8", lambda one: one.net.head.in_features, 64),
    "method": ("method={name='derpp', alpha=0.9}", lambda one: repr(one.method), "DERpp(alpha=0.9, beta=0.5)"),
    "adaptor": ("adaptor={name='cba', every=3}", lambda one: isinstance(one.adaptor, ek.CBA) and one.adaptor.every, 3),
    "augment": (
        "augment={name='crop-flip', padding=2}",
        lambda one: repr(one.augment),
        "CropFlip(padding=2, flip=True)",
    ),
}


class Dull(ek.Adaptor):
    """Another adaptor than CBA."""

    title = "DULL"
    needs_boundaries = True

    def correct(self, view: ek.View, *, learning: bool = False) -> ek.View:
        return replace(view, adapted=view.logits + 0)


def test_an_adaptor_needs_nothing_but_a_name_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADAPTORS, "dull", Dull)
    assert ek.load_config({}, ["adaptor.name=dull"]).name == "ER + DULL"
    plain, dull = (list(ek.run(config(f"adaptor.name={name}"), data=DATA)) for name in ("none", "dull"))
    assert plain[1:] == dull[1:]  # all but the config
    with pytest.raises(ek.SettingsError, match=r"Dull\(\) needs to know when a task ends.*choose other settings"):
        ek.run(config("adaptor.name=dull"), stream=images())


@pytest.mark.parametrize(("override", "of", "value"), SETTINGS.values(), ids=SETTINGS)
def test_a_setting_reaches_the_learner(override: str, of: Callable[[ek.Learner], object], value: object) -> None:
    one = new_learner(planned(config(override), DATA, None, lambda *_: None))
    assert of(one) == value
    other = new_learner(planned(config(), DATA, None, lambda *_: None))
    assert override == "learner.head=fixed" or of(other) != value  # it is not the default anyway


def test_the_number_of_threads_is_that_of_the_config(monkeypatch: pytest.MonkeyPatch) -> None:
    used = set[int]()
    learn = ek.Learner.learn

    def watched(self: ek.Learner, *args: Any, **how: Any) -> ek.StepRecord:
        used.add(torch.get_num_threads())
        return learn(self, *args, **how)

    monkeypatch.setattr(ek.Learner, "learn", watched)
    list(ek.run(config("threads=2"), data=DATA))
    assert used == {2}


def test_a_run_resumes_with_the_threads_it_began_with(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    begun = ek.run(config(), data=DATA, out=tmp_path, save_every=0)
    for _ in range(6):
        next(begun)
    begun.close()  # type: ignore[attr-defined]
    torch.set_num_threads(2)
    try:
        first, *_ = ek.run(config(), data=DATA, out=tmp_path)
    finally:
        torch.set_num_threads(before)
    assert isinstance(first, ek.Started)
    assert first.threads == before


@pytest.mark.parametrize("name", ["rotated", "permuted"])
def test_training_and_test_samples_of_a_domain_are_transformed_alike(name: str) -> None:
    setup = planned(config(scenario={"name": name, "tasks": 2}), DATA, None, lambda *_: None)
    domain = ek.SCENARIOS[name](DATA.train.y, tasks=2, seed=0).tasks[1].domain
    assert domain is not None
    train, test = (torch.from_numpy(np.array(split.x)) for split in (DATA.train, DATA.test))
    assert not torch.equal(domain(train), train)
    arrived: list[set[bytes]] = [set(), set()]
    for batch in setup.stream.batches():
        arrived[batch.task] |= {sample.numpy().tobytes() for sample in batch.x}
    assert arrived == [{sample.numpy().tobytes() for sample in x} for x in (train, domain(train))]
    assert setup.test_set is not None
    assert torch.equal(setup.test_set.x, torch.cat([test, domain(test)]))
    assert setup.test_set.task.tolist() == [0] * len(test) + [1] * len(test)


def test_a_stream_is_identified_by_its_order() -> None:
    """Two streams of the same samples in different orders have different digests."""
    digests = set()
    for seed in (0, 1):
        setup = planned(config(f"seed={seed}", "scenario.order=given"), DATA, None, lambda *_: None)
        digests.add(setup.digest)
    assert len(digests) == 2
    same = planned(config("method.name=derpp"), DATA, None, lambda *_: None).digest
    assert same in digests


def test_places_start_again_with_each_task_of_a_users_own_stream() -> None:
    batches = [(x, y, place // 4) for place, (x, y) in enumerate(images(batches=8))]
    test = (batches[0][0], batches[0][1], [0, 0, 0, 1, 1, 1])
    outcome = ek.Results.of(ek.run(config("evaluation.every=3"), stream=batches, test=test))
    assert [point.step for point in outcome.anytime] == [1, 4, 5, 8]


def test_memory_is_counted_by_class() -> None:
    one = learner(ek.ER(), outputs=1, memory=10)
    learn_all(one, images(batches=8))
    classes = sorted(one.classes, key=str, reverse=True)  # not in the order of the outputs
    y = torch.arange(len(classes))
    test_set = TestSet(images(batches=1)[0][0][: len(classes)], y, torch.zeros_like(y), classes, [y.tolist()])
    held = [one.classes[output] for output in one.memory.column("y").tolist()]
    assert test_set.test(one, 0, classes, "float32").memory == [held.count(name) for name in classes]
    assert len(set(test_set.test(one, 0, classes, "float32").memory)) > 1


def test_a_sample_is_drawn_at_random() -> None:
    y = torch.zeros(40, dtype=torch.int64)
    whole = TestSet(torch.arange(40)[:, None].float(), y, y, [0], [[0]])
    parts = [whole.sample(10, make_generator(seed, "anytime")).x[:, 0].tolist() for seed in range(20)]
    assert len(set(map(tuple, parts))) == 20
    assert np.mean(parts) == pytest.approx(19.5, abs=3)  # not the first ones; this mean has a standard deviation of 0.7


def test_bias_toward_a_task_raises_its_accuracy_but_not_the_one_within_the_task() -> None:
    y = torch.arange(400) % 4
    test_set = TestSet(torch.zeros(400, 1), y, y // 2, ["a", "b", "c", "d"], [[0, 1], [2, 3]])
    test_set = replace(test_set, y=y[y.argsort(stable=True)], task=(y // 2).sort().values)
    fair = torch.randn(400, 4, generator=torch.Generator().manual_seed(0)) + torch.eye(4)[test_set.y]
    biased = fair + torch.tensor([0.0, 0.0, 2.0, 2.0])
    assert test_set.accuracy(biased)[1] > test_set.accuracy(fair)[1] + 10
    assert test_set.masked(biased) == test_set.masked(fair)


# ---- every measure, by number ----


def by_hand() -> ek.Results:
    """Return a run of two tasks of one class each, in which all values that could be confused differ."""
    run = make_run(tasks=2, classes=2, steps=4)
    started = replace(run.started, config={**run.started.config, "evaluation": {"every": 3}})

    def test(task: int, **scores: Any) -> ek.Tested:
        return ek.Tested(step=4 * (task + 1), task=task, confusion=[[1, 9], [8, 2]], memory=[1, 1], **scores)

    tested = [
        test(-1, accuracy=[10.0, 20.0], seen=[1, 2], masked=[3, 4], predicted=[], recall=[10, 20]),
        test(0, accuracy=[90.0, 5.0], seen=[91, 0], masked=[95, 55], predicted=[99.0, 1.0], recall=[90, 5]),
        test(1, accuracy=[50.0, 80.0], seen=[52, 82], masked=[94, 97], predicted=[40.0, 60.0], recall=[51, 81]),
    ]
    anytime = [
        ek.Anytime(1, 0, [70.0], [100, 0]),
        ek.Anytime(4, 0, [88.0], [100, 0]),
        ek.Anytime(5, 1, [30.0, 60.0], [40, 60]),
        ek.Anytime(8, 1, [50.0, 80.0], [40, 60]),
    ]
    steps = [
        replace(step, correct=right, samples=10)
        for step, right in zip(run.steps, [1, 2, 3, 4, 5, 6, 7, 9], strict=True)
    ]
    return ek.Results(None, started, steps, anytime, tested, [], ek.Ended(8, {}))


EXPECTED = {
    "acc": 65.0,
    "fm": 40.0,
    "learning_within": (95 + 97) / 2,
    "acc_auc": (70 + 88 + 45 + 65) / 4,
    "learning_accuracy": 85.0,
    "acc_seen": 67.0,
    "acc_task_il": 95.5,
    "acc_triangle": (90 + 50 + 80) / 3,
    "aia": (90 + 65) / 2,
    "fm_over_all": 20.0,
    "fm_since_learned": 40.0,
    "fm_classes": ((90 - 51) + (5 - 81)) / 2,
    "fm_but_newest_two": 0.0,
    "bwt": -40.0,
    "fwt": 5.0 - 20.0,
    "wc_acc": (30 + 80) / 2,
    "recency_bias": 60.0,
    "recency_tilt": 100 * (11 / 20 - 10 / 20) / (1 - 10 / 20),
    "acc_auc_sum": (70 + 88 + 45 + 65) * 3,
    "prequential": 100 * 37 / 80,
}


def test_every_measure_by_hand() -> None:
    assert EXPECTED.keys() == MEASURES.keys(), "Say in EXPECTED what a new measure is for the run by hand."
    assert summarise(by_hand()) == pytest.approx(EXPECTED)


def test_a_method_is_built_once_for_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    class Counted(ek.ER):
        def __init__(self) -> None:
            super().__init__()
            built.append(self)

    monkeypatch.setitem(ek.METHODS, "counted", Counted)
    records = list(ek.run(config(method={"name": "counted"}).model_dump(mode="json"), data=DATA))
    assert len(records) > 2
    assert len(built) == 1


def test_two_learners_of_a_config_share_nothing() -> None:
    setup = planned(config(method={"name": "clser"}, adaptor={"name": "cba"}), DATA, None, lambda *_: None)
    first, second = new_learner(setup), new_learner(setup)
    assert first.method is not second.method
    assert first.adaptor is not second.adaptor
    mine = {id(weight) for weight in first.method.state_dict(keep_vars=True).values()}
    assert not mine & {id(weight) for weight in second.method.state_dict(keep_vars=True).values()}
