"""CLS-ER: its loss, its averages, and which net predicts."""

import copy
from collections.abc import Mapping
from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.optim import SGD

from evenkeel import (
    CLSER,
    Learner,
    Memory,
    Net,
    accuracy,
    load_data,
    resnet18,
    stream,
)
from evenkeel.errors import DivergenceError, SettingsError
from evenkeel.learning.methods.clser import choose_teacher
from evenkeel.learning.probes import differences, snapshot
from evenkeel.learning.types import Draw
from tests.helpers.methods import (
    FEATURES,
    NEW,
    OUTPUTS,
    linear_net,
    norm_net,
    random,
    reference_ce,
    reference_mse,
    seeded,
    shake,
    state_of,
    view,
)
from tests.helpers.reference_clser import ReferenceCLSER


def test_clser() -> None:
    teacher = random(3, OUTPUTS, seed=60)
    old = view([0, 1, 1], 2, {"teacher": teacher})
    expected = (
        reference_ce(NEW.adapted, NEW.y)
        + reference_ce(old.adapted, old.y)
        + 0.4 * reference_mse(old.logits, teacher)  # plain logits: the consistency term does not use the adaptor
    )
    assert CLSER(reg=0.4).loss(NEW, [old]).item() == pytest.approx(expected, rel=1e-12)
    assert CLSER().loss(NEW, []).item() == pytest.approx(reference_ce(NEW.adapted, NEW.y), rel=1e-12)


# ---- CLS-ER's averages ----


def test_the_teacher_is_the_one_more_confident_in_the_true_class_and_plastic_on_a_tie() -> None:
    rows = {
        "stable is surer": (0, [3.0, 0.0, 0.0], [2.0, 0.0, 0.0], "stable"),
        "plastic is surer": (0, [2.0, 0.0, 0.0], [3.0, 0.0, 0.0], "plastic"),
        "a higher logit, but a lower probability": (1, [9.0, 5.0, 9.0], [0.0, 1.0, 0.0], "plastic"),
        "surer of a wrong class only": (2, [9.0, 0.0, 0.0], [0.0, 0.0, 0.0], "plastic"),
        "both wrong, stable less": (2, [1.0, 0.0, 0.0], [9.0, 0.0, 0.0], "stable"),
        "a tie": (1, [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], "plastic"),
    }
    y = torch.tensor([row[0] for row in rows.values()])
    stable, plastic = (torch.tensor([row[place] for row in rows.values()]) for place in (1, 2))
    chosen = choose_teacher(stable, plastic, y)
    for place, (name, row) in enumerate(rows.items()):
        assert torch.equal(chosen[place], (stable if row[3] == "stable" else plastic)[place]), name


@pytest.mark.parametrize("average", ["stable", "plastic"])
def test_averages_follow_weights_but_not_running_statistics(average: str) -> None:
    """a = min(1 - 1/(k+1), alpha) of the k-th step: 1/2, 2/3, then always alpha = 0.7."""
    net = norm_net()
    alpha = {"stable": 0.999, "plastic": 0.999} | {average: 0.7}
    method = CLSER(p_stable=1.0, p_plastic=1.0, alpha_stable=alpha["stable"], alpha_plastic=alpha["plastic"])
    method.prepare(net, seeded())
    expected = state_of(net)
    weights = dict(net.named_parameters()).keys()
    for step in range(1, 7):
        shake(net, step)
        method.after_step(net)
        share = [0.5, 2 / 3, 0.7, 0.7, 0.7, 0.7][step - 1]
        now = state_of(net)
        expected |= {name: share * expected[name] + (1 - share) * now[name] for name in weights}
        actual = state_of(getattr(method, average))
        for name, value in expected.items():
            np.testing.assert_allclose(actual[name], value, rtol=1e-12, atol=1e-14, err_msg=f"{name} at step {step}")


def test_other_buffers_than_statistics_are_averaged_or_copied() -> None:
    net = norm_net()
    net.backbone.register_buffer("table", torch.zeros(3, dtype=torch.float64))
    net.backbone.register_buffer("count", torch.zeros(1, dtype=torch.int64))
    method = CLSER(p_stable=1.0)
    method.prepare(net, seeded())
    net.backbone.get_buffer("table").fill_(4.0)
    net.backbone.get_buffer("count").fill_(7)
    method.after_step(net)
    assert method.stable.backbone.get_buffer("table").tolist() == [2.0, 2.0, 2.0]
    assert method.stable.backbone.get_buffer("count").tolist() == [7]


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_a_learner_equals_the_released_algorithm_step_by_step(p: float) -> None:
    """Weights, both averages and all three nets' running statistics, over twenty steps of two tasks."""
    draws: list[Draw] = []

    class Watched(CLSER):
        def recall(self, draw: Draw) -> Mapping[str, Tensor]:
            draws.append(draw)
            return super().recall(draw)

    net = norm_net()
    method = Watched(p_stable=p, p_plastic=p, alpha_stable=0.8, alpha_plastic=0.8, reg=0.3)
    reference = ReferenceCLSER(net, lr=0.05, reg=0.3, alpha=0.8)
    learner = Learner(net, method, memory=9, replay=5, optimizer=partial(SGD, lr=0.05), classes=range(OUTPUTS))
    for place in range(20):
        x = random(6, FEATURES, seed=place)
        y = torch.arange(6) % 3 + 3 * (place // 10)
        draws.clear()
        chances = [one < p for one in torch.rand(2, generator=copy_of(method.generator)).tolist()]
        record = learner.learn(x, y.tolist())
        old = (draws[0].x, draws[0].y) if draws else None
        assert record.loss == pytest.approx(reference.step((x, y), old, chances), rel=1e-10)
        for name in ("net", "stable", "plastic"):
            mine = state_of(net if name == "net" else getattr(method, name))
            for path, value in getattr(reference, name).state_dict().items():
                np.testing.assert_allclose(mine[path], value, rtol=1e-9, atol=1e-11, err_msg=f"{name} {path} {place}")


def copy_of(generator: torch.Generator) -> torch.Generator:
    return torch.Generator().set_state(generator.get_state())


def test_averages_are_updated_with_their_own_probabilities() -> None:
    net = linear_net()
    method = CLSER(p_stable=0.3, p_plastic=0.8)
    method.prepare(net, seeded(3))
    averages = method.stable, method.plastic
    moves = dict.fromkeys([(False, False), (False, True), (True, False), (True, True)], 0)
    for step in range(600):
        before = [state_of(average)["head.weight"] for average in averages]
        shake(net, step)
        method.after_step(net)
        after = [state_of(average)["head.weight"] for average in averages]
        stable, plastic = (not np.array_equal(old, new) for old, new in zip(before, after, strict=True))
        moves[stable, plastic] += 1
    expected = [600 * p for p in (0.7 * 0.2, 0.7 * 0.8, 0.3 * 0.2, 0.3 * 0.8)]  # independently of each other
    assert stats.chisquare(list(moves.values()), expected).pvalue > 1e-4


@pytest.mark.parametrize(("chance", "moved"), [(0.0, False), (1.0, True)])
def test_a_probability_of_zero_or_one_is_never_or_always(chance: float, moved: bool) -> None:
    net = linear_net()
    method = CLSER(p_stable=chance, p_plastic=chance)
    method.prepare(net, seeded())
    for step in range(50):
        before = state_of(method.stable), state_of(method.plastic)
        shake(net, step)
        method.after_step(net)
        for old, average in zip(before, (method.stable, method.plastic), strict=True):
            assert np.array_equal(old["head.weight"], state_of(average)["head.weight"]) is not moved


def test_teachers_normalise_by_the_batch_and_keep_statistics_of_their_own() -> None:
    net = norm_net()
    method = CLSER()
    method.prepare(net, seeded())
    shake(net, 1)
    x, y = random(6, FEATURES, seed=5), torch.tensor([0, 1, 2, 3, 4, 5])
    expected = choose_teacher(copy.deepcopy(method.stable).train()(x), copy.deepcopy(method.plastic).train()(x), y)
    before = state_of(net)
    assert torch.equal(method.recall(Draw(x, y))["teacher"], expected)
    assert all(np.array_equal(value, before[name]) for name, value in state_of(net).items())
    hidden = method.stable.backbone.get_submodule("0")(x)
    statistics = method.stable.backbone.get_buffer("1.running_mean")
    assert torch.allclose(statistics, 0.1 * hidden.mean(dim=0), rtol=1e-12)
    assert not any(part.training for part in method.stable.modules())  # prediction uses what was just written


def test_a_draw_of_one_sample_moves_no_statistics() -> None:
    method = CLSER()
    method.prepare(norm_net(), seeded())
    method.recall(Draw(random(6, FEATURES, seed=5), torch.arange(6)))
    before = state_of(method.stable)
    x = random(1, FEATURES, seed=6)
    taught = method.recall(Draw(x, torch.tensor([0])))["teacher"]
    assert torch.equal(taught, method.plastic(x))
    assert all(np.array_equal(value, before[name]) for name, value in state_of(method.stable).items())


def test_a_frozen_batch_norm_is_frozen_in_the_averages_too() -> None:
    net = norm_net()
    method = CLSER()
    method.prepare(net, seeded())
    net.backbone.get_submodule("1").eval()
    x, y = random(6, FEATURES, seed=5), torch.arange(6)
    before = state_of(method.stable)
    assert torch.equal(method.recall(Draw(x, y))["teacher"], method.plastic(x))
    assert all(np.array_equal(value, before[name]) for name, value in state_of(method.stable).items())


def test_only_batch_norm_of_a_teacher_is_in_training_mode() -> None:
    body = nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.Dropout(0.5))
    method = CLSER()
    method.prepare(Net(body, nn.Linear(5, OUTPUTS)).double(), seeded())
    draw = Draw(random(6, FEATURES, seed=5), torch.arange(6))
    assert torch.equal(method.recall(draw)["teacher"], method.recall(draw)["teacher"])


@pytest.mark.parametrize("act", ["refuse", "align"])
def test_a_refused_update_and_alignment_leave_the_averages_to_the_bit(act: str) -> None:
    method = CLSER()
    learner = Learner(norm_net(), method, memory=9, replay=5, classes=range(OUTPUTS))
    for place in range(4):
        learner.learn(random(6, FEATURES, seed=place), [0, 1, 2, 0, 1, 2])
    before = snapshot(learner)
    if act == "align":
        assert learner.alignment(random(6, FEATURES, seed=9), [0, 1, 2, 0, 1, 2]) is not None
    else:
        with pytest.raises(DivergenceError):
            learner.learn(random(6, FEATURES, seed=9) * 1e200, [0, 1, 2, 0, 1, 2])
    generators = [path for path in differences(before, snapshot(learner)) if not path.startswith("/1/streams")]
    assert generators == []


@pytest.mark.slow
def test_the_stable_average_of_a_resnet_predicts_well() -> None:
    """With statistics averaged like its weights it has 10% here, which is chance."""
    data = load_data("digits")
    net = resnet18(classes=10, width=8, channels=1)
    learner = Learner(net, CLSER(predictor="stable"), memory=100, classes=data.classes)
    for x, y in islice(stream(data, "disjoint", tasks=1, batch=32), 40):
        learner.learn(x, y)
    assert accuracy(learner, data.test) > 70


@pytest.mark.parametrize("predictor", ["working", "stable", "plastic"])
def test_the_chosen_net_predicts(predictor: str) -> None:
    net = linear_net()
    method = CLSER(predictor=predictor, p_stable=0.0, p_plastic=1.0)
    method.prepare(net, seeded())
    shake(net, 1)
    method.after_step(net)
    x = random(3, FEATURES, seed=2)
    answers = {"working": net(x), "stable": method.stable(x), "plastic": method.plastic(x)}
    assert torch.equal(method.classify(net, Memory(1), x), answers.pop(predictor))
    assert not any(torch.equal(method.classify(net, Memory(1), x), other) for other in answers.values())


def test_an_unknown_predictor_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"predictor='stabel' is not one of .* Did you mean 'stable'"):
        CLSER(predictor="stabel")
