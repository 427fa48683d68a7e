"""GDumb, against training by hand."""

import copy
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

import evenkeel as ek
from evenkeel.learning.methods.gdumb import cut_mix
from evenkeel.learning.types import Draw
from tests.helpers.comparison_methods import points, small_learner, smooth_net
from tests.helpers.methods import random, seeded
from tests.helpers.streams import images, learn_all
from tests.helpers.streams import learner as image_learner


def rate_in(epoch: int, lr: float, least: float) -> float:
    """Return the rate of a pass: a tenth of lr in the first, then a cosine from lr to least over 1, 2, 4, ... ones."""
    if epoch == 0:
        return lr / 10
    epoch, length = epoch - 1, 1
    while epoch >= length:
        epoch, length = epoch - length, 2 * length
    return least + (lr - least) * (1 + math.cos(math.pi * epoch / length)) / 2


def slow_fit(method: ek.GDumb, net: ek.Net, x: Tensor, y: Tensor) -> ek.Net:
    """Train a copy of the net with loops over passes, batches and weights."""
    net, generator, classes = copy.deepcopy(net), seeded(int(method.seed)), sorted(set(y.tolist()))
    velocity = [torch.zeros_like(weight) for weight in net.parameters()]
    for epoch in range(method.epochs):
        lr = rate_in(epoch, method.lr, method.least_lr)
        order = torch.randperm(len(y), generator=generator).tolist()
        for begin in range(0, len(order), method.batch):
            rows = order[begin : begin + method.batch]
            logits = net(x[rows])[:, classes]
            terms = [
                logits[place].logsumexp(0) - logits[place, classes.index(int(y[row]))] for place, row in enumerate(rows)
            ]
            slopes = torch.autograd.grad(torch.stack(terms).mean(), list(net.parameters()))
            norm = math.sqrt(sum(float(slope.square().sum()) for slope in slopes))
            clip = min(1.0, 10 / (norm + 1e-6))
            with torch.no_grad():
                for weight, slope, speed in zip(net.parameters(), slopes, velocity, strict=True):
                    speed.mul_(0.9).add_(clip * slope + 1e-6 * weight)
                    weight.sub_(lr * speed)
    return net.eval()


def taught(method: ek.GDumb, batches: int = 4) -> ek.Learner:
    learner = small_learner(method, memory=12)
    for place in range(batches):
        learner.learn(*points([place % 4, 1, 3, 1, 1], seed=place))
    return learner


@pytest.mark.parametrize("batch", [5, 16])
def test_the_net_that_predicts_is_trained_on_memory_from_scratch(batch: int) -> None:
    method = ek.GDumb(epochs=6, batch=batch)
    learner = taught(method)
    stored = learner.memory.samples()
    expected = slow_fit(method, smooth_net(), stored.x, stored.y)
    x = random(9, 4, seed=5)
    with torch.no_grad():
        wanted = expected(learner._inputs.to_network(x))
    known = sorted(set(stored.y.tolist()))  # the others cannot win
    torch.testing.assert_close(learner.logits(x)[:, known], wanted[:, known], rtol=1e-9, atol=1e-9)
    assert not torch.allclose(learner.logits(x), smooth_net().eval()(learner._inputs.to_network(x)), atol=1e-3)


def test_the_last_pass_is_the_slowest_of_the_longest_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = list[float]()

    def step(_: ek.GDumb, __: ek.Net, optimizer: SGD, *___: object) -> None:
        rates.append(optimizer.param_groups[0]["lr"])

    monkeypatch.setattr(ek.GDumb, "_step", step)
    method = ek.GDumb(batch=16)
    taught(method).predict(points([0], seed=1)[0])
    assert rates == pytest.approx([rate_in(epoch, method.lr, method.least_lr) for epoch in range(256)])
    assert min(rates) == rates[-1] < 1.02 * method.least_lr


def test_nothing_is_learned_before_it_is_asked() -> None:
    learner = taught(ek.GDumb(epochs=1))
    before = smooth_net().state_dict()
    learner.predict(points([0, 1], seed=3)[0])
    assert all(bool((value == before[name]).all()) for name, value in learner.net.state_dict().items())
    record = learner.learn(*points([0, 1], seed=3))
    assert (record.updates, record.loss, record.replayed, record.stored) == (0, None, 0, 12)


@pytest.mark.parametrize("known", [[0], [0, 2]])
def test_a_class_without_a_sample_in_memory_is_not_predicted(known: list[int]) -> None:
    learner = small_learner(ek.GDumb(epochs=3), memory=12)
    x, y = points([0, 1, 2, 3] * 3, seed=1)
    learner.learn(x, y, key=y)
    for label in {0, 1, 2, 3}.difference(known):
        learner.forget(label)
    asked = random(60, 4, seed=6)
    assert set(learner.predict(asked).tolist()) <= set(known)
    assert set(learner.snapshot().predict(asked).tolist()) <= set(known)
    assert learner.predict_proba(asked)[:, known].sum() == pytest.approx(60)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"cutmix": 1.1}, "cutmix=1.1 must be a number from 0 to 1."), ({"least_lr": 1.0}, "must not be above lr=0.05")],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ek.SettingsError, match=message):
        ek.GDumb(**settings)  # type: ignore[arg-type]
    assert ek.GDumb(cutmix=1.0).cutmix == 1.0


def test_repeats_are_refused() -> None:
    with pytest.raises(ek.SettingsError, match="repeats=3 changes nothing for GDumb"):
        small_learner(ek.GDumb(), repeats=3)


def test_memory_is_balanced() -> None:
    assert set(taught(ek.GDumb(epochs=1), batches=12).stored.values()) == {3}


def test_it_is_trained_once_for_all_questions_between_two_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, fits = taught(ek.GDumb(epochs=1)), list[int]()
    fit = ek.GDumb.fit

    def counted(method: ek.GDumb, net: ek.Net, memory: ek.Memory) -> ek.Net:
        fits.append(memory.seen)
        return fit(method, net, memory)

    monkeypatch.setattr(ek.GDumb, "fit", counted)
    x, y = points([0, 1, 3], seed=8)
    for _ in range(3):
        learner.predict(x)
    kept = learner.snapshot()
    scores = kept.logits(x)
    assert fits == [20]
    learner.learn(x, y)
    assert fits == [20]
    learner.predict(x)
    assert fits == [20, 23]
    assert bool((kept.logits(x) == scores).all())
    assert fits == [20, 23]  # a snapshot holds the trained net


def test_after_loading_it_is_trained_again_to_the_same_bits(tmp_path: Path) -> None:
    learner = image_learner(ek.GDumb(epochs=2, batch=4))  # with CutMix, augmentation and batch norm
    learn_all(learner, images(batches=6))
    learner.save(tmp_path / "learner")
    x = images(batches=1, seed=4)[0][0]
    again = ek.Learner.load(tmp_path / "learner")
    assert bool((again.logits(x) == learner.logits(x)).all())
    assert (tmp_path / "learner").stat().st_size < 2 * _size_of(learner.net)  # and memory, but no second net


def _size_of(net: ek.Net) -> int:
    return sum(int(weight.nbytes) for weight in net.state_dict().values()) + 30_000


def test_only_classes_in_memory_compete() -> None:
    learner = taught(ek.GDumb(epochs=3))
    x = random(5, 4, seed=1)
    before = learner.logits(x)
    learner.grow(11)
    assert bool((learner.logits(x)[:, : before.shape[1]] == before).all())


def test_what_is_frozen_stays_so() -> None:
    net = smooth_net()
    net.backbone.requires_grad_(False)
    learner = small_learner(ek.GDumb(epochs=2), net=net, memory=8)
    learner.learn(*points([0, 1, 2, 2], seed=1))
    fitted = learner.method.fitted(learner.net, learner.memory)
    flat = nn.utils.parameters_to_vector
    assert bool((flat(fitted.backbone.parameters()) == flat(net.backbone.parameters())).all())
    assert bool((flat(fitted.head.parameters()) != flat(net.head.parameters())).any())


def test_cut_mix_takes_a_rectangle_of_another_image_and_its_share_of_the_label() -> None:
    shares = []
    for seed in range(40):
        x = torch.arange(6.0).repeat_interleave(3 * 8 * 5).view(6, 3, 8, 5)  # the images differ in every pixel
        mixed, other, kept = cut_mix(Draw(x, torch.arange(6)), seeded(seed))
        for image, label, partner in zip(mixed, range(6), other.tolist(), strict=True):
            foreign = image[0] == partner
            assert bool((image == image[:1]).all())  # the same pixels in each channel
            assert bool((foreign | (image[0] == label)).all())
            if partner != label:
                rows, columns = foreign.any(dim=1), foreign.any(dim=0)
                assert bool((foreign == rows[:, None] & columns).all())
                assert float(foreign.double().mean()) == pytest.approx(1 - kept)
        shares.append(kept)
    assert min(shares) < 0.4
    assert max(shares) > 0.9
    assert sorted(other.tolist()) == list(range(6))


def test_cut_mix_weighs_the_two_labels_by_their_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, losses = image_learner(ek.GDumb(epochs=1, batch=8, cutmix=0.999)), list[Tensor]()
    learn_all(learner, images(batches=2))
    cross_entropy = F.cross_entropy

    def spied(logits: Tensor, y: Tensor) -> Tensor:
        losses.append(y)
        return cross_entropy(logits, y)

    monkeypatch.setattr("evenkeel.learning.methods.gdumb.F.cross_entropy", spied)
    learner.predict(images(batches=1)[0][0])
    own, mixed = losses[:2]
    assert sorted(own.tolist()) == sorted(mixed.tolist())
    assert own.tolist() != mixed.tolist()
