"""The running class prior, alone and under CBA: its recursion, what sees it, and its learned strength."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, RMSprop

import evenkeel as ek
from evenkeel.learning.adaptors.bilevel import Gradients, assign_gradients, balanced_loss
from evenkeel.learning.probes import differences, snapshot
from evenkeel.learning.step import Step
from tests.helpers.methods import view
from tests.helpers.outer_gradient import OPTIMIZERS, as_groups, assert_close, batch, second_task, sgd_rule
from tests.helpers.reference_cba import Group, Sgd
from tests.helpers.reference_prior import SlowPrior, balanced_cross_entropy, outer_gradient
from tests.helpers.streams import ADAPTABLE, ADAPTORS, METHODS, images, learn_all, learner

BY_COUNTS = ("ss_il", "lucir", "bic")  # methods whose cross-entropy is one mean over new and replayed samples


def share_of_new(method: str, new: int, old: int) -> float:
    """Return 1 to beta for DER++, a sum of two means for the others."""
    return new / (new + old) if method in BY_COUNTS else 1 / 1.5 if method == "derpp" else 0.5


# ---- the recursion ----


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("method", ADAPTABLE)
def test_the_loss_sees_the_offsets_of_the_slow_prior_at_every_update(method: str, repeats: int) -> None:
    """Whether classes are new, gone, or come as a batch of one; the head grows in the second task."""
    slow, prior = SlowPrior(rate=0.3), ek.Prior(tau=0.7, rate=0.3)
    one = learner(METHODS[method](), prior, outputs=3, repeats=repeats)
    loss, calls = one.method.loss, 0

    def spied(new: ek.View, old: Sequence[ek.View]) -> Tensor:
        nonlocal calls
        calls += 1
        stored = one.memory.column("y").tolist() if old else []
        share = share_of_new(method, len(new.y), len(old[0].y) if old else 0)
        slow.observe(new.y.tolist(), stored, share)
        offset = torch.tensor(slow.offset(one.net.outputs, tau=0.7))
        for seen in (new, *old):
            assert seen.comparable is seen.logits
            torch.testing.assert_close(seen.adapted, seen.logits + offset, rtol=1e-5, atol=1e-5)
        return loss(new, old)

    one.method.loss = spied  # type: ignore[method-assign]
    updates = 0
    for place, (x, y) in enumerate(images()):
        size = 1 if place in (3, 8) else len(y)
        updates += one.learn(x[:size], y[:size]).updates
        if place == 6:
            one.boundary()
    assert calls == updates > 0
    assert one.net.outputs == 4
    assert float(prior.pi.sum()) == pytest.approx(1)


def test_a_method_that_does_not_replay_yet_has_the_prior_of_its_batches() -> None:
    prior = ek.Prior(rate=1.0)
    one = learner(ek.ERACE(task_free=False), prior)
    for x, y in images()[:6]:
        one.learn(x, y)
        outputs = one.labels.outputs(y).tolist()
        assert prior.pi.tolist() == pytest.approx([outputs.count(c) / len(y) for c in range(4)])


def test_the_prior_of_a_method_of_ones_own_follows_its_share_of_new() -> None:
    class Cautious(ek.ER):
        def share_of_new(self, new: int, old: int) -> float:
            return 0.2

    prior = ek.Prior(rate=1.0)
    one = learner(Cautious(), prior)
    learn_all(one, images()[:7])
    stored = one.memory.column("y").tolist()
    x, y = images()[7]
    one.learn(x, y)
    outputs = one.labels.outputs(y).tolist()
    counted = [(outputs.count(c), stored.count(c)) for c in range(4)]
    expected = [0.2 * new / len(y) + 0.8 * old / len(stored) for new, old in counted]
    assert prior.pi.tolist() == pytest.approx(expected)


# ---- who sees the offset ----


@pytest.mark.parametrize("adaptor", ["none", "cba", "prior", "prior-learned", "cba-prior"])
def test_what_may_be_compared_has_the_residual_but_not_the_offset(adaptor: str) -> None:
    ours = ADAPTORS[adaptor]()
    one = learner(ek.DERpp(), ours)
    loss = one.method.loss
    has_residual, has_offset = "cba" in adaptor, "prior" in adaptor

    def spied(new: ek.View, old: Sequence[ek.View]) -> Tensor:
        for seen in (new, *old):
            assert (seen.comparable is seen.logits) is not has_residual
            assert (seen.adapted is seen.comparable) is not has_offset
            offset = (seen.adapted - seen.comparable).detach()
            torch.testing.assert_close(offset, offset[:1].expand_as(offset), rtol=0, atol=1e-5)  # one per class
        return loss(new, old)

    one.method.loss = spied  # type: ignore[method-assign]
    learn_all(one, images())
    assert one.memory.extra_columns == ({"logits", "adapted"} if has_residual else {"logits"})


@pytest.mark.parametrize("adaptor", ["prior", "prior-learned", "cba-prior"])
def test_prediction_does_not_use_the_prior(adaptor: str) -> None:
    ours = ADAPTORS[adaptor]()
    alone, with_it = learner(ek.ER()), learner(ek.ER(), ours)
    learn_all(alone, images())
    learn_all(with_it, images())
    x = images()[0][0]
    before = with_it.logits(x)
    assert not torch.equal(before, alone.logits(x))
    prior = ours._prior if isinstance(ours, ek.CBA) else ours
    assert isinstance(prior, ek.Prior)
    prior.pi.copy_(torch.tensor([0.7, 0.1, 0.1, 0.1]))
    assert torch.equal(before, with_it.logits(x))


def test_bic_scales_what_is_learned_and_not_the_prior() -> None:
    method = ek.BiC()
    one = learner(method, ek.Prior())
    learn_all(one, images()[:3])
    method.scale, method.shift = torch.tensor([2.0, 3.0, 1.0, 1.0]), torch.tensor([0.5, 0.0, 0.0, 0.0])
    plain = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    nothing = torch.zeros(5, dtype=torch.int64)
    offset = torch.tensor([1.0, -1.0, 2.0, 0.0])
    seen = ek.View(plain, nothing, {}, plain, plain, plain + offset, plain)
    torch.testing.assert_close(method.adapted(seen), plain * method.scale + method.shift + offset)


# ---- optimizers and settings ----


@pytest.mark.parametrize("optimizer", [SGD, Adam, AdamW, RMSprop])
def test_a_fixed_prior_needs_no_particular_optimizer(optimizer: Callable[..., Any]) -> None:
    net = ek.mlp(features=64, classes=4)
    one = ek.Learner(net, ek.ER(), adaptor=ek.Prior(), memory=10, optimizer=partial(optimizer, lr=1e-2))
    assert learn_all(one, images())[-1].loss is not None


@pytest.mark.parametrize("adaptor", [partial(ek.Prior, tau="learned"), partial(ek.CBA, prior=True)])
def test_what_is_learned_by_outer_steps_needs_an_optimizer_that_can_be_unrolled(adaptor: Callable[[], Any]) -> None:
    with pytest.raises(ek.SettingsError, match=r"unrolls one step of the optimizer.*but not for Adam\. Use SGD, or"):
        ek.Learner(ek.mlp(features=2, classes=2), ek.ER(), adaptor=adaptor(), optimizer=partial(Adam, lr=1e-3))


WRONG: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "tau": (ek.Prior, {"tau": "fitted"}, "tau='fitted' must be a number of at least 0, or 'learned'"),
    "negative tau": (ek.Prior, {"tau": -1}, "tau=-1 must be a number of at least 0"),
    "no rate": (ek.Prior, {"rate": 0}, "rate=0 must be a number above 0"),
    "rate": (ek.Prior, {"rate": 1.5}, "rate=1.5 must be at most 1"),
    "every": (ek.Prior, {"every": 0}, "every=0 must be a whole number"),
    "lr": (ek.Prior, {"lr": 0}, "lr=0 must be a number above 0"),
    "prior": (ek.CBA, {"prior": "yes"}, "prior='yes' is not one of True, False"),
    "joint": (ek.CBA, {"prior": True, "training": "joint"}, "prior=True has an outer loss of its own"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_settings_raise_a_sentence(wrong: str) -> None:
    make, settings, message = WRONG[wrong]
    with pytest.raises(ek.SettingsError, match=message):
        make(**settings)


def test_a_prior_belongs_to_one_learner() -> None:
    prior = ek.Prior()
    learner(ek.ER(), prior)
    with pytest.raises(ek.SettingsError, match="already belongs to a learner"):
        learner(ek.ER(), prior)


# ---- learned by outer steps ----


def test_the_balanced_loss_gives_every_class_of_batch_and_memory_the_same_weight() -> None:
    memory = [0, 0, 0, 0, 1, 1, 2, 2, 3, 5]
    stored = torch.tensor([memory.count(c) / len(memory) for c in range(7)], dtype=torch.float64)
    new, query = view([2, 5], seed=2), [view([0, 0, 0, 1], seed=1), view([3, 2], seed=3)]
    old, y_old = torch.cat([each.logits for each in query]), [0, 0, 0, 1, 3, 2]
    expected = balanced_cross_entropy(new.logits, [2, 5], old, y_old, memory)
    assert_close([balanced_loss(new, query, stored)], [expected], 1e-12)


def test_many_old_classes_outweigh_the_few_of_a_batch() -> None:
    """A draw of ten of a hundred classes: the two classes of the batch are 2% of the classes, not half of the loss."""
    outputs, stored = 102, torch.tensor([0.01] * 100 + [0.0] * 2)
    logits = torch.zeros(20, outputs, requires_grad=True)
    x, y = torch.zeros(10, 1), torch.tensor([100, 101] * 5)
    new = ek.View(x, y, {}, x, logits[:10], logits[:10], logits[:10])
    old = ek.View(x, torch.arange(10), {}, x, logits[10:], logits[10:], logits[10:])
    balanced_loss(new, [old], stored).backward()
    moved = logits.grad.abs().sum(dim=1)  # type: ignore[union-attr]
    assert float(moved[:10].sum() / moved.sum()) == pytest.approx(2 / 102)


@dataclass
class OuterUpdate:
    """A record of one update; everything is from before its steps."""

    net: ek.Net
    sgd: list[Sgd]
    memory: list[int]  # its labels
    groups: list[Group] = field(default_factory=list)
    query: list[Group] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)  # of the adaptor
    gradient: list[Tensor] = field(default_factory=list)
    loss: Tensor | None = None


def watch(one: ek.Learner, monkeypatch: pytest.MonkeyPatch) -> list[OuterUpdate]:
    updates: list[OuterUpdate] = []
    call, query, loss = Step.__call__, Step._query, one.method.loss

    def spied_call(step: Step, x: Tensor, y: Tensor, **settings: Any) -> Any:
        rules = [sgd_rule(one, weight) for weight in step.net.head.parameters()]
        updates.append(OuterUpdate(copy.deepcopy(step.net), rules, step.memory.column("y").tolist()))
        return call(step, x, y, **settings)

    def spied_query(step: Step, *args: Any, **settings: Any) -> Any:
        views = query(step, *args, **settings)
        updates[-1].query = as_groups(views)
        return views

    def spied_loss(new: ek.View, old: Sequence[ek.View]) -> Tensor:
        updates[-1].groups = as_groups([new, *old])
        return loss(new, old)

    def spied_gradients(
        name: str, method: ek.Method, outer: Tensor, weights: Sequence[Tensor], gradients: Gradients
    ) -> Tensor:
        updates[-1].weights = [weight.detach().clone() for weight in weights]
        updates[-1].loss = outer.detach()
        updates[-1].gradient = [gradient.clone() for gradient in gradients if gradient is not None]
        return assign_gradients(name, method, outer, weights, gradients)

    monkeypatch.setattr(Step, "__call__", spied_call)
    monkeypatch.setattr(Step, "_query", spied_query)
    one.method.loss = spied_loss  # type: ignore[method-assign]
    for module in ("prior", "cba"):
        monkeypatch.setattr(f"evenkeel.learning.adaptors.{module}.assign_gradients", spied_gradients)
    return updates


BY_REFERENCE: dict[str, tuple[Callable[[], ek.Method], Literal["er", "derpp"]]] = {
    "ER": (ek.ER, "er"),
    "DER++": (ek.DERpp, "derpp"),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("adaptor", ["learned", "cba"])
@pytest.mark.parametrize("method", BY_REFERENCE)
def test_outer_gradient(method: str, adaptor: str, optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of log tau, and of omega in f + o + g, against autograd through an explicit virtual step."""
    make, loss = BY_REFERENCE[method]
    ours = ek.Prior(tau="learned", every=1) if adaptor == "learned" else ek.CBA(every=1, hidden=(8,), prior=True)
    prior = ours._prior if isinstance(ours, ek.CBA) else ours
    assert prior is not None
    one = second_task(make(), ours, OPTIMIZERS[optimizer])
    updates = watch(one, monkeypatch)
    for seed in (3, 4, 5):  # the second time what is learned has moved
        one.learn(*batch((2, 3), seed))
        update = updates[-1]
        least = 1e-3 / int((prior.pi > 0).sum())
        log_pi = prior.pi.clamp(min=least).log()
        outer, gradient = outer_gradient(
            loss,
            update.net,
            update.groups,
            update.query,
            memory=update.memory,
            log_pi=log_pi,
            sgd=update.sgd,
            log_tau=update.weights[0] if adaptor == "learned" else None,
            omega=[] if adaptor == "learned" else update.weights,
        )
        assert update.loss is not None
        assert float(update.loss) == pytest.approx(float(outer), rel=1e-12)
        assert_close(update.gradient, gradient, 1e-10)


def test_tau_starts_at_one_and_stays_above_zero() -> None:
    prior = ek.Prior(tau="learned", every=1, lr=10.0)
    one = learner(ek.ER(), prior)
    assert prior.strength == 1
    records = learn_all(one, images())
    assert records[0].outer_loss is None  # memory is empty
    assert all(record.outer_loss is not None for record in records[6:])  # it holds classes of the first task
    assert 0 < prior.strength != 1


def test_cba_with_prior_is_the_prior_until_its_first_outer_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ek.CBA, "due", lambda *_: False)
    alone, both = learner(ek.ER(), ek.Prior()), learner(ek.ER(), ek.CBA(prior=True))
    assert learn_all(alone, images()) == learn_all(both, images())
    assert all(path.startswith(("/0/adaptor", "/1/adaptor")) for path in differences(snapshot(alone), snapshot(both)))
