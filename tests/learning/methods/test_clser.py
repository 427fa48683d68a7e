"""CLS-ER: its loss, its averages, and which net predicts."""

import numpy as np
import pytest
import torch
from scipy import stats

from evenkeel import (
    CLSER,
    Memory,
)
from evenkeel.errors import SettingsError
from evenkeel.learning.methods.clser import choose_teacher
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
def test_averages_follow_weights_and_running_statistics(average: str) -> None:
    """a = min(1 - 1/(k+1), alpha) of the k-th step: 1/2, 2/3, then always alpha = 0.7."""
    net = norm_net()
    alpha = {"stable": 0.999, "plastic": 0.999} | {average: 0.7}
    method = CLSER(p_stable=1.0, p_plastic=1.0, alpha_stable=alpha["stable"], alpha_plastic=alpha["plastic"])
    method.prepare(net, seeded())
    expected = state_of(net)
    for step in range(1, 7):
        shake(net, step)
        method.after_step(net)
        share = [0.5, 2 / 3, 0.7, 0.7, 0.7, 0.7][step - 1]
        now = state_of(net)
        for name, value in now.items():
            is_count = name.endswith("num_batches_tracked")
            expected[name] = value if is_count else share * expected[name] + (1 - share) * value
        found = state_of(getattr(method, average))
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-14, err_msg=f"{name} at step {step}")


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


def test_clser_queries_its_averages_and_not_the_net() -> None:
    net = norm_net()
    method = CLSER()
    method.prepare(net, seeded())
    shake(net, 1)
    x, y = random(6, FEATURES, seed=5), torch.tensor([0, 1, 2, 3, 4, 5])
    expected = choose_teacher(method.stable(x), method.plastic(x), y)
    told = method.recall(Draw(x, y))["teacher"]
    assert torch.equal(told, expected)
    assert not torch.allclose(told, net(x))
    alone = torch.cat([method.recall(Draw(x[i : i + 1], y[i : i + 1]))["teacher"] for i in range(6)])
    assert torch.allclose(alone, told)  # evaluation mode: the output does not depend on the rest of the batch


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
