"""CBA apart from its gradient: when it acts, what it does not change, and that it leaves other generators alone."""

from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adam

import evenkeel as ek
from evenkeel.learning.memory import Memory
from evenkeel.learning.probes import differences, flat, snapshot
from tests.helpers.streams import ADAPTABLE, ADAPTORS, METHODS, images, learn_all, learner

# Tasks and batches per task of one online run with batches of 32 (last one dropped), and its number of outer updates.
RUNS = {"short": (3, 11, 6), "cifar10": (5, 312, 252), "cifar100": (10, 156, 288), "tiny-imagenet": (10, 312, 567)}


@pytest.mark.parametrize("run", ["short", *(pytest.param(run, marks=pytest.mark.slow) for run in list(RUNS)[1:])])
def test_number_of_outer_updates(run: str) -> None:
    """(tasks - 1) * ceil(batches / 5): at every 5th update, from the second task on."""
    tasks, batches, expected = RUNS[run]
    adaptor = ek.CBA(hidden=(2,), start="second-task")
    one = ek.Learner(ek.mlp(features=1, classes=tasks, hidden=(1,)), ek.ER(), adaptor=adaptor, memory=5, replay=1)
    updates = 0
    for task in range(tasks):
        for _ in range(batches):
            updates += one.learn(torch.ones(2, 1), [task] * 2).outer_loss is not None
        one.boundary()
    assert updates == expected


@pytest.mark.parametrize("method", ADAPTABLE)
def test_a_silent_adaptor_is_no_adaptor(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With residual zero and outer steps off, method + CBA equals the method bit for bit."""
    adaptor = ek.CBA()
    alone, silent = learner(METHODS[method]()), learner(METHODS[method](), adaptor)
    with torch.no_grad():
        for weight in list(adaptor.g.parameters())[-2:]:
            weight.zero_()
    monkeypatch.setattr(ek.CBA, "due", lambda *_: False)
    for place, (x, y) in enumerate(images()):
        assert alone.learn(x, y) == silent.learn(x, y)
        if place == 6:
            alone.boundary()
            silent.boundary()
    apart = differences(snapshot(alone), snapshot(silent))
    assert all("adapt" in path for path in apart), apart  # the adaptor itself, and DER++'s second kind of logits


@pytest.mark.parametrize("adaptor", [name for name in ADAPTORS if name != "none"])
@pytest.mark.parametrize("method", [name for name in ADAPTABLE if name != "mir"])  # which chooses by its weights
def test_with_and_without_cba_the_same_samples_are_seen(method: str, adaptor: str) -> None:
    """Common random numbers: batches, augmentations, memory draws and stored samples are those of the method alone."""
    alone, adapted = samples_seen(method, "none"), samples_seen(method, adaptor)
    assert len(alone) == len(adapted) > 6
    assert all(torch.equal(a, b) for a, b in zip(alone, adapted, strict=True))


@cache
def samples_seen(method: str, adaptor: str) -> list[Tensor]:
    """Return what the loss was shown, and what is in memory at the end."""
    one, views = learner(METHODS[method](), ADAPTORS[adaptor]()), list[Tensor]()
    loss = one.method.loss

    def watched(new: ek.View, old: Any) -> Tensor:
        if not any(new.x is known for known in views):  # an outer step shows the same views a second time
            views.extend([new.x, *(view.x for view in old)])
        return loss(new, old)

    one.method.loss = watched  # type: ignore[method-assign]
    learn_all(one, images(batches=6))
    return [*views, one.memory.column("x")]


@pytest.mark.parametrize("method", ADAPTABLE)
def test_cba_acts_in_training_but_not_in_prediction(method: str) -> None:
    """The adaptor is active in training (or all of the above would be empty) and absent from prediction."""
    alone, with_cba = learner(METHODS[method]()), learner(METHODS[method](), ADAPTORS["cba"]())
    learn_all(alone, images())
    records = learn_all(with_cba, images())
    assert any(record.outer_loss is not None for record in records)
    x = images()[0][0]
    assert not torch.equal(alone.logits(x), with_cba.logits(x))
    before = with_cba.logits(x)
    assert isinstance(with_cba.adaptor, ek.CBA)
    with torch.no_grad():
        for weight in with_cba.adaptor.g.parameters():
            weight.fill_(1e6)
    assert torch.equal(before, with_cba.logits(x))


def filled(*outputs: int) -> Memory:
    memory = Memory(10)
    if outputs:
        memory.insert({"x": torch.zeros(len(outputs)), "y": torch.tensor(outputs)}, torch.Generator())
    return memory


def test_when_outer_steps_are_due() -> None:
    batch = torch.tensor([2, 3])
    old_classes = ek.CBA(every=1)
    assert not old_classes.due(batch, filled())
    assert not old_classes.due(batch, filled(2, 2))
    assert old_classes.due(batch, filled(2, 1))
    first = ek.CBA(every=1, start="first")
    assert not first.due(batch, filled())
    assert first.due(batch, filled(2))
    second_task = ek.CBA(every=1, start="second-task")
    assert not second_task.due(batch, filled(0))
    second_task.boundary()
    assert second_task.due(batch, filled(0))
    third = ek.CBA(every=3, start="first")
    due = []
    for step in range(8):
        due.append(third.due(batch, filled(0)))
        third.after_step(learned=False)
        if step == 3:
            third.boundary()  # counting restarts
    assert due == [True, False, False, True, True, False, False, True]


def test_sizes_and_initial_residual_of_the_released_adaptor() -> None:
    for outputs, size in ((10, 5386), (100, 51556), (200, 102856)):
        adaptor = ek.CBA()
        one = ek.Learner(ek.mlp(features=2, classes=outputs), ek.ER(), adaptor=adaptor)
        assert sum(weight.numel() for weight in adaptor.g.parameters()) == size
        if outputs == 10:
            logits = torch.randn(1000, 10, generator=torch.Generator().manual_seed(0))
            residual = adaptor.corrected(logits) - logits
            assert 0.02 < float(residual.std()) < 0.15
        assert one.adaptor is adaptor


@pytest.mark.parametrize("hidden", [(64,), (1024,), (256, 256, 256)])
def test_any_hidden_sizes(hidden: tuple[int, ...]) -> None:
    adaptor = ek.CBA(hidden=hidden, every=1)
    learn_all(learner(ek.ER(), adaptor), images())
    widths = [layer.out_features for layer in adaptor.g if isinstance(layer, torch.nn.Linear)]
    assert widths == [*hidden, 4]


def test_only_a_step_that_can_be_unrolled() -> None:
    class MySGD(SGD):
        """An SGD whose step may do anything."""

    for optimizer in (partial(Adam, lr=1e-3), partial(MySGD, lr=1e-3)):
        with pytest.raises(ek.SettingsError, match=r"CBA unrolls one step.*but not for (Adam|MySGD)"):
            ek.Learner(ek.mlp(features=2, classes=2), ek.ER(), adaptor=ek.CBA(), optimizer=optimizer)
        ek.Learner(ek.mlp(features=2, classes=2), ek.ER(), adaptor=ek.CBA(training="joint"), optimizer=optimizer)


def test_a_head_without_trained_parameters_is_refused() -> None:
    net = ek.mlp(features=2, classes=2)
    optimizer = SGD(net.backbone.parameters(), lr=0.1)
    with pytest.raises(ek.SettingsError, match="updates none of the head's parameters"):
        ek.Learner(net, ek.ER(), adaptor=ek.CBA(), optimizer=optimizer)
    net.head.requires_grad_(False)
    with pytest.raises(ek.SettingsError, match="updates none of the head's parameters"):
        ek.Learner(net, ek.ER(), adaptor=ek.CBA())


def test_the_outer_step_does_not_change_buffers_of_the_head() -> None:
    class Normed(torch.nn.Module):
        in_features, out_features = 8, 4

        def __init__(self) -> None:
            super().__init__()
            self.norm, self.linear = torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4)

        def forward(self, features: Tensor) -> Tensor:
            logits: Tensor = self.linear(self.norm(features))
            return logits

    head = Normed()
    backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 8))
    adaptor = ek.CBA(every=1, start="first")
    records = learn_all(ek.Learner(ek.Net(backbone, head), ek.ER(), adaptor=adaptor), images())
    assert records[-1].outer_loss is not None
    assert int(head.norm.get_buffer("num_batches_tracked")) == 2 * len(records) - 1  # the first step has no memory
    alone = ek.Learner(ek.Net(backbone, Normed()), ek.ER(), adaptor=ek.CBA(every=1, start="first"), memory=1)
    learn_all(alone, images(size=1))  # one sample: running statistics, in the head too


def test_an_outer_gradient_that_overflows_is_not_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    one = learner(ek.ER(), ek.CBA(every=1, start="first"))
    learn_all(one, images()[:3])
    before = snapshot(one)
    monkeypatch.setattr(ek.ER, "query_loss", lambda _, old: (old[0].logits.sum() * 0).sqrt())  # finite, with slope 0/0
    with pytest.raises(ek.DivergenceError, match="outer loss of CBA or its gradient"):
        one.learn(*images()[3])
    assert not [path for path in differences(before, snapshot(one)) if path.startswith(("/1/adaptor", "/1/net"))]


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("updates", [1, 3])
def test_a_backup_restores_the_state_before_an_outer_step(updates: int, prior: bool) -> None:
    """The first outer step creates Adam's averages: without it there are none."""
    adaptor = ek.CBA(every=1, start="first", prior=prior)
    one = learner(ek.ER(), adaptor)
    learn_all(one, images()[:updates])
    before, kept = adaptor.state_dict(), adaptor.backup()
    assert kept is not None
    assert bool(before["optimizer"]["state"]) is (updates > 1)
    one.learn(*images()[updates])
    adaptor.restore(kept)
    after = {**adaptor.state_dict(), "updates": before["updates"]}  # only an update that was made is counted
    assert not differences(dict(flat("", before)), dict(flat("", after)))
    assert all(weight.grad is None for weight in adaptor.g.parameters())


def test_a_loss_that_ignores_the_adaptor_is_reported() -> None:
    class Deaf(ek.Method):
        def loss(self, new: ek.View, old: Any) -> Tensor:
            return torch.nn.functional.cross_entropy(new.logits, new.y)

    with pytest.raises(ek.MethodError, match=r"Deaf does not depend on view\.adapted"):
        learn_all(learner(Deaf(), ADAPTORS["cba"]()), images())


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "start": ({"start": "second_task"}, "Did you mean 'second-task'"),
    "input": ({"input": "logit"}, "Did you mean 'logits'"),
    "training": ({"training": "both"}, "is not one of 'bilevel', 'joint', 'joint.memory'"),
    "every": ({"every": 0}, "every=0"),
    "hidden": ({"hidden": ()}, "at least one hidden layer"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_settings_raise_a_sentence(fault: str) -> None:
    given, message = WRONG[fault]
    with pytest.raises(ek.SettingsError, match=message):
        ek.CBA(**given)


def test_most_growths_copy_no_row_of_the_adaptors_output_layer() -> None:
    """The storage grows by half at a time, so a class costs the same however many there are; its room is not saved."""
    adaptor = ek.CBA(hidden=(8,), every=1)
    learn_all(learner(ek.ER(), adaptor), images())
    moves = -1, 0
    for outputs in range(5, 500):
        adaptor.grow(outputs)
        last = adaptor.g[-1]
        assert isinstance(last, torch.nn.Linear)
        average = adaptor.optimizer.state[last.weight]["exp_avg"]
        assert last.weight.is_contiguous()
        assert last.weight.shape == average.shape == (outputs, 8)
        assert not last.weight[4:].any()
        assert not average[4:].any()
        assert average[:4].any()
        if last.weight.data_ptr() != moves[0]:
            moves = last.weight.data_ptr(), moves[1] + 1
    assert moves[1] < 20
    assert adaptor.state_dict()["g"]["2.weight"].untyped_storage().nbytes() == 499 * 8 * 4


def test_most_growths_copy_no_row_of_the_adaptors_input_layer() -> None:
    adaptor = ek.CBA(hidden=(8,), every=1)
    learn_all(learner(ek.ER(), adaptor), images())
    first = adaptor.g[0]
    assert isinstance(first, torch.nn.Linear)
    assert first.weight.is_contiguous()  # without growth there is no room to spare
    before, moves = first.weight.detach().clone(), (-1, 0)
    for outputs in range(5, 500):
        adaptor.grow(outputs)
        average = adaptor.optimizer.state[first.weight]["exp_avg"]
        assert first.weight.shape == average.shape == (8, outputs)
        assert not first.weight[:, 4:].any()
        assert not average[:, 4:].any()
        assert torch.equal(first.weight[:, :4], before)
        if first.weight.data_ptr() != moves[0]:
            moves = first.weight.data_ptr(), moves[1] + 1
    assert moves[1] < 20
    assert adaptor.state_dict()["g"]["0.weight"].untyped_storage().nbytes() == 499 * 8 * 4


def test_a_loaded_adaptor_has_rows_of_the_same_length_and_grows_in_them(tmp_path: Path) -> None:
    """A product with rows of another length might round differently, and then a crash would change bits."""
    net = ek.mlp(features=6, classes=2, hidden=(8,))
    original = ek.Learner(net, ek.ER(), adaptor=ek.CBA(hidden=(8,), every=1), memory=20)
    x = torch.randn(30, 2, 6, generator=torch.Generator().manual_seed(0))
    batches = [(each, [f"a{number}", f"b{number}"]) for number, each in enumerate(x)]
    for batch in batches[:4]:
        original.learn(*batch)
    original.save(tmp_path / "learner.ek")
    again = ek.Learner.load(tmp_path / "learner.ek")
    for batch in batches[4:]:
        assert row_lengths(original, again)[0] == row_lengths(original, again)[1]
        for each in (original, again):
            each.learn(*batch)
    assert row_lengths(again)[0] > len(again.classes)
    assert not differences(snapshot(again), snapshot(original))


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "first step"])
def test_adam_steps_each_weight_by_its_own_gradient_however_much_g_has_grown(begun: bool) -> None:
    """The fused kernel knows nothing of the room between rows: it is compared with an Adam that is not fused."""
    adaptor = ek.CBA(hidden=(8,), every=1, lr=0.1)
    one = learner(ek.ER(), adaptor)
    if begun:
        learn_all(one, images())
    generator = torch.Generator().manual_seed(0)
    for outputs in range(5, 16):  # most of these widths have room to spare
        adaptor.grow(outputs)
        weights = adaptor.optimizer.param_groups[0]["params"]
        plain = [weight.detach().clone(memory_format=torch.contiguous_format).requires_grad_() for weight in weights]
        reference = Adam(plain, lr=0.1, foreach=False)
        for weight, same in zip(weights, plain, strict=True):
            if state := adaptor.optimizer.state[weight]:
                reference.state[same] = {name: value.clone() for name, value in state.items()}
            weight.grad = torch.randn(weight.shape, generator=generator)
            same.grad = weight.grad.clone()
        adaptor.after_step(learned=True)
        reference.step()
        torch.testing.assert_close(weights, plain)
        first = weights[0].detach()
        room = first.as_strided((8, first.stride(0)), (first.stride(0), 1))[:, outputs:]
        assert not room.any(), f"a class to come would not start at zero, after {outputs} outputs"


def test_resume_is_exact_after_each_class_that_came_alone(tmp_path: Path) -> None:
    net = ek.mlp(features=6, classes=2, hidden=(8,))
    straight = ek.Learner(net, ek.ER(), adaptor=ek.CBA(hidden=(8,), every=1), memory=20)
    x = torch.randn(12, 4, 6, generator=torch.Generator().manual_seed(0))
    for number, each in enumerate(x):
        straight.save(tmp_path / "learner.ek")
        again = ek.Learner.load(tmp_path / "learner.ek")
        for _ in range(2):
            assert again.learn(each, [number, max(0, number - 1)] * 2) == straight.learn(
                each, [number, max(0, number - 1)] * 2
            )
        assert not differences(snapshot(again), snapshot(straight))


def row_lengths(*learners: ek.Learner) -> list[int]:
    """Return the strides of the rows of the adaptors' input layers."""
    adaptors = [each.adaptor for each in learners]
    return [next(each.g.parameters()).stride(0) for each in adaptors if isinstance(each, ek.CBA)]


def test_growth_keeps_what_the_adaptor_learned() -> None:
    """With no mass on the new class, g of the old classes is unchanged."""
    adaptor = ek.CBA(hidden=(8,), every=1, lr=1e-2)
    learn_all(learner(ek.ER(), adaptor), images())
    given = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    before = adaptor.corrected(given)
    adaptor.grow(6)
    after = adaptor.corrected(torch.nn.functional.pad(given, (0, 2), value=-1e9))
    torch.testing.assert_close(after[:, :4], before)
    state = adaptor.optimizer.state[next(adaptor.g.parameters())]
    assert state["exp_avg"].shape == (8, 6)
    assert not state["exp_avg"][:, 4:].any()
    assert state["exp_avg"][:, :4].any()
