"""Averaged weights: what they are, which of them predict, and where they go along."""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

import evenkeel as ek
from evenkeel.learning.average import Average
from evenkeel.learning.export import export
from evenkeel.learning.probes import differences, snapshot
from evenkeel.learning.torch_utils import batch_norm_like, scratch_buffers
from evenkeel.learning.types import Decay
from tests.helpers.methods import FEATURES, OUTPUTS, norm_net, random, state_of
from tests.helpers.reference_average import reference_average, reference_distillation
from tests.helpers.streams import ADAPTORS, METHODS, images, learn_all

AVERAGED = [name for name, make in METHODS.items() if not make().no_average]


def learner(method: ek.Method | None = None, adaptor: ek.Adaptor | None = None, **settings: Any) -> ek.Learner:
    outputs = settings.pop("outputs", 4)
    return ek.Learner(
        ek.convnet(classes=outputs, width=4),
        method or ek.ER(),
        adaptor=adaptor,
        memory=10,
        replay=6,
        optimizer=partial(SGD, lr=0.05, momentum=0.9),
        augment=ek.CropFlip(padding=1),
        **{"average": 0.8, **settings},
    )


def on_vectors(net: ek.Net, **settings: Any) -> ek.Learner:
    return ek.Learner(
        net, ek.ER(), memory=9, replay=5, optimizer=partial(SGD, lr=0.1), classes=range(OUTPUTS), **settings
    )


def vectors(place: int) -> tuple[Tensor, list[int]]:
    return random(6, FEATURES, seed=place), [label + 3 * (place // 6) for label in (0, 1, 2, 0, 1, 2)]


# ---- what is averaged ----


@pytest.mark.parametrize("decay", [0.3, 0.75, 0.99, "auto"])
def test_averages_equal_the_slow_reference(decay: Decay) -> None:
    """Weights and running statistics of batch norm; counts are copied."""
    net = norm_net()
    one = on_vectors(net, average=decay)
    history = []
    for place in range(12):
        one.learn(*vectors(place))
        history.append(state_of(net))
    averaged, mean = (state_of(one._step.average.predictor(name)) for name in ("average", "mean"))  # type: ignore[union-attr]
    for name, value in reference_average(history, decay).items():
        np.testing.assert_allclose(averaged[name], value, rtol=1e-12, atol=1e-13, err_msg=name)
        whole = value.dtype.kind != "f"
        middle = value if whole else (value + history[-1][name]) / 2
        np.testing.assert_allclose(mean[name], middle, rtol=1e-12, atol=1e-13, err_msg=name)


def test_auto_spans_a_tenth_of_the_updates_and_at_most_a_hundred() -> None:
    average = Average(ek.mlp(features=2, classes=2), "auto")
    shares = []
    for average.updates in (0, 10, 90, 990, 10**6):
        shares.append(average.share)
    assert shares == pytest.approx([1, 1 / 2, 1 / 10, 1 / 100, 1 / 100])


def test_averages_change_nothing_in_training() -> None:
    plain, averaged = learner(average=None), learner()
    assert learn_all(plain, images()) == learn_all(averaged, images())
    others = [path for path in differences(snapshot(plain), snapshot(averaged)) if "average" not in path]
    assert others == []


def test_frozen_and_tied_weights_stay_so() -> None:
    shared = nn.Linear(4, 4)
    body = nn.Sequential(shared, nn.ReLU(), shared)
    shared.bias.requires_grad_(False)
    one = ek.Learner(ek.Net(body, nn.Linear(4, 2)), ek.ER(), memory=5, average=0.5)
    frozen = shared.bias.clone()
    for place in range(4):
        one.learn(random(4, 4, seed=place).float(), [0, 1, 0, 1])
    average = one.snapshot().net
    assert torch.equal(average.backbone.get_parameter("0.bias"), frozen)
    assert average.backbone.get_submodule("0") is average.backbone.get_submodule("2")


# ---- which weights predict ----


def test_the_chosen_weights_predict_and_the_mean_by_default() -> None:
    one = learner()
    learn_all(one, images())
    x = images()[0][0]
    assert one.predict_with == "mean"
    scores = {}
    for name in ("mean", "average", "working"):
        one.predict_with = name
        scores[name] = one.logits(x)
    plain = learner(average=None)
    learn_all(plain, images())
    assert torch.equal(scores["working"], plain.logits(x))
    assert not torch.allclose(scores["average"], scores["working"])
    assert not torch.allclose(scores["mean"], scores["working"])


@pytest.mark.parametrize("predict_with", ["mean", "average", "working"])
@pytest.mark.parametrize("method", AVERAGED)
def test_predicting_changes_nothing_and_a_snapshot_stays(method: str, predict_with: str) -> None:
    one, stream = learner(METHODS[method](), predict_with=predict_with), images(batches=4)
    learn_all(one, stream[:3])
    before, x = snapshot(one), stream[0][0]
    scores = one.logits(x)
    kept = one.snapshot()
    assert differences(before, snapshot(one)) == []
    assert torch.equal(kept.logits(x), scores)
    learn_all(one, stream[3:])
    assert torch.equal(kept.logits(x), scores)
    assert not torch.equal(one.logits(x), scores)


def test_the_mean_follows_every_change_of_the_working_weights() -> None:
    one = learner()
    learn_all(one, images()[:3])
    x = images()[0][0]
    before = one.logits(x)
    with torch.no_grad():
        for weight in one.net.head.parameters():
            weight.add_(1.0)
    assert not torch.equal(one.logits(x), before)


def test_icarl_takes_class_means_of_the_net_that_predicts() -> None:
    one = learner(ek.ICaRL(), predict_with="average")
    learn_all(one, images())
    net = one._step.average.predictor("average")  # type: ignore[union-attr]
    assert torch.equal(one.logits(images()[0][0]), _nearest_means(net, one, images()[0][0]))


def _nearest_means(net: ek.Net, one: ek.Learner, x: Tensor) -> Tensor:
    fresh = ek.ICaRL()
    with torch.no_grad():
        return fresh.classify(net, one.memory, one._inputs.to_network(x))


def test_an_export_predicts_with_the_mean(tmp_path: Path) -> None:
    one = learner()
    learn_all(one, images())
    export(one.snapshot(), tmp_path / "model.pt2")
    x = images()[3][0]
    answer = torch.export.load(tmp_path / "model.pt2").module()(x)
    np.testing.assert_allclose(answer["probabilities"].numpy(), one.predict_proba(x), atol=1e-5)


# ---- where averages go along ----


@pytest.mark.parametrize(
    ("adaptor", "repeats", "distill", "decay"),
    [("none", 1, 0.0, 0.8), ("cba", 2, 0.0, "auto"), ("cba", 2, 5.5, 0.8)],
)
def test_resume_equals_never_stopped(adaptor: str, repeats: int, distill: float, decay: Decay, tmp_path: Path) -> None:
    """Through growth, which comes with the fifth batch."""
    settings = {"outputs": 3, "repeats": repeats, "distill": distill, "average": decay, "predict_with": "average"}
    straight, stream = learner(None, ADAPTORS[adaptor](), **settings), images(batches=8)
    records, saved = list[ek.StepRecord](), list[dict[str, Any]]()
    for batch in stream:
        records += learn_all(straight, [batch])
        straight.save(tmp_path / str(straight.step))
        saved.append(snapshot(straight))
    for cut in (1, 4, 5):
        second = ek.Learner.load(tmp_path / str(cut))
        assert differences(saved[cut - 1], snapshot(second)) == []
        assert learn_all(second, stream[cut:]) == records[cut:]
        assert differences(saved[-1], snapshot(second)) == []
        assert (second.average, second.predict_with, second.distill) == (decay, "average", distill)
        assert np.array_equal(second.predict_proba(stream[0][0]), straight.predict_proba(stream[0][0]))


@pytest.mark.parametrize("predict_with", ["mean", "average"])
def test_growth_keeps_old_logits_to_the_bit(predict_with: str) -> None:
    one = learner(outputs=2, predict_with=predict_with)
    learn_all(one, images()[:4])
    x = images()[0][0]
    before = one.logits(x)
    one.grow(5)
    after = one.logits(x)
    assert torch.equal(before, after[:, :2])
    assert after.shape == (len(x), 5)
    learn_all(one, images()[4:])
    assert set(one.predict(x)) <= {0, 1, 2, 3}


def test_new_outputs_start_as_those_of_the_working_net() -> None:
    one = learner(outputs=2)
    learn_all(one, images()[:4])
    one.grow(5)
    working, average = one.net.head, one._step.average.net.head  # type: ignore[union-attr]
    assert torch.equal(working.get_parameter("parts.1.weight"), average.get_parameter("parts.1.weight"))


@pytest.mark.parametrize("distill", [0.0, 5.5])
def test_a_refused_update_and_alignment_move_nothing(distill: float) -> None:
    one = on_vectors(norm_net(), average=0.8, distill=distill)
    for place in range(4):
        one.learn(*vectors(place))
    before = snapshot(one)
    assert one.alignment(*vectors(5)) is not None
    assert differences(before, snapshot(one)) == []
    with pytest.raises(ek.DivergenceError):
        one.learn(vectors(5)[0] * 1e200, vectors(5)[1])
    assert [path for path in differences(before, snapshot(one)) if "/streams/" not in path] == []


def test_forgetting_samples_leaves_the_average() -> None:
    one = learner()
    for x, y in images():
        one.learn(x, y, key="me")
    before = one.logits(images()[0][0])
    assert one.forget("me") == 10
    assert torch.equal(one.logits(images()[0][0]), before)


# ---- momentum distillation ----


@pytest.mark.parametrize("joint", [False, True])
def test_distillation_equals_the_slow_reference(joint: bool) -> None:
    """The loss is the method's plus 5.5 times the term, of the average before the update, by the batch's statistics."""
    draws: list[ek.View] = []

    class Watched(ek.ER):
        def loss(self, new: ek.View, old: Any) -> Tensor:
            draws[:] = [new, *old]
            return super().loss(new, old)

    net = norm_net()
    one = ek.Learner(
        net, Watched(joint_forward=joint), memory=9, replay=5, classes=range(OUTPUTS), average=0.9, distill=5.5
    )
    for place in range(5):
        assert one._step.average is not None
        teacher = copy.deepcopy(one._step.average.net)
        record = one.learn(*vectors(place))
        with batch_norm_like(net, teacher), scratch_buffers(teacher), torch.no_grad():
            groups = [torch.cat([view.x for view in draws])] if joint else [view.x for view in draws]
            taught = torch.cat([teacher(x) for x in groups])
        students = torch.cat([view.logits for view in draws]).tolist()
        expected = float(ek.ER().loss(draws[0], draws[1:]).detach()) + 5.5 * reference_distillation(
            students, taught.tolist()
        )
        assert record.loss == pytest.approx(expected, rel=1e-9)
    assert reference_distillation(students, taught.tolist()) > 1e-6


def test_distillation_takes_plain_logits_and_its_own_statistics_stay() -> None:
    one = on_vectors(norm_net(), average=0.9, distill=5.5, adaptor=ek.CBA(every=1, hidden=(8,)))
    for place in range(3):
        one.learn(*vectors(place))
    average = one._step.average
    assert average is not None
    before = state_of(average.net)
    x = random(6, FEATURES, seed=3)
    logits = average.net.train()(x)
    average.net.eval().load_state_dict({name: torch.tensor(value) for name, value in before.items()})
    corrected = logits + 100 * torch.arange(OUTPUTS)
    view = ek.View(x, torch.arange(6), {}, x, logits, corrected, corrected)
    assert float(average.distillation([view], joint=False)) == pytest.approx(0.0, abs=1e-12)
    assert all(np.array_equal(value, before[name]) for name, value in state_of(average.net).items())


def test_single_samples_are_distilled() -> None:
    one = ek.Learner(norm_net(), ek.ER(), memory=3, replay=1, classes=range(OUTPUTS), average=0.9, distill=1.0)
    for place in range(4):
        x, y = vectors(place)
        assert np.isfinite(one.learn(x[:1], y[:1]).loss or np.nan)


# ---- settings ----


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"average": 1.0}, "average=1.0 must be a number from 0 to below 1"),
        ({"average": -0.1}, "average=-0.1 must be"),
        ({"average": 0}, "average=0 averages nothing"),
        ({"average": "0.9"}, "average='0.9' must be a number from 0 to below 1, or 'auto'"),
        ({"predict_with": "avrage"}, "predict_with='avrage' is not one of .* Did you mean 'average'"),
        ({"average": None, "distill": 5.5}, r"distill=5.5 needs averaged weights; set average='auto'"),
        ({"average": None, "predict_with": "average"}, "predict_with='average' needs averaged weights"),
        ({"distill": -1}, "distill=-1 must be a number of at least 0"),
        ({"method": ek.BiC()}, "BiC.* cannot predict with averaged weights: its correction of logits is fitted"),
        ({"method": ek.CLSER(predictor="stable")}, "predicts with an average of its own, 'stable'"),
    ],
)
def test_unsuitable_settings_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ek.SettingsError, match=sentence):
        learner(settings.pop("method", None), **settings)


@pytest.mark.parametrize("allowed", [False, True])
def test_a_rule_of_ones_own_must_say_that_averaged_weights_fit_it(allowed: bool) -> None:
    class Mine(ek.ER):
        def classify(self, net: ek.Net, memory: ek.Memory, x: Tensor) -> Tensor:
            return 2 * net(x)  # type: ignore[no-any-return]

    if not allowed:
        with pytest.raises(ek.SettingsError, match=r"it overrides `classify`.* set no_average = ''"):
            learner(Mine())
        return
    Mine.no_average = ""
    one, other = learner(Mine()), learner()
    for each in (one, other):
        learn_all(each, images())
    assert torch.equal(one.logits(images()[0][0]), 2 * other.logits(images()[0][0]))


def test_a_learner_without_an_average_cannot_predict_with_one() -> None:
    one = learner(average=None)
    with pytest.raises(ek.SettingsError, match="predict_with='average' needs averaged weights"):
        one.predict_with = "average"
    with pytest.raises(AttributeError, match="average cannot be replaced"):
        one.average = 0.9


def test_a_config_has_the_settings() -> None:
    config = ek.load_config("digits", ["learner.average=0.9", "learner.distill=5.5", "learner.predict_with=average"])
    assert (config.learner.average, config.learner.predict_with, config.learner.distill) == (0.9, "average", 5.5)
    with pytest.raises(ek.SettingsError, match=r"learner: distill=5.5 needs averaged weights"):
        ek.load_config("digits", ["learner.distill=5.5"])
    with pytest.raises(ek.SettingsError, match=r"learner: BiC.* cannot predict with averaged weights"):
        ek.load_config("digits", ["learner.average=0.9", "method.name=bic"])
    assert ek.load_config("digits", ["learner.average=auto"]).learner.average == "auto"
    assert "average" not in ek.load_config("digits").model_dump(mode="json")["learner"]
