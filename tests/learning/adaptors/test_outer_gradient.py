"""CBA's bi-level update against a slow reference, finite differences and the closed form, all in float64."""

import copy
from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from evenkeel import CBA, CLSER, ER, DERpp, Learner, Method
from evenkeel.learning.adaptors.bilevel import UNROLLED, unrolled_step
from evenkeel.learning.step import Step
from tests.helpers.cases import thinned
from tests.helpers.outer_gradient import NEW, OPTIMIZERS, REPLAY, Update, assert_close, batch, second_task, watch
from tests.helpers.reference_cba import Loss, Reference, last_layer, leaves

METHODS: dict[str, tuple[Callable[[], Method], Loss]] = {
    "ER": (ER, "er"),
    "ER-joint-forward": (lambda: ER(joint_forward=True), "er"),
    "DER++": (DERpp, "derpp"),
    "CLS-ER": (CLSER, "clser"),
}
ADAPTORS: dict[str, Callable[[], CBA]] = {
    "released": lambda: CBA(every=1),
    "paper": CBA.as_paper,
    "probabilities-through": lambda: CBA(every=1, through=True),
    "logits-constant": lambda: CBA(every=1, input="logits"),
    "hidden-16": lambda: CBA(every=1, hidden=(16,)),
    "hidden-8-8-8": lambda: CBA(every=1, hidden=(8, 8, 8)),
}
THREE = ("ER", "DER++", "CLS-ER")


def reference_of(method: str, cba: CBA) -> Reference:
    joint_forward = method == "ER-joint-forward"
    return Reference(METHODS[method][1], cba.input == "probabilities", cba.through, joint_forward)


def one_update(
    method: str, cba: CBA, monkeypatch: pytest.MonkeyPatch, optimizer: str = "momentum-decay"
) -> tuple[Learner, Update]:
    """Return the update of the first batch of the second task."""
    learner = second_task(METHODS[method][0](), cba, OPTIMIZERS[optimizer])
    updates = watch(learner, monkeypatch)
    learner.learn(*batch((2, 3), 3))
    (update,) = updates
    return learner, update


# ---- the outer gradient ----


def assert_as_reference(update: Update, reference: Reference) -> None:
    loss, gradient = reference.outer_gradient(update.net, update.groups, update.query, update.omega, update.sgd)
    assert update.outer_loss == pytest.approx(float(loss), rel=1e-12)
    assert_close(update.gradient, gradient, 1e-10)


REPEATED = [*((name, 1) for name in METHODS), ("ER", 2), ("DER++", 2)]


@pytest.mark.parametrize(
    ("method", "repeats", "variant", "optimizer"),
    thinned((*repeated, *rest) for repeated in REPEATED for rest in product(ADAPTORS, OPTIMIZERS)),
)
def test_outer_gradient(
    method: str, repeats: int, variant: str, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cba = ADAPTORS[variant]()
    learner = second_task(METHODS[method][0](), cba, OPTIMIZERS[optimizer], repeats=repeats)
    updates = watch(learner, monkeypatch)
    for seed in (3, 4):  # the second time omega has moved and memory is mixed
        x, _ = data = batch((2, 3), seed)
        learner.learn(*data)
        assert torch.equal(updates[-1].groups[0].x, x)
    assert len(updates) == 2 * repeats
    for update in updates:
        assert_as_reference(update, reference_of(method, cba))
        draws = [group.x for group in (*update.groups[1:], *update.query)]
        assert len(draws) == 2 * learner.method.draws
        assert not any(torch.equal(one, other) for one, other in combinations(draws, 2))


@pytest.mark.parametrize("method", THREE)
def test_outer_gradient_of_a_head_that_just_grew(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cba = CBA(every=1)
    learner = second_task(METHODS[method][0](), cba, outputs=2)
    updates = watch(learner, monkeypatch)
    for seed, classes in enumerate([(2, 3), (3, 4), (2, 3)]):  # the second needs a new part, which has spare rows
        learner.learn(*batch(classes, seed))
    assert len(updates[-1].sgd) > len(updates[0].sgd) > 2
    for update in updates:
        assert_as_reference(update, reference_of(method, cba))


@pytest.mark.parametrize("variant", ["released", "paper"])
@pytest.mark.parametrize("method", THREE)
def test_finite_differences(method: str, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cba = ADAPTORS[variant]()
    _, update = one_update(method, cba, monkeypatch)

    def whole_procedure(direction: Sequence[Tensor], step: float) -> float:
        omega = [weight + step * d for weight, d in zip(update.omega, direction, strict=True)]
        loss = reference_of(method, cba).outer_loss(update.net, update.groups, update.query, omega, update.sgd)
        return float(loss.detach())

    # The step is short: where g' enters the virtual gradient (`through`), the loss jumps as a unit of g switches on.
    generator, step = torch.Generator().manual_seed(0), 1e-6
    for _ in range(3):
        direction = [torch.randn(w.shape, dtype=torch.float64, generator=generator) for w in update.omega]
        length = torch.cat([d.flatten() for d in direction]).norm()
        direction = [d / length for d in direction]
        slope = (whole_procedure(direction, step) - whole_procedure(direction, -step)) / (2 * step)
        product = sum(float((g * d).sum()) for g, d in zip(update.gradient, direction, strict=True))
        assert product == pytest.approx(slope, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("variant", ["released", "logits-constant"])
@pytest.mark.parametrize("method", THREE)
def test_closed_form_of_the_virtual_gradient(method: str, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cba = ADAPTORS[variant]()
    _, update = one_update(method, cba, monkeypatch)
    reference = reference_of(method, cba)
    assert_close(update.virtual, reference.closed_gradient(update.net, update.groups, update.omega), 1e-12)
    assert_close(update.virtual, reference.virtual_gradient(update.net, update.groups, leaves(update.omega)), 1e-12)


OPTIONS: dict[type[Optimizer], list[dict[str, Any]]] = {
    SGD: [
        {},
        {"weight_decay": 0.1},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.4, "weight_decay": 0.1},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        {"momentum": 0.9, "maximize": True, "weight_decay": 0.1},
    ],
}


@pytest.mark.parametrize("steps", [0, 2], ids=["first-step", "third-step"])
@pytest.mark.parametrize(
    ("kind", "options"), [(kind, options) for kind in UNROLLED for options in OPTIONS[kind]], ids=str
)
def test_virtual_step_is_the_step_of_torch(kind: Callable[..., Optimizer], options: dict[str, Any], steps: int) -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(3, 4, dtype=torch.float64))
    optimizer = kind([weight], lr=0.1, **options)
    for _ in range(steps):
        weight.grad = torch.randn_like(weight)
        optimizer.step()
    gradient = torch.randn_like(weight)
    moved = unrolled_step(optimizer, weight, gradient)
    weight.grad = gradient
    optimizer.step()
    assert_close([moved], [weight.detach()], 1e-14)


# ---- the inner step ----


@pytest.mark.parametrize("variant", ["released", "logits-constant", "probabilities-through", "paper"])
@pytest.mark.parametrize("method", THREE)
def test_inner_gradient(method: str, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the network, g is a constant shift with the new omega; omega gets no gradient from the inner loss."""
    cba = ADAPTORS[variant]()
    _, update = one_update(method, cba, monkeypatch)
    reference = reference_of(method, cba)
    omega = [weight.detach() for weight in cba.g.parameters()]
    assert not torch.equal(omega[0], update.omega[0])

    actual = [view.logits.grad for view in update.views if view.logits.grad is not None]
    logits = [view.logits.detach() for view in update.views]
    expected = reference.logit_gradients(logits, update.groups, omega)
    if cba.through:
        assert float((actual[0] - expected[0]).abs().max()) > 1e-4
        logits = leaves(logits)
        expected = list(torch.autograd.grad(reference.training_loss(logits, update.groups, omega), logits))
    assert_close(actual, expected, 1e-12)
    assert all(weight.grad is None for weight in cba.g.parameters())


@pytest.mark.parametrize("repeats", [1, 2])
def test_stored_logits_are_those_before_the_step(repeats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cba = CBA(every=1)
    learner = second_task(DERpp(), cba, repeats=repeats)
    updates = watch(learner, monkeypatch)
    learner.learn(*batch((2, 3), 3))
    first, reference = updates[0], reference_of("DER++", cba)
    omega = [weight.detach() for weight in cba.g.parameters()] if len(updates) == 1 else updates[1].omega
    (h,) = reference.features(first.net, first.groups[:1])
    f = last_layer(h, list(first.net.head.parameters()), first.net.outputs)
    stored = [learner.memory.column(name)[-NEW:] for name in ("x", "logits", "adapted")]
    assert_close(stored, [first.groups[0].x, f, reference.adapted(f, omega)], 1e-12)


# ---- what an outer step does not change, and what it costs ----


def all_but_omega(learner: Learner) -> dict[str, Tensor]:
    """Return copies of everything an outer step must not change: of the generators, all but its own."""
    parts: dict[str, dict[str, Tensor | None]] = {
        "net": dict(learner.net.state_dict()),
        "gradient": {name: weight.grad for name, weight in learner.net.named_parameters()},
        "momentum": {str(at): one["momentum_buffer"] for at, one in learner.optimizer.state_dict()["state"].items()},
        "method": dict(learner.method.state_dict()),
        "memory": dict(learner.memory.state_dict()["columns"]),
        "streams": {name: state for name, state in learner._generators.state_dict().items() if name != "query"},
        "torch": {"rng": torch.get_rng_state()},
    }
    assert all(parts[part] for part in ("net", "gradient", "momentum", "memory"))
    return {f"{part} {name}": one.clone() for part in parts for name, one in parts[part].items() if one is not None}


def adam_steps(cba: CBA) -> list[float]:
    return [float(state["step"]) for state in cba.optimizer.state_dict()["state"].values()]


@pytest.mark.parametrize("variant", ["released", "paper"])
@pytest.mark.parametrize("method", [*THREE, "ER-joint-forward"])
def test_outer_step_changes_only_omega(method: str, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cba = ADAPTORS[variant]()
    learner = second_task(METHODS[method][0](), cba)
    learner.learn(*batch((2, 3), 3))
    updates = watch(learner, monkeypatch)
    guarded: list[str] = []

    def guard(owner: type, name: str) -> None:
        original = getattr(owner, name)

        def compare(*args: Any, **kwargs: Any) -> Any:
            before = all_but_omega(learner)
            result = original(*args, **kwargs)
            after = all_but_omega(learner)
            assert before.keys() == after.keys()
            assert [what for what in before if not torch.equal(before[what], after[what])] == []
            guarded.append(name)
            return result

        monkeypatch.setattr(owner, name, compare)

    guard(Step, "_query")
    guard(CBA, "update")
    steps = adam_steps(cba)
    learner.learn(*batch((2, 3), 4))
    assert guarded == ["_query", "update"]
    assert adam_steps(cba) == [count + 1 for count in steps]
    (update,) = updates
    assert all(not torch.equal(old, new) for old, new in zip(update.omega, cba.g.parameters(), strict=True))

    # Over the whole step, batch norm has seen the training groups, in their order, and nothing else.
    twin = copy.deepcopy(update.net)
    reference_of(method, cba).features(twin, update.groups)
    for expected, actual in zip(twin.buffers(), learner.net.buffers(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("method", "due", "expected"),
    [
        ("ER", True, [NEW, REPLAY, REPLAY]),
        ("ER", False, [NEW, REPLAY]),
        ("ER-joint-forward", True, [NEW + REPLAY, REPLAY]),
        ("DER++", True, [NEW, REPLAY, REPLAY, REPLAY, REPLAY]),
        ("DER++", False, [NEW, REPLAY, REPLAY]),
        ("CLS-ER", True, [NEW, REPLAY, REPLAY]),
    ],
)
def test_training_groups_are_forwarded_once(method: str, due: bool, expected: list[int]) -> None:
    cba = CBA(every=1)
    learner = second_task(METHODS[method][0](), cba)
    forwarded: list[int] = []
    learner.net.backbone.register_forward_hook(lambda _module, given, _out: forwarded.append(len(given[0])))
    record = learner.learn(*batch((2, 3) if due else (0, 1), 3))
    assert (record.outer_loss is not None) is due
    assert forwarded == expected


# ---- the ablations that train omega with the network ----


@pytest.mark.parametrize("through", [False, True], ids=["constant", "through"])
@pytest.mark.parametrize("training", ["joint", "joint+memory"])
@pytest.mark.parametrize("method", ["ER", "ER-joint-forward", "DER++", "CLS-ER"])
def test_joint_training(method: str, training: str, through: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cba = CBA(every=1, training=training, through=through)
    learner, update = one_update(method, cba, monkeypatch, "sgd")
    assert len(update.query) == (learner.method.draws if training == "joint+memory" else 0)
    assert update.virtual == []
    weights, omega = reference_of(method, cba).joint_gradients(update.net, update.groups, update.query, update.omega)
    assert_close(update.gradient, omega, 1e-10)
    assert_close([weight.grad for weight in learner.net.parameters() if weight.grad is not None], weights, 1e-10)
    moved = [old.detach() - 0.1 * gradient for old, gradient in zip(update.net.parameters(), weights, strict=True)]
    assert_close([weight.detach() for weight in learner.net.parameters()], moved, 1e-10)
