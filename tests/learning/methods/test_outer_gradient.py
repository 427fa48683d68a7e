"""CBA with methods that distil: the outer gradient by an explicit virtual step."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import SGD

import evenkeel as ek
from tests.helpers.methods import (
    random,
)
from tests.helpers.outer_gradient import OPTIMIZERS, Update, assert_close, batch, second_task, watch
from tests.helpers.reference_cba import Group, Reference, leaves

# ---- CBA with these methods: the outer gradient of omega by an explicit virtual step ----


@dataclass(frozen=True)
class Virtual:
    """The inputs of the training loss of a virtual step, with graphs to the head and to omega."""

    method: ek.Method
    groups: Sequence[Group]
    logits: Sequence[Tensor]
    adapted: Sequence[Tensor]
    scale: Tensor  # of a cosine head; otherwise the bias

    @property
    def joined(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return plain and adapted logits, labels and the teacher's outputs of all groups."""
        y, told = [group.y for group in self.groups], [group.stored["teacher"] for group in self.groups]
        return torch.cat([*self.logits]), torch.cat([*self.adapted]), torch.cat(y), torch.cat(told)


def ce(rows: Tensor, y: Tensor, allowed: Callable[[int], Sequence[int]]) -> Tensor:
    """Return the mean cross-entropy, each sample over the outputs allowed for its label."""
    terms = [row[list(allowed(label))].logsumexp(0) - row[label] for row, label in zip(rows, y.tolist(), strict=True)]
    return torch.stack(terms).mean()


def kl(rows: Tensor, told: Tensor, outputs: Sequence[int], temperature: float) -> Tensor:
    p, q = (values[:, list(outputs)].div(temperature).softmax(1) for values in (told, rows))
    return (p * (p.log() - q.log())).sum() / len(rows)


def lucir_loss(virtual: Virtual) -> Tensor:
    """Return the loss without the term for the features, which does not depend on the head."""
    logits, adapted, y, _ = virtual.joined
    pairs = [
        (0.5 - row[label] + rival).relu()
        for row, label in zip(logits / virtual.scale, y.tolist(), strict=True)
        if label in (0, 1)
        for rival in row[[2, 3]]
    ]
    return ce(adapted, y, lambda _: range(5)) + torch.stack(pairs).mean()


def bic_loss(virtual: Virtual) -> Tensor:
    logits, adapted, y, told = virtual.joined
    assert isinstance(virtual.method, ek.BiC)
    shown, plain = (rows * virtual.method.scale + virtual.method.shift for rows in (adapted, logits))
    return 0.5 * ce(shown, y, lambda _: range(4)) + 0.5 * kl(plain, told, (0, 1), 2.0)


def ss_il_loss(virtual: Virtual) -> Tensor:
    logits, adapted, y, told = virtual.joined
    return ce(adapted, y, lambda label: (0, 1) if label < 2 else (2, 3)) + 4.0 * kl(logits, told, (0, 1), 2.0)


def er_ace_loss(virtual: Virtual) -> Tensor:
    new, old = virtual.groups
    return ce(virtual.adapted[0], new.y, lambda _: (2, 3, 4)) + ce(virtual.adapted[1], old.y, lambda _: range(5))


TorchLoss = Callable[[Virtual], Tensor]
COMBINED: dict[str, tuple[Callable[[], ek.Method], TorchLoss]] = {
    "lucir": (ek.LUCIR, lucir_loss),
    "bic": (ek.BiC, bic_loss),
    "ss_il": (ek.SSIL, ss_il_loss),
    "er_ace": (ek.ERACE, er_ace_loss),
    "er_ace-boundaries": (partial(ek.ERACE, task_free=False), er_ace_loss),
}


def slow_outer_gradient(
    method: ek.Method, training_loss: TorchLoss, update: Update, cba: ek.CBA
) -> tuple[Tensor, list[Tensor]]:
    """Repeat the whole procedure on copies of the network: virtual step of the head, then the loss on the query."""
    omega, reference = leaves(update.omega), Reference("er", cba.input == "probabilities", cba.through)
    fixed = torch.tensor([isinstance(method, ek.LUCIR), isinstance(method, ek.LUCIR), False, False, False])

    def logits_of(h: Tensor, weights: Sequence[Tensor]) -> Tensor:
        if not isinstance(method, ek.LUCIR):
            return F.linear(h, weights[0], weights[1])
        rows = torch.where(fixed[:, None], weights[0].detach(), weights[0])
        cosines = F.linear(h / h.norm(dim=1, keepdim=True), rows / rows.norm(dim=1, keepdim=True))
        return weights[1] * cosines

    weights = leaves(list(update.net.head.parameters()))
    twin = copy.deepcopy(update.net).train()
    sizes = [len(group.y) for group in update.groups]
    if method.joint_forward:
        features = list(twin.backbone(torch.cat([group.x for group in update.groups])).detach().split(sizes))
    else:
        features = [twin.backbone(group.x).detach() for group in update.groups]
    logits = [logits_of(h, weights) for h in features]
    adapted = [reference.adapted(f, omega) for f in logits]
    loss = training_loss(Virtual(method, update.groups, logits, adapted, weights[1]))
    gradients = torch.autograd.grad(loss, weights, create_graph=True)
    steps = zip(update.sgd, weights, gradients, strict=True)
    moved = [rule.move(weight.detach(), gradient) for rule, weight, gradient in steps]
    (query,) = update.query
    plain = logits_of(copy.deepcopy(update.net).train().backbone(query.x).detach(), moved)
    if isinstance(method, ek.BiC):
        plain = plain * method.scale + method.shift
    outer = ce(plain, query.y, lambda _: range(5))
    return outer.detach(), list(torch.autograd.grad(outer, omega))


@pytest.mark.parametrize("through", [False, True], ids=["constant", "through"])
@pytest.mark.parametrize("name", COMBINED)
def test_outer_gradient_in_the_second_task(name: str, through: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    make, training_loss = COMBINED[name]
    cba = ek.CBA(every=1, through=through)
    one = second_task(make(), cba, lambda net: SGD(net.parameters(), lr=0.1)) if name != "lucir" else lucir_second(cba)
    one.boundary()
    method = one.method
    if isinstance(method, ek.BiC):
        method.scale, method.shift = random(5, seed=1).exp(), random(5, seed=2)
    one.learn(*batch((2, 3), 3))
    updates = watch(one, monkeypatch)
    one.learn(*batch((2, 3), 4))
    (update,) = updates
    assert sorted({*update.groups[1].y.tolist()}) != [2, 3]  # old classes are among those replayed
    loss, gradient = slow_outer_gradient(method, training_loss, update, cba)
    assert update.outer_loss == pytest.approx(float(loss), rel=1e-12)
    assert_close(update.gradient, gradient, 1e-10)


def lucir_second(cba: ek.CBA) -> ek.Learner:
    """Return a learner like second_task's, with momentum, weight decay and a cosine head."""

    def optimizer(net: ek.Net) -> SGD:
        net.make_cosine()
        return OPTIMIZERS["momentum-decay"](net)

    return second_task(ek.LUCIR(), cba, optimizer)
