"""The public API: what goes in, what comes out, and that bad input leaves no trace."""

import enum
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

import evenkeel as ek
from evenkeel.learning.probes import differences, snapshot
from tests.helpers.cases import thinned
from tests.helpers.streams import ADAPTORS, METHODS, images, learn_all, learner, pairs


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


LABELS: dict[str, Any] = {
    "strings": ["cat", "dog"],
    "integers": [7, 3],
    "numpy integers": np.array([7, 3]),
    "numpy strings": np.array(["cat", "dog"]),
    "tensor": torch.tensor([7, 3]),
    "tuples": [("a", 1), ("b", 2)],
    "enums": [Colour.RED, Colour.BLUE],
    "mixed": [1, "a"],
}


@pytest.mark.parametrize("labels", LABELS)
def test_labels_of_any_hashable_kind_come_back(labels: str) -> None:
    given = LABELS[labels]
    one = ek.Learner(ek.mlp(features=2, classes=2), ek.ER(), optimizer=partial(SGD, lr=1.0))
    x = np.array([[1.0, 0.0], [0.0, 1.0]])
    for _ in range(20):
        one.learn(x, given)
    plain = given.tolist() if isinstance(given, np.ndarray | Tensor) else list(given)
    assert one.classes == plain
    assert one.predict(x).tolist() == plain
    assert one.predict(x[::-1]).tolist() == plain[::-1]


@pytest.mark.parametrize(("method", "adaptor"), pairs("none", "cba"))
def test_five_lines_are_enough(method: str, adaptor: str) -> None:
    one = learner(METHODS[method](), ADAPTORS[adaptor]())
    for x, y in images(batches=25, size=20, tasks=1):
        one.learn(x, y)
    x, y = images(batches=1, size=100, tasks=1)[0]
    assert (one.predict(x) == y).mean() > 0.6  # random guessing gives 0.25


def test_numpy_and_torch_are_equivalent() -> None:
    as_tensor, as_array = learner(ek.ER()), learner(ek.ER())
    for x, y in images():
        assert as_tensor.learn(x, torch.tensor(y)) == as_array.learn(x.numpy(), np.array(y))
    assert differences(snapshot(as_tensor), snapshot(as_array)) == []


def test_later_changes_to_the_array_do_not_matter() -> None:
    one, other = learner(ek.ER()), learner(ek.ER())
    for x, y in images():
        batch = x.clone()
        one.learn(batch, y)
        batch.zero_()
        other.learn(x, y)
    assert differences(snapshot(one), snapshot(other)) == []


def nan_pixels(x: Tensor, y: list[int]) -> tuple[Any, Any]:
    x = x.clone()
    x[1, 0] = torch.nan
    return x, y


def infinite(x: Tensor, y: list[int]) -> tuple[Any, Any]:
    return torch.full_like(x, torch.inf), y


BAD: dict[str, tuple[Callable[[Tensor, list[int]], tuple[Any, Any]], str]] = {
    "empty": (lambda x, y: (x[:0], y[:0]), "The batch is empty"),
    "nan": (nan_pixels, r"NaN or infinite values in 1 sample\(s\), the first at index 1"),
    "infinite": (infinite, "NaN or infinite"),
    "too large for the network's floats": (lambda x, y: (x.double() + 1e300, y), "NaN or infinite"),
    "shape": (lambda x, y: (x[:, :2], y), r"have shape \(3,\), but these have \(2,\)"),
    "one sample without a batch": (lambda x, y: (x[0], y[:1]), r"give x\[None\]"),
    "integers": (lambda x, y: (x.long(), y), "dtype int64; give images as uint8 or features as floating-point"),
    "images after features": (lambda x, y: (x.to(torch.uint8), y), "given floats before and uint8 now"),
    "strings": (lambda x, y: (list("abcd")[: len(x)], y), "Texts need an encoder"),
    "ragged": (lambda x, y: ([x[0].tolist(), [1.0]], y[:2]), "cannot be converted to one array"),
    "lengths": (lambda x, y: (x, y[:-1]), "x has 4 samples but y has 3 labels"),
    "label": (lambda x, y: (x, [*y[:-1], "dgo"]), "'dgo' is not one of the 4 classes.*Did you mean 'dog'"),
    "one label": (lambda x, y: (x, y[0]), "single value 'cat'"),
    "label matrix": (lambda x, y: (x, np.zeros((len(y), 2))), r"y must have one dimension.*\(4, 2\)"),
    "list as label": (lambda x, y: (x, [*y[:-1], [1]]), "not hashable"),
    "nan as label": (lambda x, y: (x, [*y[:-1], float("nan")]), "is missing: it is nan"),
    "no label": (lambda x, y: (x, [None, *y[1:]]), "at index 0 of y is missing"),
    "fraction as label": (lambda x, y: (x, [0.5, *y[1:]]), "at index 0 of y is 0.5"),
}


@pytest.mark.parametrize("adaptor", ["none", "cba"])
@pytest.mark.parametrize("fault", BAD)
def test_bad_input_raises_a_sentence_and_changes_nothing(fault: str, adaptor: str) -> None:
    classes = ["cat", "dog", "cow", "hen"]
    net = ek.Net(nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU()), nn.Linear(8, 4))
    one = ek.Learner(net, ek.DERpp(), adaptor=ADAPTORS[adaptor](), memory=6, replay=4, classes=classes)
    x, y = torch.rand(4, 3), ["cat", "dog", "cat", "hen"]
    for _ in range(3):
        one.learn(x, y)
    before = snapshot(one)
    spoil, message = BAD[fault]
    with pytest.raises(ek.InputError, match=message):
        one.learn(*spoil(x, y))  # type: ignore[arg-type]
    assert differences(before, snapshot(one)) == []


def test_a_bad_first_batch_changes_nothing() -> None:
    one = learner(ek.ER())
    before = snapshot(one)
    with pytest.raises(ek.InputError, match=r"cannot process samples of shape \(8, 8, 3\).*channels-last"):
        ek.Learner(ek.convnet(classes=2, channels=3), ek.ER()).learn(np.zeros((2, 8, 8, 3), np.uint8), [0, 1])
    with pytest.raises(ek.InputError, match=r"cannot process samples of shape \(64,\)"):
        one.learn(torch.zeros(2, 64), [0, 1])
    with pytest.raises(ek.InputError, match=r"images with 1 channel, .* shape \(3, 8, 8\). Create it with channels=3"):
        one.learn(torch.zeros(2, 3, 8, 8), [0, 1])
    assert differences(before, snapshot(one)) == []
    small = learner(ek.ER(), memory="10B")
    before = snapshot(small)
    with pytest.raises(ek.InputError, match="memory='10B' cannot hold one sample, which takes 88 bytes"):
        small.learn(*images()[0])
    assert differences(before, snapshot(small)) == []


def test_an_augmentation_that_cannot_process_the_samples_changes_nothing() -> None:
    for augment in (ek.CropFlip(), ek.RandAugment()):
        one = ek.Learner(ek.mlp(features=3, classes=2), ek.ER(), augment=augment)
        before = snapshot(one)
        with pytest.raises(ek.InputError, match=r"(CropFlip|RandAugment).*images"):
            one.learn(torch.rand(4, 3), [0, 1, 0, 1])
        assert differences(before, snapshot(one)) == []


def test_a_head_that_cannot_grow_changes_nothing() -> None:
    class Fixed(nn.Module):
        in_features, out_features = 4, 2

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(4, 2))

        def forward(self, features: Tensor) -> Tensor:
            return features @ self.weight

    one = ek.Learner(ek.Net(nn.Linear(3, 4), Fixed()), ek.DERpp(), adaptor=ek.CBA())
    before = snapshot(one)
    with pytest.raises(ek.SettingsError, match="a Fixed cannot grow"):
        one.learn(torch.rand(3, 3), [0, 1, 2])
    assert differences(before, snapshot(one)) == []
    one.learn(torch.rand(2, 3), [0, 1])


@pytest.mark.parametrize("adaptor", ["none", "cba", "joint", "joint+memory"])
def test_numbers_that_overflow_inside_leave_the_network_unchanged(adaptor: str) -> None:
    """Finite input, but not finite inside: running statistics must not be poisoned for good."""
    net = ek.Net(nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU()), nn.Linear(8, 4))
    one = ek.Learner(net, ek.ER(), adaptor=ADAPTORS[adaptor](), memory=6, replay=4)
    x, y = torch.rand(4, 3), [0, 1, 2, 3]
    for _ in range(4):
        one.learn(x, y)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(ek.DivergenceError, match="is NaN or infinite"):
        one.learn(x * 1e38, [0] * 4)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    one.learn(x, y)


@pytest.mark.parametrize("method", ["er", "derpp", "er_ace", "ss_il"])
def test_a_label_that_was_not_learned_is_not_predicted(method: str) -> None:
    """After a failed batch its new label is unknown again; the output added for it stays for the next label."""
    one = ek.Learner(ek.mlp(features=3, classes=2), METHODS[method](), adaptor=ADAPTORS["cba"](), memory=6, replay=4)
    x, y = torch.rand(4, 3, generator=torch.Generator().manual_seed(0)), ["a", "b", "a", "b"]
    for _ in range(3):
        one.learn(x, y)
    with pytest.raises(ek.DivergenceError):
        one.learn(torch.full_like(x, 3e38), ["c", "d", "c", "d"])  # overflows in the first layer, whatever the method
    assert one.classes == ["a", "b"]
    assert set(one.predict(x)) <= {"a", "b"}
    one.learn(x, ["e"] * 4)
    assert one.classes == ["a", "b", "e"]


def test_a_gradient_that_overflows_is_not_applied() -> None:
    class Root(nn.Module):
        """A function that is finite everywhere, but has an infinite slope at zero."""

        def forward(self, x: Tensor) -> Tensor:
            return torch.sqrt(x**2)

    net = ek.Net(nn.Sequential(nn.Linear(3, 4, bias=False), Root()), nn.Linear(4, 2))
    one = ek.Learner(net, ek.ER())
    one.learn(torch.rand(4, 3), [0, 1, 0, 1])
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(ek.DivergenceError, match="A gradient is NaN or infinite"):
        one.learn(torch.zeros(1, 3), [0])
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


def test_predictions_that_are_not_finite_are_refused() -> None:
    one = ek.Learner(ek.mlp(features=3, classes=2), ek.ER())
    one.learn(torch.rand(4, 3), [0, 1, 0, 1])
    with torch.no_grad():
        one.net.head.get_parameter("bias").fill_(torch.nan)
    with pytest.raises(ek.DivergenceError, match="scores are NaN or infinite"):
        one.predict(torch.rand(1, 3))


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_network_that_writes_into_its_input_spoils_nothing(repeats: int) -> None:
    def negate(x: Tensor, _: torch.Generator) -> Tensor:
        return x.neg_()

    net = ek.Net(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 4)), nn.Linear(4, 2))
    one = ek.Learner(net, ek.ER(), augment=negate, memory=100, repeats=repeats)
    x, y = torch.randn(4, 3), [0, 1, 0, 1]
    kept = x.clone()
    one.learn(x, y)
    one.learn(x, y)
    one.predict(x)
    assert torch.equal(x, kept)
    assert torch.equal(one.memory.column("x"), kept.repeat(2, 1))


def test_a_network_may_cache_a_result_of_its_first_call() -> None:
    class Positions(nn.Module):
        table: Tensor | None = None

        def forward(self, x: Tensor) -> Tensor:
            if self.table is None:
                self.table = torch.linspace(0, 1, x.shape[1])
            return x * self.table

    net = ek.Net(nn.Sequential(nn.Linear(3, 4), Positions()), nn.Linear(4, 2))
    one = ek.Learner(net, ek.ER())
    one.logits(torch.rand(1, 3))
    one.learn(torch.rand(4, 3), [0, 1, 0, 1])


def test_parts_frozen_beforehand_stay_frozen() -> None:
    def net() -> ek.Net:
        return ek.Net(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), nn.Linear(4, 2))

    frozen_norm, pretrained, frozen = net(), net(), net()
    frozen_norm.backbone.get_submodule("1").eval()
    pretrained.backbone.eval()
    frozen.backbone.eval().requires_grad_(False)
    for one in (frozen_norm, pretrained, frozen):
        ek.Learner(one, ek.ER()).learn(torch.rand(4, 3), [0, 1, 0, 1])
    tracked = [int(one.backbone.get_buffer("1.num_batches_tracked")) for one in (frozen_norm, pretrained, frozen)]
    assert tracked == [0, 1, 0]


def test_new_outputs_join_the_optimizer_groups_of_the_old() -> None:
    net = ek.mlp(features=3, classes=1)
    bias = net.head.get_parameter("bias")
    rest = [weight for weight in net.parameters() if weight is not bias]
    groups: list[dict[str, Any]] = [{"params": rest, "weight_decay": 0.1}, {"params": [bias]}]
    optimizer = SGD(groups, lr=0.1)
    one = ek.Learner(net, ek.ER(), optimizer=optimizer)
    one.learn(torch.rand(4, 3), [0, 1, 2, 3])
    decayed, free = ({tuple(weight.shape) for weight in group["params"]} for group in optimizer.param_groups)
    assert (3, 512) in decayed
    assert free == {(1,), (3,)}


def test_the_parts_of_a_learner_cannot_be_replaced() -> None:
    one = learner(ek.ER())
    for name in ("replay", "optimizer", "method", "net"):
        with pytest.raises(AttributeError, match=f"{name} cannot be replaced in a learner"):
            setattr(one, name, None)


@pytest.mark.parametrize("labels", [[2**63 + 1, 2**63 + 3], [2**62 + 1, 2**62 + 3], ["a\0", "a"]])
def test_labels_that_numpy_would_spoil(labels: list[Any]) -> None:
    one = ek.Learner(ek.mlp(features=2, classes=2), ek.ER(), optimizer=partial(SGD, lr=1.0))
    for _ in range(20):
        one.learn(np.eye(2), labels)
    assert one.predict(np.eye(2)).tolist() == labels


def test_keys_that_cannot_be_reproduced_are_refused() -> None:
    one = learner(ek.ER(), memory=100)
    x, y = images()[0]
    keys: list[Any] = [range(6), tuple(range(6)), np.arange(6), torch.arange(6), dict.fromkeys(range(6)).keys()]
    for key in keys:
        one.learn(x, y, key=key)
    assert one.forget(3) == 5
    for key in (1.5, object(), [object()] * 6, np.zeros((6, 2))):
        with pytest.raises(ek.InputError, match="A key must be a string, bytes or a whole number"):
            one.learn(x, y, key=key)
    with pytest.raises(ek.InputError, match="A key must be a string"):
        one.forget(["a"])  # type: ignore[arg-type]


ARRAYS: dict[str, Any] = {
    "big-endian": lambda x: x.numpy().astype(">f4"),
    "long double": lambda x: x.numpy().astype(np.longdouble),
    "read-only": lambda x: np.broadcast_to(x.numpy(), x.shape),
    "negative stride": lambda x: x.numpy()[::-1][::-1],
    "list": lambda x: x.tolist(),
    "needs gradient": lambda x: x.clone().requires_grad_(),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_of_all_kinds(kind: str) -> None:
    one, other = (ek.Learner(ek.mlp(features=3, classes=2), ek.ER()) for _ in range(2))
    x, y = torch.rand(4, 3), [0, 1, 0, 1]
    assert one.learn(ARRAYS[kind](x), y) == other.learn(x, y)


def test_images_without_channels_get_a_hint() -> None:
    with pytest.raises(ek.InputError, match=r"give x\[:, None\]"):
        ek.Learner(ek.convnet(classes=2), ek.ER()).learn(np.zeros((4, 8, 8), np.uint8), [0, 1, 0, 1])
    plain = ek.Net(nn.Sequential(nn.Conv2d(4, 2, 3), nn.Flatten(1)), nn.Linear(72, 2))
    with pytest.raises(ek.InputError, match=r"give x\[:, None\]"):
        ek.Learner(plain, ek.ER()).learn(np.zeros((4, 8, 8), np.uint8), [0, 1, 0, 1])


def test_a_backbone_that_returns_no_tensor_is_reported() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, x

    with pytest.raises(ek.SettingsError, match="must return a tensor with a row for each of 2 samples, not a tuple"):
        ek.Learner(ek.Net(Two(), nn.Linear(3, 2)), ek.ER()).learn(torch.rand(4, 3), [0, 1, 0, 1])


def test_nothing_to_train_is_reported() -> None:
    net = ek.mlp(features=3, classes=2).requires_grad_(False)
    with pytest.raises(ek.SettingsError, match="nothing to train"):
        ek.Learner(net, ek.ER()).learn(torch.rand(4, 3), [0, 1, 0, 1])


def test_columns_with_a_name_of_the_memorys_own_are_refused() -> None:
    class Thief(ek.ER):
        def remember(self, new: ek.View) -> dict[str, Tensor]:
            return {"y": torch.zeros_like(new.y)}

    with pytest.raises(ek.MethodError, match="the memory uses that name itself"):
        learner(Thief()).learn(*images()[0])


def test_predict_is_checked_too() -> None:
    one = learner(ek.ER())
    x, y = images()[0]
    with pytest.raises(ek.InputError, match="Nothing has been learned yet"):
        one.predict(x)
    one.learn(x, y)
    with pytest.raises(ek.InputError, match="have shape"):
        one.predict(x[:, :, :4])
    assert one.predict(x[:0]).shape == (0,)
    assert one.predict_proba(x).sum(axis=1) == pytest.approx(1)


def test_predictions_are_among_known_labels() -> None:
    """Free outputs have no label, so they are never predicted, however large their logits."""
    one = learner(ek.ER(), outputs=10)
    x, _ = images()[0]
    one.learn(x, ["only"] * len(x))
    with torch.no_grad():
        one.net.head.get_parameter("bias")[5] = 1e6
    assert set(one.predict(x)) == {"only"}
    assert one.predict_proba(x).shape == (len(x), 1)


def test_with_fixed_classes_all_outputs_compete() -> None:
    """As in the paper: a class not yet seen can be predicted."""
    one = ek.Learner(ek.mlp(features=2, classes=3), ek.ER(), classes=["a", "b", "c"])
    one.learn(torch.rand(4, 2), ["a"] * 4)
    with torch.no_grad():
        one.net.head.get_parameter("bias")[2] = 1e6
    assert one.predict(torch.rand(1, 2)) == ["c"]


def test_large_batches_are_predicted_in_parts() -> None:
    one = learner(ek.ER())
    learn_all(one, images())
    x = torch.cat([x for x, _ in images(batches=200)])
    by_hand = torch.cat([one.logits(part) for part in x.split(100)])
    assert torch.allclose(one.logits(x), by_hand, atol=1e-5)


@pytest.mark.parametrize(("method", "adaptor", "size"), thinned((*pair, size) for pair in pairs() for size in (1, 2)))
def test_tiny_batches_small_memory_one_class(method: str, adaptor: str, size: int) -> None:
    """Including batch norm on the features of a single sample, which torch itself refuses."""
    net = ek.Net(nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU()), nn.Linear(8, 4))
    one = ek.Learner(net, METHODS[method](), adaptor=ADAPTORS[adaptor](), memory=2, replay=32)
    for x, y in images(batches=4, size=size):
        record = one.learn(x, y)
        assert record.loss is None or np.isfinite(record.loss)  # BiC may hold out all of a batch
    assert record.replayed <= 2 * 2 * record.updates
    one_class = learner(METHODS[method](), ADAPTORS[adaptor]())
    for x, _ in images(batches=3):
        one_class.learn(x, [0] * len(x))


def test_a_single_sample_uses_running_statistics_and_leaves_them() -> None:
    net = ek.Net(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), nn.Linear(4, 2))
    x = torch.rand(4, 3)
    ek.Learner(net, ek.ER()).learn(x, [0, 1, 0, 1])
    norm = net.backbone.get_submodule("1")
    before = {name: value.clone() for name, value in norm.named_buffers()}
    assert int(before["num_batches_tracked"]) == 1
    with torch.no_grad():
        expected = nn.functional.cross_entropy(net.eval()(x[:1]), torch.tensor([0]))
    assert ek.Learner(net, ek.ER()).learn(x[:1], [0]).loss == pytest.approx(float(expected))
    assert all(torch.equal(before[name], value) for name, value in norm.named_buffers())
    assert norm.training


def test_growth_keeps_every_bit_of_old_logits_and_grows_everything() -> None:
    one = learner(ek.DERpp(), ADAPTORS["cba"](), outputs=1)
    stream = images(batches=24, classes=4, tasks=4)
    x = stream[0][0]
    for step, (batch, y) in enumerate(stream):
        labels = set(one.classes) | set(y)
        if len(labels) > one.net.outputs:
            before = one.logits(x)
            moments = {name: value.clone() for name, value in snapshot(one).items() if "exp_avg" in name}
            stored = one.memory.column("logits").clone()
            one.grow(len(labels))
            assert torch.equal(one.logits(x)[:, : before.shape[1]], before)
            assert torch.equal(one.memory.column("logits")[:, : stored.shape[1]], stored)
            assert one.memory.column("adapted").shape[1] == len(labels)
            for name, value in moments.items():
                kept = snapshot(one)[name]
                assert torch.equal(kept[tuple(map(slice, value.shape))], value)
        assert one.learn(batch, y).step == step + 1
    assert one.net.outputs == 4
    assert {len(group["params"]) for group in one.optimizer.param_groups} == {len(list(one.net.parameters()))}
    assert (one.predict(torch.cat([x for x, _ in stream[-6:]])) == 3).mean() > 0.8


def test_forgetting_by_key_affects_only_memory() -> None:
    one = learner(ek.DERpp(), memory=100)
    for place, (x, y) in enumerate(images(batches=6)):
        one.learn(x, y, key=f"user {place % 2}")
    x, y = images(seed=1)[0]
    one.learn(x, y, key=list(range(len(x))))
    assert len(one.memory) == 7 * 6
    before = snapshot(one)
    assert one.forget("user 1") == 18
    assert one.forget("user 1") == 0
    assert one.forget(3) == 1
    assert len(one.memory) == 7 * 6 - 19
    assert not any(torch.equal(image, x[3]) for image in one.memory.column("x"))
    changed = differences(before, snapshot(one))
    assert changed
    assert all(path.startswith("/1/memory/columns") for path in changed)
    with pytest.raises(ek.InputError, match="key has 2 entries, but x has 6"):
        one.learn(x, y, key=[1, 2])


def test_replayed_images_are_the_stream_byte_for_byte() -> None:
    """Memory stores the images before augmentation."""
    one = learner(ek.ER(), memory=1000)
    stream = images()
    learn_all(one, stream)
    assert torch.equal(one.memory.column("x"), torch.cat([x for x, _ in stream]))
    assert one.memory.column("x").dtype == torch.uint8


@pytest.mark.parametrize("adaptor", ["none", "cba", "cba-paper"])
@pytest.mark.parametrize("repeats", [1, 2])
def test_stored_logits_are_those_of_the_first_augmented_view_before_its_step(repeats: int, adaptor: str) -> None:
    """DER++ compares later outputs with these logits."""
    one = learner(ek.DERpp(), ADAPTORS[adaptor](), memory=1000, repeats=repeats)
    seen: list[tuple[Tensor, Tensor, Tensor]] = []
    loss = one.method.loss

    def watched(new: ek.View, old: Any) -> Tensor:
        with torch.no_grad():
            seen.append((new.x, one.net.head(new.features.detach()), new.adapted.detach()))
        return loss(new, old)

    one.method.loss = watched  # type: ignore[method-assign]
    for x, y in images():
        seen.clear()
        one.learn(x, y)
        view, plain, _ = seen[0]
        adapted = [entry for entry in seen if entry[0] is view][-1][2]  # an outer step calls first, then the real one
        assert not torch.equal(view, one._inputs.to_network(x))
        assert torch.equal(one.memory.column("logits")[-len(y) :], plain)
        if adaptor == "none":
            assert "adapted" not in one.memory.draw(1, torch.Generator())
        else:
            assert torch.equal(one.memory.column("adapted")[-len(y) :], adapted)


def test_repeats_store_each_sample_once_and_see_new_views() -> None:
    one = learner(ek.ER(), memory=1000, repeats=4)
    views: list[tuple[Tensor, Tensor | None]] = []
    loss = one.method.loss

    def watched(new: ek.View, old: Any) -> Tensor:
        views.append((new.x, old[0].x if old else None))
        return loss(new, old)

    one.method.loss = watched  # type: ignore[method-assign]
    stream = images()
    learn_all(one, stream[:1])
    views.clear()
    record = one.learn(*stream[1])
    assert (record.updates, record.replayed, record.seen, record.stored) == (4, 24, 12, 12)
    for place in range(3):
        assert not torch.equal(views[place][0], views[place + 1][0])
        old, later = views[place][1], views[place + 1][1]
        assert old is not None
        assert later is not None
        assert not torch.equal(old, later)


def test_replay_statistics_only() -> None:
    """The offline variant of the released code: the new batch does not update batch norm's running statistics."""
    one = ek.Learner(ek.convnet(classes=4, width=4), ek.ER(), statistics="replay", memory=10)
    norm = one.net.backbone.get_submodule("1")
    one.learn(*images()[0])
    assert int(norm.get_buffer("num_batches_tracked")) == 0
    one.learn(*images()[1])
    assert int(norm.get_buffer("num_batches_tracked")) == 1
    both = ek.Learner(ek.convnet(classes=4, width=4), ek.ER(), memory=10)
    learn_all(both, images()[:2])
    assert int(both.net.backbone.get_submodule("1").get_buffer("num_batches_tracked")) == 3


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "method": ({"method": ek.ER}, r"Give an instance, such as ER\(\)"),
    "net": ({"net": nn.Linear(2, 2)}, r"Net.split\(model"),
    "replay": ({"replay": 0}, "replay=0 must be a whole number of at least 1"),
    "replay of another kind": ({"replay": 8.0}, "replay=8.0 must be a whole number"),
    "memory": ({"memory": 0}, "memory=0 must be a whole number of at least 1"),
    "memory of another kind": ({"memory": 500.0}, "memory=500.0 must be a whole number"),
    "no memory": ({"memory": None}, "memory=None must be a whole number"),
    "adaptor": ({"adaptor": ek.CBA}, r"Give an instance, such as CBA\(\)"),
    "augment": ({"augment": "crop-flip"}, r"such as CropFlip\(\)"),
    "rate as optimizer": ({"optimizer": 0.1}, "neither an optimizer nor a function"),
    "number of classes": ({"classes": 10}, "classes must be a sequence of labels"),
    "memory text": ({"memory": "8 mega"}, "such as '8MB'"),
    "classes": ({"classes": range(11)}, "11 labels, but the head has only 10 outputs"),
    "classes twice": ({"classes": [1, 1]}, "lists a label twice"),
    "statistics": ({"statistics": "reply"}, "Did you mean 'replay'"),
    "statistics of a joint forward": ({"statistics": "replay", "method": ek.SSIL()}, "this method joins them"),
    "normalize": ({"normalize": ([0.5], [0.0])}, "std above zero"),
    "normalize by one number": ({"normalize": 5}, "two numbers"),
    "normalize by words": ({"normalize": ("mean", "std")}, "two numbers"),
    "normalize by three": ({"normalize": (0.1, 0.2, 0.3)}, "two numbers"),
    "optimizer": ({"optimizer": SGD([nn.Parameter(torch.zeros(1))], lr=1)}, "not the net's"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_settings_raise_a_sentence(fault: str) -> None:
    given, message = WRONG[fault]
    with pytest.raises(ek.SettingsError, match=message):
        ek.Learner(**{"net": ek.mlp(features=2, classes=10), "method": ek.ER(), **given})


def test_parts_with_state_belong_to_one_learner() -> None:
    stateful: list[dict[str, Any]] = [{"method": make()} for make in (ek.CLSER, ek.SSIL, ek.ERACE)]
    for given in (*stateful, {"adaptor": ek.CBA()}, {"memory": ek.Memory(5)}):
        parts: dict[str, Any] = {"method": ek.ER(), **given}
        ek.Learner(ek.mlp(features=2, classes=2), **parts).learn(torch.rand(2, 2), [0, 1])
        with pytest.raises(ek.SettingsError, match=r"already (belongs to a learner|holds samples)"):
            ek.Learner(ek.mlp(features=2, classes=2), **parts)
