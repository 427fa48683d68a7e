"""Adaptors of your own: what they are shown, and that they are saved, restored and measured like CBA."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Adam, Optimizer

import evenkeel as ek
from evenkeel.learning.probes import differences, snapshot
from tests.helpers.streams import ADAPTABLE, ADAPTORS, METHODS, Batch, MakeAdaptor, images, learn_all, learner


class Counted(ek.Adaptor):
    """A bias for each class: how often its label was in the updates so far, new or replayed, as a logarithm."""

    def __init__(self, *, weight: float = 1.0) -> None:
        self.weight = weight
        self.observed: list[list[list[int]]] = []  # the labels of each update, by group; for the tests only

    def attach(self, net: ek.Net, optimizer: Optimizer, seed: int) -> None:
        self.counts = torch.ones(net.outputs)

    def observe(self, method: ek.Method, groups: Sequence[ek.View], memory: ek.Memory) -> None:
        self.observed.append([view.y.tolist() for view in groups])
        for view in groups:
            self.counts = self.counts + view.y.bincount(minlength=len(self.counts))

    @property
    def bias(self) -> Tensor:
        return self.weight * (self.counts / self.counts.sum()).log()

    def correct(self, view: ek.View, *, learning: bool = False) -> ek.View:
        return replace(view, adapted=view.logits + self.bias)

    def grow(self, outputs: int) -> None:
        self.counts = F.pad(self.counts, (0, outputs - len(self.counts)), value=1.0)

    def state_dict(self) -> dict[str, Any]:
        return {"counts": self.counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.counts = state["counts"]


class InPlace(Counted):
    """The same, but it writes into its state."""

    def observe(self, method: ek.Method, groups: Sequence[ek.View], memory: ek.Memory) -> None:
        for view in groups:
            self.counts += view.y.bincount(minlength=len(self.counts))


class Learned(ek.Adaptor):
    """A bias that is trained in the network's own step, or in one of its own on memory."""

    def __init__(self, *, joint: bool = False, uses_query: bool = True) -> None:
        self.joint = joint
        self.uses_query = uses_query
        self.queries: list[list[int]] = []

    def attach(self, net: ek.Net, optimizer: Optimizer, seed: int) -> None:
        self.bias = nn.Parameter(torch.zeros(net.outputs))
        self.optimizer = SGD([self.bias], lr=0.1)

    def due(self, y: Tensor, memory: ek.Memory) -> bool:
        return True  # even while memory is empty

    def update(
        self,
        method: ek.Method,
        head: nn.Module,
        optimizer: Optimizer,
        groups: Sequence[ek.View],
        query: Sequence[ek.View],
    ) -> float:
        assert not any(view.logits.requires_grad for view in query)
        self.queries.append([len(view.y) for view in query])
        loss = torch.stack([F.cross_entropy(view.logits.detach() + self.bias, view.y) for view in groups]).sum()
        loss.backward()
        self._step()
        return float(loss.detach())

    def correct(self, view: ek.View, *, learning: bool = False) -> ek.View:
        return replace(view, adapted=view.logits + (self.bias if learning else self.bias.detach()))

    def after_step(self, *, learned: bool) -> None:
        assert learned == self.joint
        if learned:
            self._step()

    def _step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        return {"bias": self.bias.detach()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        with torch.no_grad():
            self.bias.copy_(state["bias"])
        self.bias.grad = None


OWN: dict[str, MakeAdaptor] = {
    "counted": Counted,
    "in-place": InPlace,
    "joint": partial(Learned, joint=True),
    "joint, no query": partial(Learned, joint=True, uses_query=False),
    "with an update": Learned,
}
ALL: dict[str, MakeAdaptor] = {**OWN, **{f"ours, {name}": make for name, make in ADAPTORS.items() if name != "none"}}


def adaptor_of(one: ek.Learner) -> dict[str, Any]:
    return {path: value for path, value in snapshot(one).items() if path.startswith("/1/adaptor")}


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("method", ADAPTABLE)
def test_it_observes_the_labels_of_every_update_and_the_loss_sees_its_correction(method: str, repeats: int) -> None:
    adaptor = Counted(weight=2.0)
    one = learner(METHODS[method](), adaptor, outputs=4, repeats=repeats)
    loss, labels = one.method.loss, list[list[list[int]]]()

    def spied(new: ek.View, old: Sequence[ek.View]) -> Tensor:
        labels.append([view.y.tolist() for view in (new, *old)])
        for view in (new, *old):
            torch.testing.assert_close(view.adapted, view.logits + adaptor.bias, rtol=0, atol=0)
        return loss(new, old)

    one.method.loss = spied  # type: ignore[method-assign]
    trained = 0
    for place, (x, y) in enumerate(images(batches=4)):
        trained += one.learn(x, y).updates
        if place == 1:
            one.boundary()
    assert adaptor.observed == labels
    assert len(labels) == trained
    assert float(adaptor.counts.sum()) == 4 + sum(len(y) for groups in labels for y in groups)


@pytest.mark.parametrize("method", ["er", "derpp", "bic", "lucir"])
def test_it_acts_in_training_but_not_in_prediction(method: str) -> None:
    adaptor = Counted()
    alone, with_it = learner(METHODS[method]()), learner(METHODS[method](), adaptor)
    for one in (alone, with_it):
        learn_all(one, images())
    x = images()[0][0]
    scores = with_it.logits(x)
    assert not torch.equal(scores, alone.logits(x))
    adaptor.counts = adaptor.counts * torch.tensor([1e6, 1.0, 1.0, 1.0])
    assert torch.equal(with_it.logits(x), scores)


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("method", ["er", "derpp", "bic", "clser"])
def test_saved_and_loaded_it_resumes_bit_for_bit(method: str, own: str, tmp_path: Path) -> None:
    stream: list[Batch] = images(batches=6)
    outputs = 4 if own in ("joint", "joint, no query", "with an update") else 2  # the others grow
    straight = learner(METHODS[method](), OWN[own](), outputs=outputs)
    learn_all(straight, stream[:4])
    straight.save(tmp_path / "one")
    with pytest.raises(ek.CheckpointError, match=r"adaptor is your own class \w+, which a file cannot hold. Pass adap"):
        ek.Learner.load(tmp_path / "one")
    second = ek.Learner.load(tmp_path / "one", adaptor=OWN[own]())
    assert learn_all(second, stream[4:]) == learn_all(straight, stream[4:])
    assert not differences(snapshot(straight), snapshot(second))


def interrupted(_: Tensor) -> Tensor:
    raise KeyboardInterrupt


FAILURES: tuple[tuple[Callable[[Tensor], Tensor], type[BaseException]], ...] = (
    (lambda loss: loss * torch.inf, ek.DivergenceError),
    (lambda loss: loss + (loss * 0).sqrt(), ek.DivergenceError),  # an infinite gradient
    (interrupted, KeyboardInterrupt),
)


@pytest.mark.parametrize("name", ALL)
def test_a_refused_update_restores_its_state(name: str) -> None:
    """Each batch is refused at first: the last call of `loss` in a step, after any outer step, fails in some way."""
    one, plain = learner(ek.ER(), ALL[name]()), learner(ek.ER(), ALL[name]())
    loss = one.method.loss

    def failing(spoil: Callable[[Tensor], Tensor], new: ek.View, old: Sequence[ek.View]) -> Tensor:
        outer = not new.features.requires_grad  # an outer step uses features as constants
        return loss(new, old) if outer else spoil(loss(new, old))

    for (x, y), (spoil, error) in zip(images(batches=6), (*FAILURES, *FAILURES), strict=True):
        before, generators = adaptor_of(one), copied_generators(one)
        one.method.loss = partial(failing, spoil)  # type: ignore[method-assign]
        with pytest.raises(error):
            one.learn(x, y)
        assert not differences(before, adaptor_of(one))
        one.method.loss = loss  # type: ignore[method-assign]
        one._generators.load_state_dict(generators)  # so that the next update is that of the plain learner
        assert one.learn(x, y) == plain.learn(x, y)
    assert not differences(snapshot(one), snapshot(plain))
    assert differences(adaptor_of(one), adaptor_of(learner(ek.ER(), ALL[name]())))  # it has changed since the start


def copied_generators(one: ek.Learner) -> dict[str, Tensor]:
    return {name: state.clone() for name, state in one._generators.state_dict().items()}


@pytest.mark.parametrize("name", ALL)
def test_measuring_the_alignment_does_not_move_it(name: str) -> None:
    one = learner(ek.ER(), ALL[name]())
    *stream, last = images(batches=4)
    learn_all(one, stream)
    for _ in range(3):
        before = snapshot(one)
        assert one.alignment(*last) is not None
        assert not differences(before, snapshot(one))
        one.learn(*last)


def test_the_alignment_is_that_of_an_update_with_these_labels() -> None:
    adaptor = Counted()
    one = learner(ek.ER(), adaptor)
    learn_all(one, images()[:7])
    updates = len(adaptor.observed)
    one.alignment(*images()[7])
    assert adaptor.observed[updates][0] == images()[7][1]


def test_a_joint_adaptor_learns_with_the_network_and_another_by_its_update() -> None:
    joint, own = Learned(joint=True), Learned()
    for adaptor, query in ((joint, False), (own, True)):
        records = learn_all(learner(ek.DERpp(), adaptor), images())
        assert float(adaptor.bias.detach().abs().min()) > 0
        assert all((record.outer_loss is not None) == query for record in records)
    assert joint.queries == []
    assert own.queries == [[], *[[6, 6]] * 11]  # none while memory is empty; DER++ draws two groups


@pytest.mark.parametrize("optimizer", [partial(Adam, lr=1e-2), partial(SGD, lr=0.1, momentum=0.9)])
def test_it_needs_no_particular_optimizer(optimizer: Any) -> None:
    one = ek.Learner(ek.mlp(features=64, classes=4), ek.ER(), adaptor=Counted(), memory=10, optimizer=optimizer)
    assert learn_all(one, images())[-1].loss is not None


class Duck:
    """It has all the methods, but is no Adaptor."""

    correct = observe = due = attach = Counted.correct


@pytest.mark.parametrize("given", [Duck(), Counted, "counted", torch.zeros(3)], ids=["duck", "class", "name", "tensor"])
def test_anything_else_is_refused_with_a_sentence(given: Any) -> None:
    with pytest.raises(ek.SettingsError, match=r"is not an Adaptor\. Give an instance, such as CBA\(\); a class"):
        learner(ek.ER(), given)


def test_correct_is_required() -> None:
    class Nothing(ek.Adaptor):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Nothing()  # type: ignore[abstract]


def test_its_repr_has_its_settings() -> None:
    assert repr(Counted(weight=0.5)) == "Counted(weight=0.5)"
