"""The methods: losses against a slow reference, their state, and the contract suite with methods that break it."""

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional as F

from evenkeel import (
    CLSER,
    ER,
    ERACE,
    METHODS,
    RAR,
    SSIL,
    DERpp,
    Learner,
    Memory,
    Method,
    Net,
    cross_entropy,
    mlp,
)
from evenkeel.errors import MethodError, SettingsError
from evenkeel.learning import contract
from evenkeel.learning.contract import CHECKS, check_method
from evenkeel.learning.methods._teacher import distillation
from evenkeel.learning.methods.clser import choose_teacher
from evenkeel.learning.methods.ss_il import separated_cross_entropy
from evenkeel.learning.types import Draw, View

OUTPUTS, FEATURES = 7, 4
MakeMethod = Callable[[], Method]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed))


def view(y: Sequence[int], seed: int, stored: Mapping[str, Tensor] | None = None, *, corrected: bool = True) -> View:
    """A view whose adapted logits have nothing to do with the plain ones, so that taking the wrong ones shows."""
    n = len(y)
    logits = random(n, OUTPUTS, seed=seed).requires_grad_()
    adapted = random(n, OUTPUTS, seed=seed + 100).requires_grad_() if corrected else logits
    x, features = random(n, FEATURES, seed=seed + 200), random(n, FEATURES, seed=seed + 300)
    return View(x, torch.tensor(y), stored or {}, features, logits, adapted)


def linear_net(outputs: int = OUTPUTS, seed: int = 0) -> Net:
    return mlp(features=FEATURES, classes=outputs, hidden=(), seed=seed).double()


def norm_net(outputs: int = OUTPUTS) -> Net:
    torch.manual_seed(1)
    body = nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.ReLU())
    return Net(body, nn.Linear(5, outputs)).double()


# ---- a slow reference, sample by sample, from the formulas ----


def reference_ce(scores: Tensor, y: Tensor, allowed: Callable[[int], Iterable[int]] | None = None) -> float:
    """Mean of -log softmax, over the outputs that `allowed` gives for a label."""
    total = 0.0
    for row, label in zip(scores.tolist(), y.tolist(), strict=True):
        outputs = range(len(row)) if allowed is None else allowed(label)
        total -= row[label] - math.log(sum(math.exp(row[output]) for output in outputs))
    return total / len(y)


def reference_mse(scores: Tensor, targets: Tensor) -> float:
    """Mean over samples and outputs."""
    squares: list[float] = [
        (a - b) ** 2
        for row, target in zip(scores.tolist(), targets.tolist(), strict=True)
        for a, b in zip(row, target, strict=True)
    ]
    return sum(squares) / len(squares)


def reference_kd(scores: Tensor, teacher: Tensor, outputs: Sequence[int], temperature: float) -> float:
    """T^2 KL(softmax(teacher / T) || softmax(scores / T)) over `outputs`, mean over samples."""

    def probabilities(row: Sequence[float]) -> list[float]:
        weights = [math.exp(row[output] / temperature) for output in outputs]
        return [weight / sum(weights) for weight in weights]

    total = 0.0
    for row, told in zip(scores.tolist(), teacher.tolist(), strict=True):
        pairs = zip(probabilities(told), probabilities(row), strict=True)
        total += sum(p * math.log(p / q) for p, q in pairs)
    return temperature**2 * total / len(scores)


def reference_query(old: Sequence[View]) -> float:
    return sum(reference_ce(one.logits, one.y) for one in old) / len(old)


# ---- losses ----

NEW = view([2, 3, 3, 4, 2], seed=1)
OLD = [view([0, 1, 1], seed=2), view([5, 0], seed=3)]


@pytest.mark.parametrize("draws", [0, 1, 2])
def test_er_is_the_sum_of_mean_cross_entropies_of_adapted_logits(draws: int) -> None:
    old = OLD[:draws]
    expected = reference_ce(NEW.adapted, NEW.y) + sum(reference_ce(one.adapted, one.y) for one in old)
    assert ER().loss(NEW, old).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("method", [ER(), CLSER(), ERACE(), SSIL(), RAR()], ids=lambda method: type(method).__name__)
def test_the_outer_objective_is_the_mean_cross_entropy_of_plain_logits(method: Method) -> None:
    for old in (OLD, OLD[:1]):
        assert method.query_loss(old).item() == pytest.approx(reference_query(old), rel=1e-12)


@pytest.mark.parametrize("with_adaptor", [True, False], ids=["adaptor-columns", "plain-columns"])
def test_derpp(with_adaptor: bool) -> None:
    stored = {"logits": random(3, OUTPUTS, seed=50)}
    if with_adaptor:
        stored["adapted"] = random(3, OUTPUTS, seed=51)
    dark, labelled = view([0, 1, 1], 2, stored), view([5, 0], seed=3)
    target = stored["adapted"] if with_adaptor else stored["logits"]
    method = DERpp(alpha=0.3, beta=0.7)
    expected = (
        reference_ce(NEW.adapted, NEW.y)
        + 0.3 * reference_mse(dark.adapted, target)
        + 0.7 * reference_ce(labelled.adapted, labelled.y)
    )
    assert method.loss(NEW, [dark, labelled]).item() == pytest.approx(expected, rel=1e-12)
    assert method.loss(NEW, []).item() == pytest.approx(reference_ce(NEW.adapted, NEW.y), rel=1e-12)

    query = reference_mse(dark.logits, stored["logits"]) + reference_ce(labelled.logits, labelled.y)  # weights 1 and 1
    assert method.query_loss([dark, labelled]).item() == pytest.approx(query, rel=1e-12)


def test_derpp_remembers_adapted_logits_only_where_there_is_an_adaptor() -> None:
    plain = view([0, 1], seed=1, corrected=False)
    assert {name: id(column) for name, column in DERpp().remember(plain).items()} == {"logits": id(plain.logits)}
    both = DERpp().remember(NEW)
    assert set(both) == set(DERpp.logit_columns) == {"logits", "adapted"}
    assert torch.equal(both["logits"], NEW.logits)
    assert torch.equal(both["adapted"], NEW.adapted)


def test_clser() -> None:
    teacher = random(3, OUTPUTS, seed=60)
    old = view([0, 1, 1], 2, {"teacher": teacher})
    expected = (
        reference_ce(NEW.adapted, NEW.y)
        + reference_ce(old.adapted, old.y)
        + 0.4 * reference_mse(old.logits, teacher)  # plain logits: the consistency term does not see the adaptor
    )
    assert CLSER(reg=0.4).loss(NEW, [old]).item() == pytest.approx(expected, rel=1e-12)
    assert CLSER().loss(NEW, []).item() == pytest.approx(reference_ce(NEW.adapted, NEW.y), rel=1e-12)


def having_learned(method: Method, *batches: Sequence[int]) -> Method:
    """`method` once it has learned batches of these outputs, each in a task of its own."""
    net = linear_net()
    method.prepare(net, seeded())
    for place, batch in enumerate(batches):
        if place:
            method.boundary(net, Memory(3))
        method.remember(view(batch, seed=place))
    return method


def test_er_ace() -> None:
    method = having_learned(ERACE(), [0, 1, 5, 2])
    # Of the batch: 2, 3, 4. Seen before: 0, 1, 2, 5. Never seen: 6. So 0, 1 and 5 are left out.
    expected = reference_ce(NEW.adapted, NEW.y, lambda _: (2, 3, 4, 6)) + reference_ce(OLD[0].adapted, OLD[0].y)
    assert method.loss(NEW, OLD[:1]).item() == pytest.approx(expected, rel=1e-12)


def test_er_ace_leaves_out_the_seen_and_absent_and_nothing_else() -> None:
    method = having_learned(ERACE(), [0, 1, 4])
    assert isinstance(method, ERACE)
    new = view([1, 3], seed=4)
    assert method.masked(new).tolist() == [True, False, False, False, True, False, False]
    (gradient,) = torch.autograd.grad(method.loss(new, []), new.adapted)
    assert gradient[:, [0, 4]].eq(0).all()  # seen, absent: no push down, to the bit
    assert gradient[:, [2, 5, 6]].gt(0).all()  # never seen, whether below or above the highest seen: pushed down
    assert method.masked(new).tolist() == [True, False, False, False, True, False, False]  # asking changes nothing
    method.remember(new)
    assert method.masked(view([6], seed=5)).tolist() == [True, True, False, True, True, False, False]


def test_er_ace_masks_nothing_before_anything_was_seen() -> None:
    method = having_learned(ERACE())
    assert method.loss(NEW, []).item() == pytest.approx(reference_ce(NEW.adapted, NEW.y), rel=1e-12)


def test_er_ace_and_ss_il_take_a_wider_head() -> None:
    """What they know of the old classes stays, and new ones are unseen."""
    ace, separated = ERACE(), SSIL()
    for method in (ace, separated):
        method.prepare(linear_net(outputs=3), seeded())
        method.remember(view([0, 1], seed=0))
        method.grow(OUTPUTS)
    assert ace.seen.tolist() == [True, True, False, False, False, False, False]
    assert separated.task_of.tolist() == [0, 0, -1, -1, -1, -1, -1]
    assert ace.masked(NEW).tolist() == [True, True, False, False, False, False, False]


def side_of(task_of: Mapping[int, int], task: int) -> Callable[[int], list[int]]:
    def allowed(label: int) -> list[int]:
        is_new = task_of[label] == task
        return [output for output, first in task_of.items() if (first == task) == is_new]

    return allowed


def teacher_logits(net: Net, x: Tensor) -> Tensor:
    assert isinstance(net.head, nn.Linear)
    weight, bias = net.head.weight.tolist(), net.head.bias.tolist()
    rows = [
        [sum(w * a for w, a in zip(line, sample, strict=True)) + b for line, b in zip(weight, bias, strict=True)]
        for sample in x.tolist()
    ]
    return torch.tensor(rows, dtype=torch.float64)


def test_ss_il_in_its_first_task_is_cross_entropy_over_what_was_seen() -> None:
    method = having_learned(SSIL(), [0, 1, 5])
    task_of = dict.fromkeys((0, 1, 2, 3, 4, 5), 0)
    new_and_old = torch.cat([NEW.adapted, OLD[0].adapted]), torch.cat([NEW.y, OLD[0].y])
    expected = reference_ce(*new_and_old, side_of(task_of, 0))  # output 6 was never seen
    assert method.loss(NEW, OLD[:1]).item() == pytest.approx(expected, rel=1e-12)
    assert method.recall(Draw(OLD[0].x, OLD[0].y)) == {}


def test_ss_il_separates_the_softmax_and_distils_task_by_task() -> None:
    method = having_learned(SSIL(temperature=3.0), [0, 1], [2, 5], [4])
    assert isinstance(method, SSIL)
    # 2 is an old class that comes again in the stream (blurry), 4 of the draw is a new class replayed.
    new = view([3, 4, 2, 3], seed=6)
    new = replace(new, stored=method.recall(Draw(new.x, new.y)))
    x, y = random(5, FEATURES, seed=90), [0, 1, 5, 4, 2]
    with torch.no_grad():
        recalled = method.recall(Draw(x, torch.tensor(y)))
    assert torch.allclose(recalled["teacher"], teacher_logits(method.teacher, x), rtol=1e-12)
    old = view(y, 7, recalled)

    task_of = {0: 0, 1: 0, 2: 1, 5: 1, 3: 2, 4: 2}
    adapted, labels = torch.cat([new.adapted, old.adapted]), torch.cat([new.y, old.y])
    expected = reference_ce(adapted, labels, side_of(task_of, 2))  # one mean over new and replayed
    logits = torch.cat([new.logits, old.logits])
    told = torch.cat([teacher_logits(method.teacher, new.x), recalled["teacher"]])
    for outputs in ([0, 1], [2, 5]):
        expected += reference_kd(logits, told, outputs, temperature=3.0)
    assert method.loss(new, [old]).item() == pytest.approx(expected, rel=1e-12)


def test_separated_softmax_sends_no_gradient_across_the_boundary() -> None:
    task_of = torch.tensor([0, 0, 1, 1, 2, 2, -1])
    logits = random(4, OUTPUTS, seed=8).requires_grad_()
    loss = separated_cross_entropy(logits, torch.tensor([4, 5, 0, 3]), task_of, task=2)
    (gradient,) = torch.autograd.grad(loss, logits)
    old, new, unseen = [0, 1, 2, 3], [4, 5], [6]
    assert gradient[:2, old + unseen].eq(0).all()
    assert gradient[2:, new + unseen].eq(0).all()
    assert gradient[:2, new].ne(0).all()
    assert gradient[2:, old].ne(0).all()


def test_distillation_is_nothing_when_student_and_teacher_agree() -> None:
    logits = random(5, 3, seed=9).requires_grad_()
    loss = distillation(logits, logits.detach().clone(), temperature=2.0)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.item() == pytest.approx(0, abs=1e-15)
    assert gradient.abs().max().item() < 1e-15
    assert distillation(logits, logits.detach() * 2, temperature=2.0).item() > 1e-3
    shifted = distillation(logits, logits.detach() + 5, temperature=2.0)  # the same probabilities
    assert shifted.item() == pytest.approx(0, abs=1e-15)


def test_ss_il_distils_nothing_right_after_a_boundary() -> None:
    """The teacher is the net itself then, so that only the separated cross-entropy is left."""
    net, method = linear_net(), SSIL()
    method.prepare(net, seeded())
    method.remember(view([0, 1], seed=0))
    method.boundary(net, Memory(3))

    def seen(y: list[int], seed: int) -> View:
        x = random(len(y), FEATURES, seed=seed)
        stored = method.recall(Draw(x, torch.tensor(y)))
        return View(x, torch.tensor(y), stored, x, net(x), net(x))

    new, old = seen([2, 3], seed=1), seen([0, 1, 1], seed=2)
    both = torch.cat([new.logits, old.logits]), torch.cat([new.y, old.y])
    expected = reference_ce(*both, side_of({0: 0, 1: 0, 2: 1, 3: 1}, 1))
    assert method.loss(new, [old]).item() == pytest.approx(expected, rel=1e-12)


# ---- RAR ----


class Recording(Method):
    """Answers every hook with something of its own, and keeps what it was asked."""

    bound = "lower"
    draws = 3
    joint_forward = True
    recalls_new = True
    rehearses = False
    memory_policy = "balanced"
    held_out = 0.25
    logit_columns = ("mine",)
    asks_memory = True
    needs_boundaries = True
    cosine_head = 3.0
    no_adaptor = "of me"
    mixed_passes = 2

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Any, ...]] = []

    def prepare(self, *given: Any) -> None:
        self.asked.append(("prepare", *given))

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        self.asked.append(("loss", new, old))
        return torch.tensor(1.0)

    def query_loss(self, old: Sequence[View]) -> Tensor:
        self.asked.append(("query_loss", old))
        return torch.tensor(2.0)

    def recall(self, draw: Draw) -> Mapping[str, Tensor]:
        self.asked.append(("recall", draw))
        return {"recalled": torch.tensor(3.0)}

    def remember(self, new: View) -> Mapping[str, Tensor]:
        self.asked.append(("remember", new))
        return {"mine": torch.tensor(4.0)}

    def grow(self, outputs: int) -> None:
        self.asked.append(("grow", outputs))

    def before_step(self, *given: Any) -> None:
        self.asked.append(("before_step", *given))

    def after_step(self, *given: Any) -> None:
        self.asked.append(("after_step", *given))

    def boundary(self, *given: Any) -> None:
        self.asked.append(("boundary", *given))

    def classify(self, *given: Any) -> Tensor:
        self.asked.append(("classify", *given))
        return torch.tensor(5.0)


def test_rar_leaves_everything_but_the_repeats_to_its_base() -> None:
    base = Recording()
    method = RAR(base, repeats=4)
    assert (method.repeats, method.draws, method.joint_forward, method.logit_columns) == (4, 3, True, ("mine",))
    net, generator, memory, draw = linear_net(), seeded(), Memory(3), Draw(NEW.x, NEW.y)
    method.prepare(net, generator)
    assert method.loss(NEW, OLD) == 1
    assert method.query_loss(OLD) == 2
    assert method.recall(draw) == {"recalled": 3}
    assert method.remember(NEW) == {"mine": 4}
    method.grow(9)
    method.before_step(net, draw)
    method.after_step(net)
    method.boundary(net, memory)
    assert method.classify(net, memory, NEW.x) == 5
    expected = [
        ("prepare", net, generator),
        ("loss", NEW, OLD),
        ("query_loss", OLD),
        ("recall", draw),
        ("remember", NEW),
        ("grow", 9),
        ("before_step", net, draw),
        ("after_step", net),
        ("boundary", net, memory),
        ("classify", net, memory, NEW.x),
    ]
    assert [tuple(map(id, call[1:])) for call in base.asked] == [tuple(map(id, call[1:])) for call in expected]
    assert [call[0] for call in base.asked] == [call[0] for call in expected]
    places = {name: value for name, value in vars(Method).items() if not name.startswith("_")}
    hooks = {name for name, value in places.items() if callable(value)}
    assert hooks == {call[0] for call in expected}  # a hook added to Method must be passed on, and be listed here
    for name in places.keys() - hooks - {"title", "repeats"}:
        assert getattr(method, name) == getattr(base, name) != places[name], name


def test_rar_refuses_what_makes_no_sense() -> None:
    with pytest.raises(SettingsError, match="repeats=0 must be a whole number of at least 1"):
        RAR(repeats=0)
    with pytest.raises(SettingsError, match="already repeats; wrap its own base instead"):
        RAR(RAR(ER(), repeats=2))


# ---- CLS-ER's averages ----


def test_the_teacher_is_the_one_surer_of_the_true_class_and_plastic_on_a_tie() -> None:
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


def state_of(net: Net) -> dict[str, np.ndarray[Any, Any]]:
    return {name: value.detach().clone().numpy() for name, value in net.state_dict().items()}


def shake(net: Net, seed: int) -> None:
    """As a training step would: other weights, other running statistics."""
    with torch.no_grad():
        for place, weight in enumerate(net.parameters()):
            weight.add_(random(*weight.shape, seed=seed * 10 + place))
    net(random(6, FEATURES, seed=seed) * 2 + 1)


@pytest.mark.parametrize("average", ["stable", "plastic"])
def test_averages_follow_weights_and_running_statistics(average: str) -> None:
    """a = min(1 - 1/(k+1), alpha) of the k-th step: 1/2, 2/3, then alpha = 0.7 for ever."""
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


def test_the_default_alpha_is_a_plain_mean_for_the_first_thousand_steps() -> None:
    net = linear_net()
    method = CLSER(p_stable=1.0)
    method.prepare(net, seeded())
    seen = [state_of(net)]
    for step in range(1, 6):
        shake(net, step)
        method.after_step(net)
        seen.append(state_of(net))
        for name, value in state_of(method.stable).items():
            np.testing.assert_allclose(value, np.mean([one[name] for one in seen], axis=0), rtol=1e-12, atol=1e-14)


def test_averages_move_with_their_own_probabilities() -> None:
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


def test_clser_asks_its_averages_and_not_the_net() -> None:
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
    assert torch.allclose(alone, told)  # evaluation mode: the answer does not depend on what else is in the batch


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


# ---- teachers in a learner ----


def stream(batches: int, first: int = 0) -> list[tuple[Tensor, list[int]]]:
    made = []
    for place in range(first, first + batches):
        x = random(6, FEATURES, seed=place)
        made.append((x, [int(label) + 2 * (place // 4) for label in torch.arange(6) % 2]))
    return made


def nets_of(method: Method) -> dict[str, Net]:
    return {name: part for name, part in method.named_modules() if isinstance(part, Net)}


@pytest.mark.parametrize("make", [CLSER, SSIL, lambda: RAR(CLSER(), repeats=2)], ids=["clser", "ss_il", "rar-clser"])
def test_teachers_are_always_in_evaluation_mode_and_get_no_gradient(make: MakeMethod) -> None:
    net = norm_net()
    learner = Learner(net, make(), memory=8, replay=4)
    for x, y in stream(6):
        learner.learn(x, y)
        learner.predict(x)
        learner.boundary()
    teachers = nets_of(learner.method)
    assert teachers
    for teacher in teachers.values():
        assert not any(part.training for part in teacher.modules())
        assert all(weight.grad is None for weight in teacher.parameters())
    assert all(part.training for part in net.modules())


def test_the_teacher_of_ss_il_is_the_net_at_the_boundary() -> None:
    net, method = norm_net(), SSIL()
    learner = Learner(net, method, memory=8, replay=4)
    for x, y in stream(4):
        learner.learn(x, y)
    learner.boundary()
    at_boundary = copy.deepcopy(net.state_dict())
    for x, y in stream(4, first=4):
        learner.learn(x, y)
    for name, value in method.teacher.state_dict().items():
        assert torch.equal(value, at_boundary[name])  # running statistics included
    for name in ("head.weight", "backbone.1.running_mean"):
        assert not torch.equal(net.state_dict()[name], at_boundary[name])


@pytest.mark.parametrize("make", [CLSER, SSIL, ERACE])
def test_a_method_with_state_belongs_to_one_learner(make: MakeMethod) -> None:
    method = make()
    Learner(linear_net(), method)
    with pytest.raises(SettingsError, match="already belongs to a learner"):
        Learner(linear_net(), method)


@pytest.mark.parametrize("name", METHODS)
def test_a_learner_saved_right_after_growing_can_be_loaded(name: str, tmp_path: Path) -> None:
    learner = Learner(mlp(features=FEATURES, classes=2), METHODS[name](), memory=8, replay=4)
    x = torch.ones(2, FEATURES)
    learner.learn(x, ["a", "b"])
    learner.grow(5)
    learner.save(tmp_path / "learner")
    assert torch.equal(Learner.load(tmp_path / "learner").logits(x), learner.logits(x))


# ---- the contract suite ----


class Mine(Method):
    """What a user would write."""

    def __init__(self, *, weight: float = 0.5) -> None:
        super().__init__()
        self.weight = weight

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return torch.stack([cross_entropy(new), *(self.weight * cross_entropy(view) for view in old)]).sum()


GOOD: dict[str, MakeMethod] = {
    **METHODS,
    "rar": partial(RAR, repeats=2),  # the default of ten takes five times as long and shows nothing more
    "a-users-own": Mine,
}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
def test_every_method_keeps_the_contract(make: MakeMethod) -> None:
    assert check_method(make) == [check.__name__ for check in CHECKS]


class KeepsTheNet(Mine):
    """As one does without a thought; the net is among the method's modules then."""

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        self.net = net


def test_a_method_may_keep_the_net_it_was_given() -> None:
    learner = Learner(linear_net(outputs=2), KeepsTheNet(), memory=8, replay=4)
    learner.learn(random(3, FEATURES, seed=0), ["a", "b", "c"])
    assert learner.net.outputs == 3


class CountsItsCalls(Mine):
    calls = 0

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        self.calls += 1
        return super().loss(new, old) * self.calls


class RollsDice(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return super().loss(new, old) * torch.rand(())


class WritesInItsLoss(Mine):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(()))

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        loss = super().loss(new, old)
        self.last = loss.detach().clone()
        return loss


class WritesInAView(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        loss = super().loss(new, old)
        new.x.zero_()
        return loss


class TakesTheGlobalGenerator(Mine):
    def remember(self, new: View) -> Mapping[str, Tensor]:
        return {"noise": torch.rand(len(new.y))}

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        noise = sum((view.stored["noise"].mean() for view in old), torch.zeros(()))
        return super().loss(new, old) * (1 + noise)


class TakesNumpysGenerator(Mine):
    def after_step(self, net: Net) -> None:
        with torch.no_grad():
            next(net.parameters()).mul_(1 + 0.01 * float(np.random.default_rng().random()))


class IgnoresTheAdaptor(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return torch.stack([F.cross_entropy(view.logits, view.y) for view in (new, *old)]).sum()


class LooksForTheAdaptor(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return super().loss(new, old) * (1 if new.adapted is new.logits else 2)


class KeepsItsStateToItself(Mine):
    def __init__(self) -> None:
        super().__init__()
        self._steps = 0

    def after_step(self, net: Net) -> None:
        self._steps += 1

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return super().loss(new, old) / (1 + self._steps)


class RemembersOneRow(Mine):
    def remember(self, new: View) -> Mapping[str, Tensor]:
        return {"mean": new.logits.mean(dim=0, keepdim=True)}


class RemembersTooMany(Mine):
    def remember(self, new: View) -> Mapping[str, Tensor]:
        return {"twice": torch.cat([new.logits, new.logits]).sum(dim=1)}


class RemembersNowAndThen(Mine):
    times = 0

    def remember(self, new: View) -> Mapping[str, Tensor]:
        self.times += 1
        return {} if self.times == 1 else {"extra": torch.zeros(len(new.y))}


class ForgetsToRemember(Mine):
    times = 0

    def remember(self, new: View) -> Mapping[str, Tensor]:
        self.times += 1
        return {} if self.times > 1 else {"extra": torch.zeros(len(new.y))}


class ScoresTooFew(Mine):
    def classify(self, net: Net, memory: Memory, x: Tensor) -> Tensor:
        logits: Tensor = net(x)
        return logits[:, :-1]


class LearnsFromQuestions(Mine):
    questions: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("questions", torch.zeros((), dtype=torch.int64))

    def classify(self, net: Net, memory: Memory, x: Tensor) -> Tensor:
        self.questions += len(x)
        return super().classify(net, memory, x)


class LosesASetting(Method):
    def __init__(self, *, alpha: float = 0.5) -> None:
        super().__init__()
        self.share = alpha

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return self.share * ER().loss(new, old)


class ForgetsItsLogitColumns(DERpp):
    logit_columns = ()  # type: ignore[assignment]


class GivesANumber(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return super().loss(new, old).item()  # type: ignore[return-value]


class GivesAVector(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return F.cross_entropy(new.adapted, new.y, reduction="none")


class CannotEndATaskTwice(Mine):
    def boundary(self, net: Net, memory: Memory) -> None:
        if "teacher" in self._modules:
            raise RuntimeError("one task only")
        self.teacher = copy.deepcopy(net)


class BecomesNotANumber(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return super().loss(new, old) / 0


class AssertsTooMuch(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        assert len(new.y) > 1, "a batch of one"
        return super().loss(new, old)


BROKEN: dict[str, tuple[MakeMethod, str, str]] = {
    "impure-counter": (CountsItsCalls, "loss_is_pure", "two numbers for the same views"),
    "impure-chance": (RollsDice, "loss_is_pure", "two numbers for the same views; keep chance"),
    "impure-buffer": (WritesInItsLoss, "loss_is_pure", "changed a view or the method's own state"),
    "impure-view": (WritesInAView, "loss_is_pure", "changed a view"),
    "global-generator": (
        TakesTheGlobalGenerator,
        "global_generator_is_left_alone",
        "torch's global generator was moved",
    ),
    "global-generator-in-results": (
        TakesTheGlobalGenerator,
        "same_seed_same_bits",
        "Two runs of one seed differ. Draw from the generator given to `prepare`",
    ),
    "unseeded-generator": (TakesNumpysGenerator, "same_seed_same_bits", "Two runs of one seed differ"),
    "ignores-the-adaptor": (
        IgnoresTheAdaptor,
        "adaptor_has_something_to_correct",
        "the loss of IgnoresTheAdaptor does not depend on view.adapted",
    ),
    "looks-for-the-adaptor": (
        LooksForTheAdaptor,
        "silent_adaptor_changes_nothing",
        "An adaptor that corrects nothing changes the result",
    ),
    "state-outside-buffers": (
        KeepsItsStateToItself,
        "resume_is_exact",
        "Keep all state in parameters, buffers or submodules",
    ),
    "remembers-one-row": (
        RemembersOneRow,
        "loss_is_pure",
        "`remember` gave 1 rows of 'mean' for 5 samples",
    ),
    "remembers-too-many-rows": (
        RemembersTooMany,
        "loss_is_pure",
        "`remember` gave 10 rows of 'twice' for 5 samples",
    ),
    "new-column-later": (RemembersNowAndThen, "loss_is_pure", "`remember` must always give the same columns"),
    "column-gone-later": (ForgetsToRemember, "loss_is_pure", "`remember` must always give the same columns"),
    "scores-too-few": (ScoresTooFew, "prediction_changes_nothing", "`classify` must give (samples, outputs)"),
    "learns-from-questions": (LearnsFromQuestions, "prediction_changes_nothing", "Asking for predictions changed"),
    "loses-a-setting": (
        LosesASetting,
        "settings_are_kept",
        "Keep every constructor argument under its own name: 'LosesASetting' object has no attribute 'alpha'",
    ),
    "gives-a-number": (GivesANumber, "loss_is_pure", "must return a scalar tensor"),
    "gives-a-vector": (GivesAVector, "loss_is_pure", "must return a scalar tensor"),
    "one-task-only": (CannotEndATaskTwice, "boundaries_are_welcome", "it raised RuntimeError: one task only"),
    "not-a-number": (BecomesNotANumber, "loss_is_pure", "The loss is no longer a finite number"),
    "assertion": (AssertsTooMuch, "odd_batches_are_learned", "it raised AssertionError: a batch of one"),
}


def report_on(make: MakeMethod, *names: str) -> dict[str, str]:
    """The sentence of each check that failed, of the named ones (all twelve take a second) or of all."""
    chosen = [check for check in CHECKS if not names or check.__name__ in names]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contract, "CHECKS", chosen)
        with pytest.raises(MethodError, match="breaks its contract:") as caught:
            check_method(make)
    faults = str(caught.value).splitlines()[1:]
    return {name: fault for name, _, fault in (line.removeprefix("- ").partition(": ") for line in faults)}


@pytest.mark.parametrize(("make", "check", "sentence"), BROKEN.values(), ids=BROKEN)
def test_a_broken_method_is_told_its_fault(make: MakeMethod, check: str, sentence: str) -> None:
    assert sentence in report_on(make, check)[check]


def test_a_method_without_its_logit_columns_is_told_so() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of shapes that differ before it refuses them
        assert "logit_columns" in report_on(ForgetsItsLogitColumns, "head_can_grow")["head_can_grow"]


def test_a_fault_is_reported_by_the_checks_it_concerns_and_no_other() -> None:
    assert set(report_on(LosesASetting)) == {"settings_are_kept"}
    assert set(report_on(LearnsFromQuestions)) == {"prediction_changes_nothing"}
    assert set(report_on(KeepsItsStateToItself)) == {"resume_is_exact"}
