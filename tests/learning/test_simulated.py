"""Learners on the simulated accelerator: they do what they do on the CPU, and read back once in an update."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD
from torch.utils._pytree import tree_leaves

import evenkeel as ek
from evenkeel.learning import checkpoint
from evenkeel.learning.classifier import Classifier
from evenkeel.learning.devices import ACCELERATORS
from evenkeel.learning.export import _predictor
from tests.helpers.cases import thinned
from tests.helpers.simulated import NAME, Simulated, on_simulated_device, read_backs, require_same
from tests.helpers.small_learners import METHODS, PAIRS, Batch, batches, make_learner, make_net


def learn(learner: ek.Learner, given: list[Batch]) -> list[ek.StepRecord]:
    """Learn batches, with at most one read-back each."""
    records = []
    for x, y in given:
        with read_backs() as read:
            records.append(learner.learn(x, y, key=y))
        assert len(read) <= 1, read
    return records


def having_learned(method: str, adaptor: str, device: str) -> ek.Learner:
    """Return a learner in its second task."""
    learner = make_learner(method, adaptor, device)
    learn(learner, batches([0, 1]))
    learner.boundary()
    learn(learner, batches([2, 3]))
    return learner


def state(learner: ek.Learner) -> list[Any]:
    """Return all tensors and numbers of a learner."""
    return tree_leaves(learner.state()[1])


def after_learning(learner: ek.Learner, _folder: Path) -> object:
    return learn(learner, batches([1, 3]))


def after_growing(learner: ek.Learner, _folder: Path) -> object:
    return learn(learner, batches([3, 4, 5]))


def after_a_boundary(learner: ek.Learner, _folder: Path) -> object:
    learner.boundary()
    return learn(learner, batches([0, 3]))


def predicted(learner: ek.Learner, _folder: Path) -> object:
    """Return predictions: of the learner, of a snapshot, and of one that another process would load."""
    x, _ = batches([0, 1])[0]
    loaded: Classifier = pickle.loads(pickle.dumps(learner.snapshot()))
    assert loaded.device == learner.device
    return [each.predict_proba(x).tolist() for each in (learner, learner.snapshot(), loaded, loaded.to("cpu"))]


def saved(learner: ek.Learner, folder: Path) -> object:
    learner.save(folder / "learner")
    facts, tensors = checkpoint.read(folder / "learner")
    assert all(each.device.type == "cpu" for each in tree_leaves(tensors) if isinstance(each, Tensor))
    return facts, tensors


def loaded(learner: ek.Learner, folder: Path) -> object:
    """Return what a learner does that was loaded on the device, and one that was loaded on the CPU."""
    learner.save(folder / "learner")
    results = []
    for device in (str(learner.device.type), "cpu"):
        other = ek.Learner.load(folder / "learner", net=make_net(), device=device)
        assert other.device.type == device
        results.append((learn(other, batches([1, 3])), state(other)))
    return results


def exported(learner: ek.Learner, _folder: Path) -> object:
    """Return what the module that is exported predicts, which is on the CPU."""
    x, _ = batches([0, 1])[0]
    module = _predictor(learner.snapshot())
    return {name: value.tolist() for name, value in module(x).items()}


def after_forgetting(learner: ek.Learner, _folder: Path) -> object:
    return learner.forget(1), learner.stored, learn(learner, batches([1, 3]))


ACTIONS = (
    after_learning,
    after_growing,
    after_a_boundary,
    predicted,
    saved,
    loaded,
    exported,
    after_forgetting,
)


@pytest.mark.parametrize(
    ("method", "adaptor", "action"), thinned(((*pair, action) for pair in PAIRS for action in ACTIONS), together=1)
)
@on_simulated_device
def test_a_learner_on_a_device_does_what_it_does_on_the_cpu(
    method: str, adaptor: str, action: Callable[[ek.Learner, Path], object], tmp_path: Path
) -> None:
    there, here = (having_learned(method, adaptor, device) for device in (NAME, "cpu"))
    assert isinstance(next(there.net.parameters()), Simulated)
    require_same(action(there, tmp_path), action(here, tmp_path))
    require_same(state(there), state(here))


@on_simulated_device
def test_an_optimizer_of_the_users_own_survives_the_move() -> None:
    """With what it has learned: momentum of a net that was trained before."""
    nets = [make_net(), make_net()]
    optimizers = [SGD([{"params": net.head.parameters(), "lr": 0.01}], lr=0.1, momentum=0.9) for net in nets]
    for net, optimizer in zip(nets, optimizers, strict=True):
        net(torch.ones(2, 6)).square().sum().backward()
        optimizer.step()
    learners = [
        ek.Learner(net, ek.ER(), optimizer=optimizer, device=where)
        for net, optimizer, where in zip(nets, optimizers, (NAME, "cpu"), strict=True)
    ]
    for each, optimizer in zip(learners, optimizers, strict=True):
        assert each.optimizer is optimizer
        learn(each, batches([0, 1]))
    require_same(state(learners[0]), state(learners[1]))


@on_simulated_device
def test_auto_leaves_a_net_where_it_is() -> None:
    assert ek.Learner(make_net(), ek.ER()).device.type == NAME
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ACCELERATORS, "cuda", lambda: 1)  # comes first
        assert ek.Learner(make_net().to(NAME), ek.ER()).device.type == NAME


@pytest.mark.parametrize("method", ["er", "derpp", "bic", "icarl", "mir", "gdumb"])
@on_simulated_device
def test_a_memory_on_the_host_gives_the_same_learner(method: str, tmp_path: Path) -> None:
    """A column that the method stores is read back with the numbers of the update; samples never are."""
    there, here = (
        ek.Learner(
            make_net(),
            METHODS[method](),
            adaptor=ek.CBA(every=2) if method == "derpp" else None,  # so that it stores two columns
            memory=ek.Memory(8, device=each),
            replay=4,
            device=NAME,
        )
        for each in ("cpu", "auto")
    )
    for learner in (there, here):
        learn(learner, batches([0, 1], 2))
        learner.boundary()
        learn(learner, batches([2, 3]))
    assert {there.memory.column(name).device.type for name in there.memory._columns} == {"cpu"}
    assert here.memory.column("x").device.type == NAME
    require_same(predicted(there, tmp_path), predicted(here, tmp_path))
    there.save(tmp_path / "learner")
    again = ek.Learner.load(tmp_path / "learner", net=make_net(), device=NAME)
    assert again.memory.column("x").device.type == "cpu"
    require_same(again.learn(*batches([1, 3])[0]), here.learn(*batches([1, 3])[0]))


READS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool((x > 0).any()),
    "cpu": lambda x: x.cpu(),
    "copy_": lambda x: torch.zeros(3).copy_(x),
    "nonzero": lambda x: x.nonzero(),
    "index by a mask": lambda x: x[x > 0],
    "unique": lambda x: x.unique(),
    "masked_select": lambda x: x.masked_select(x > 0),
    "bincount": lambda x: x.long().bincount(),
    "equal": lambda x: torch.equal(x, x),
    "isin": lambda x: torch.isin(x, x),
}


@pytest.mark.parametrize("read", READS)
@on_simulated_device
def test_the_device_counts_every_kind_of_read_back(read: str) -> None:
    x = torch.ones(3).to(NAME)
    with read_backs() as seen:
        READS[read](x)
    assert len(seen) == 1


@on_simulated_device
def test_the_device_refuses_to_mix_and_counts_nothing_that_does_not_wait() -> None:
    x = torch.ones(3).to(NAME)
    with read_backs() as seen:
        (x + x[torch.tensor([0, 1, 2])]).sum() + torch.where(x > 0, x, 0.0).amax()
    assert not seen
    with pytest.raises(RuntimeError, match="tensors on sim and on the CPU"):
        x + torch.ones(3)
