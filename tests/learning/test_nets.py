"""Networks: built from a seed, split at the head, and grown without changing a bit."""

import copy
import math
import pickle
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenkeel.errors import SettingsError
from evenkeel.learning.heads import GrowingHead
from evenkeel.learning.nets import Net
from evenkeel.learning.registry import build, named_arguments
from evenkeel.learning.rng import derive
from evenkeel.learning.torch_utils import evaluating, running_statistics, scratch_buffers
from evenkeel.learning.zoo import NETS, convnet, mlp, resnet18


def count(net: nn.Module) -> int:
    return sum(weight.numel() for weight in net.parameters())


def bits(net: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in net.state_dict().items()}


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# ---- our own nets ----


@pytest.mark.parametrize(
    ("classes", "parameters"), [(10, 11_173_962), (100, 11_220_132), (200, 11_271_432)], ids="{}".format
)
def test_resnet18_has_the_size_of_the_papers(classes: int, parameters: int) -> None:
    assert count(resnet18(classes=classes)) == parameters


def test_resnet18_halves_the_image_three_times_and_no_more() -> None:
    """A stem without stride or max-pool: a 32x32 image is 4x4 before the mean, not 1x1 as in ImageNet's ResNet."""
    net = resnet18(classes=2, width=2)
    assert isinstance(net.backbone, nn.Sequential)
    maps = torch.zeros(1, 3, 32, 32)
    shapes = []
    for layer in net.backbone:
        maps = layer(maps)
        shapes.append(tuple(maps.shape[1:]))
    assert shapes[0] == (2, 32, 32)
    assert shapes[3:11:2] == [(2, 32, 32), (4, 16, 16), (8, 8, 8), (16, 4, 4)]


SMALL: dict[str, tuple[Callable[[int], Net], Tensor]] = {
    "resnet18": (lambda seed: resnet18(classes=3, width=4, seed=seed), torch.ones(2, 3, 16, 16)),
    "resnet18-grey": (lambda seed: resnet18(classes=3, width=4, channels=1, seed=seed), torch.ones(2, 1, 8, 8)),
    "convnet": (lambda seed: convnet(classes=3, width=4, seed=seed), torch.ones(2, 1, 8, 8)),
    "mlp": (lambda seed: mlp(features=6, classes=3, hidden=(5, 4), seed=seed), torch.ones(2, 6)),
    "mlp-of-images": (lambda seed: mlp(features=6, classes=3, seed=seed), torch.ones(2, 1, 2, 3)),
    "linear": (lambda seed: mlp(features=6, classes=3, hidden=(), seed=seed), torch.ones(2, 6)),
}


@pytest.mark.parametrize(("make", "x"), SMALL.values(), ids=SMALL)
def test_nets_come_from_their_seed_alone(make: Callable[[int], Net], x: Tensor) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    net = make(0)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    assert equal(bits(net), bits(make(0)))
    assert not equal(bits(net), bits(make(1)))
    assert net(x).shape == (2, 3)


@pytest.mark.parametrize("make", [make for make, _ in SMALL.values()], ids=SMALL)
def test_a_recipe_builds_the_same_net(make: Callable[[int], Net]) -> None:
    net = make(7)
    assert net.recipe is not None
    assert equal(bits(net), bits(build(net.recipe, NETS)))


def test_mlp_has_the_default_weights_of_its_layers() -> None:
    net = mlp(features=6, classes=3, hidden=(5, 4), seed=9)
    with torch.random.fork_rng():
        torch.manual_seed(derive(9, "net"))
        layers = [nn.Linear(6, 5), nn.Linear(5, 4), nn.Linear(4, 3)]
    ours = [layer for layer in net.modules() if isinstance(layer, nn.Linear)]
    for mine, theirs in zip(ours, layers, strict=True):
        assert equal(bits(mine), bits(theirs))


@pytest.mark.parametrize(
    "make", [lambda: resnet18(classes=10, width=16), lambda: convnet(classes=10)], ids=["resnet18", "convnet"]
)
@torch.no_grad()
def test_convolutions_and_norms_have_the_default_weights(make: Callable[[], Net]) -> None:
    """Uniform within 1 / sqrt(fan in) for PyTorch's default; a Kaiming or Xavier pass would be wider or normal."""
    for layer in make().modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            bound = 1 / math.sqrt(layer.weight[0].numel())
            largest, spread = float(layer.weight.abs().max()), float(layer.weight.std())
            assert largest <= bound
            assert spread == pytest.approx(bound / math.sqrt(3), rel=0.1)
        if isinstance(layer, nn.Conv2d):
            assert layer.bias is None
        if isinstance(layer, nn.BatchNorm2d):
            assert bool((layer.weight == 1).all())
            assert bool((layer.bias == 0).all())


# ---- splitting a model at its head ----


class Functional(nn.Module):
    """A model in torchvision's style: layers as attributes, the rest in `forward`."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv(x)))
        x = torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)
        logits: Tensor = self.fc(x)
        return logits


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.classifier = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x))
        return logits


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wrapped = nn.ModuleDict({"model": Nested()})

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.wrapped["model"](x)
        return logits


class Tokens(nn.Module):
    """A model like a vision transformer: it has parameters and buffers of its own, not only in its layers."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(8))
        self.register_buffer("scale", torch.tensor(2.0))
        self.embed = nn.Sequential(nn.Flatten(), nn.Linear(36, 8))
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.tanh(self.embed(x) * self.scale + self.token))
        return logits


class Output(dict[str, Tensor]):
    """A mapping whose entries are also attributes, like Hugging Face's ModelOutput."""

    def __getattr__(self, name: str) -> Tensor:
        return self[name]


class Answering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh())
        self.score = nn.Linear(8, 3, bias=False)

    def forward(self, x: Tensor) -> Output:
        hidden = self.body(x)
        return Output(hidden_states=x, logits=self.score(hidden))


def sequential() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 3))


MODELS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "sequential": (sequential, "3"),
    "functional-forward": (Functional, "fc"),
    "nested": (Nested, "classifier.1"),
    "deep": (Deep, "wrapped.model.classifier.1"),
    "own-parameters": (Tokens, "head"),
    "mapping": (Answering, "score"),
}


def answer(model: nn.Module, x: Tensor) -> Tensor:
    torch.manual_seed(3)  # of dropout
    out = model(x)
    logits: Tensor = out["logits"] if isinstance(out, dict) else out
    return logits


def inputs(samples: int = 5) -> Tensor:
    return torch.randn(samples, 1, 6, 6, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize(("make", "head"), MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_a_split_model_gives_the_same_bits(make: Callable[[], nn.Module], head: str, training: bool) -> None:
    model = make().train(training)
    net = Net.split(copy.deepcopy(model), head=head)
    assert torch.equal(answer(net, inputs()), answer(model, inputs()))


@pytest.mark.parametrize(("make", "head"), MODELS.values(), ids=MODELS)
def test_splitting_leaves_the_model_unchanged(make: Callable[[], nn.Module], head: str) -> None:
    model = make()
    modules, state = list(model.named_modules()), bits(model)
    expected = answer(copy.deepcopy(model), inputs())
    net = Net.split(model, head=head)
    after = list(model.named_modules())
    assert [name for name, _ in modules] == [name for name, _ in after]
    assert all(old is new for (_, old), (_, new) in zip(modules, after, strict=True))
    assert equal(state, bits(model))
    assert torch.equal(answer(model, inputs()), expected)
    assert net.head is model.get_submodule(head)
    assert {id(weight) for weight in net.parameters()} == {id(weight) for weight in model.parameters()}


@pytest.mark.parametrize(("make", "head"), MODELS.values(), ids=MODELS)
def test_the_model_follows_what_its_net_learns_until_the_first_new_output(
    make: Callable[[], nn.Module], head: str
) -> None:
    model = make()
    net = Net.split(model, head=head)
    torch.manual_seed(0)
    F.cross_entropy(net(inputs()), torch.tensor([0, 1, 2, 0, 1])).backward()
    with torch.no_grad():
        for weight in net.parameters():
            assert weight.grad is not None
            weight.sub_(weight.grad, alpha=0.1)
    assert torch.equal(answer(net.eval(), inputs()), answer(model.eval(), inputs()))
    net.grow(5, seed=0)
    assert answer(net, inputs()).shape == (5, 5)
    assert torch.equal(answer(net, inputs())[:, :3], answer(model, inputs()))


@pytest.mark.parametrize(("make", "head"), MODELS.values(), ids=MODELS)
def test_a_copy_of_a_split_net_is_complete(make: Callable[[], nn.Module], head: str) -> None:
    """CLS-ER and SS-IL copy the net."""
    net = Net.split(make(), head=head).eval()
    twin = copy.deepcopy(net)
    before = answer(net, inputs())
    assert torch.equal(answer(twin, inputs()), before)
    with torch.no_grad():
        for weight in twin.parameters():
            weight.zero_()
    assert torch.equal(answer(net, inputs()), before)


@pytest.mark.parametrize(("make", "head"), MODELS.values(), ids=MODELS)
def test_a_split_net_can_be_pickled(make: Callable[[], nn.Module], head: str) -> None:
    """torch.save of a whole module and the workers of a DataLoader pickle it."""
    net = Net.split(make(), head=head).eval()
    before = answer(net, inputs())
    assert torch.equal(answer(pickle.loads(pickle.dumps(net)), inputs()), before)


class Afterthought(Functional):
    def __init__(self, then: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.then = then

    def forward(self, x: Tensor) -> Tensor:
        return self.then(super().forward(x))


AFTERTHOUGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "log-softmax": lambda logits: F.log_softmax(logits, dim=1),
    "temperature": lambda logits: logits / 2,
    "copy": lambda logits: logits.clone(),  # harmless, but cannot be told apart
    "slice": lambda logits: logits[:, :2],
    "in-place": lambda logits: logits.mul_(2),
}


@pytest.mark.parametrize("then", AFTERTHOUGHTS.values(), ids=AFTERTHOUGHTS)
def test_a_model_that_does_something_after_its_head_cannot_be_split(then: Callable[[Tensor], Tensor]) -> None:
    net = Net.split(Afterthought(then))
    with pytest.raises(SettingsError, match=r"does something after its head .* Net\(backbone, head\)"):
        net(inputs())
    encoder = Net.split(Afterthought(then), frozen=True).encoder
    assert encoder is not None
    with pytest.raises(SettingsError, match="does something after its head"):
        encoder(inputs())


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        ("clasifier.1", r"Did you mean 'classifier\.1'\?"),
        ("fc", r"head='fc' is not a linear layer of this Nested\. Its last linear layers: 'features\.1', 'classifier"),
        ("classifier", r"'classifier' is not a linear layer"),
        ("classifier.0", r"'classifier\.0' is not a linear layer"),
        ("", r"head='' is not a linear layer"),
    ],
    ids=["misspelt", "default", "container", "dropout", "empty"],
)
def test_a_wrong_name_of_the_head_is_reported_with_the_right_ones(head: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        Net.split(Nested(), head=head)


def test_a_model_without_a_linear_layer_cannot_be_split() -> None:
    with pytest.raises(SettingsError, match=r"Its last linear layers: none\."):
        Net.split(nn.Sequential(nn.Conv2d(1, 1, 1)))


# ---- heads ----


class Cosine(nn.Module):
    """A user's own head."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.randn(out_features, in_features))

    def forward(self, features: Tensor) -> Tensor:
        return F.linear(F.normalize(features), F.normalize(self.weight))


class Unmeasured(nn.Module):
    out_features = 3


@pytest.mark.parametrize("head", [nn.ReLU(), nn.Sequential(nn.Linear(4, 2))], ids=["relu", "sequential"])
def test_a_head_must_have_out_features(head: nn.Module) -> None:
    with pytest.raises(SettingsError, match=f"The head is a {type(head).__name__}; it must be an nn.Linear, or"):
        Net(nn.Flatten(), head)


def test_a_head_must_have_in_features() -> None:
    with pytest.raises(SettingsError, match="in_features"):
        Net(nn.Flatten(), Unmeasured())


@pytest.mark.parametrize("head", [nn.Linear(7, 2), Cosine(7, 2)], ids=["linear", "own"])
def test_features_must_match_the_head(head: nn.Module) -> None:
    net = Net(nn.Flatten(), head)
    assert net(torch.ones(2, 7)).shape == (2, 2)
    with pytest.raises(SettingsError, match="returns 36 features for each sample, but the head takes 7"):
        net(inputs())


class Several(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


@pytest.mark.parametrize(
    ("backbone", "sentence"),
    [(Several(), "not a tuple"), (nn.Flatten(0), "for each of 5 samples, not 180 rows")],
    ids=["tuple", "rows"],
)
def test_a_backbone_must_return_a_row_for_each_sample(backbone: nn.Module, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        Net(backbone, nn.Linear(36, 2))(inputs())


def test_features_are_flattened() -> None:
    net = Net(nn.Conv2d(1, 2, 5), nn.Linear(8, 3))
    assert net.features(inputs()).shape == (5, 8)
    assert net(inputs()).shape == (5, 3)


def test_a_head_of_a_users_own_cannot_grow() -> None:
    net = Net(nn.Flatten(), Cosine(4, 2))
    with pytest.raises(SettingsError, match="has 2 outputs and a new class needs one more, but a Cosine cannot grow"):
        net.grow(3, seed=0)
    assert net.outputs == 2


# ---- growing ----


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


SHAPES = {
    f"{features}-features-{outputs}-outputs-{number}-threads": (features, outputs, number)
    for features, outputs, number in [
        *product((1, 7, 64, 512), (1, 2, 10, 100), (1,)),
        *product((64, 512), (10, 100), (2,)),
    ]
}


@pytest.mark.parametrize(("features", "outputs", "number"), SHAPES.values(), ids=SHAPES)
def test_old_logits_keep_every_bit(features: int, outputs: int, number: int) -> None:
    """Batch sizes matter: the kernels of a matrix product differ with its shape, and so does their rounding."""
    net = mlp(features=features, classes=outputs, hidden=())
    x = torch.randn(33, features, generator=torch.Generator().manual_seed(5))
    sizes = range(1, 34) if number == 1 else (1, 2, 3, 8, 16, 33)
    with threads(number), torch.inference_mode():
        before = {size: net(x[:size]) for size in sizes}
        for grown in (outputs + 1, outputs + 2, 2 * outputs + 3, 5 * outputs + 7):
            net.grow(grown, seed=grown)
            after = {size: net(x[:size]) for size in sizes}
            for size, logits in before.items():
                assert after[size].shape == (size, grown)
                assert torch.equal(after[size][:, : logits.shape[1]], logits)
            before = after


@pytest.mark.parametrize("first", [1, 2, 10])
def test_a_head_that_grows_one_by_one_has_few_parts(first: int) -> None:
    net = mlp(features=4, classes=first, hidden=())
    for outputs in range(first + 1, 201):
        net.grow(outputs, seed=outputs)
    assert isinstance(net.head, GrowingHead)
    assert len(net.head.parts) <= math.ceil(math.log2(200 / first)) + 1
    assert net.outputs == 200
    assert net.growth == list(range(first + 1, 201))


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_new_outputs_are_new_weights_of_the_same_kind(bias: bool, dtype: torch.dtype) -> None:
    net = Net(nn.Flatten(), nn.Linear(6, 2, bias=bias)).to(dtype)
    before = {id(weight) for weight in net.parameters()}
    new, old = zip(*net.grow(5, seed=3), strict=True)
    assert isinstance(net.head, GrowingHead)
    assert isinstance(net.head.parts[0], nn.Linear)
    assert [id(weight) for weight in old] == [id(weight) for weight in net.head.parts[0].parameters()]
    assert {id(weight) for weight in net.parameters()} == before | {id(weight) for weight in new}
    assert len(new) == (2 if bias else 1)
    assert all(weight.dtype == dtype and weight.requires_grad for weight in new)
    logits = net(torch.randn(4, 6, dtype=dtype, generator=torch.Generator().manual_seed(0)))
    assert logits.shape == (4, 5)
    assert bool((logits[:, 2:] != 0).all())
    logits.sum().backward()
    assert all(weight.grad is not None for weight in net.parameters())


def test_growth_comes_from_its_seed_alone() -> None:
    nets = [mlp(features=6, classes=2, hidden=()) for _ in range(3)]
    before = torch.get_rng_state()
    for net, seed in zip(nets, (3, 3, 4), strict=True):
        net.grow(5, seed=seed)
    assert torch.equal(before, torch.get_rng_state())
    assert equal(bits(nets[0]), bits(nets[1]))
    assert not equal(bits(nets[0]), bits(nets[2]))


def test_spare_rows_are_hidden_and_need_no_new_part() -> None:
    net = mlp(features=6, classes=4, hidden=())
    assert len(net.grow(5, seed=0)) == 2  # a weight and a bias, for four outputs of which one is visible
    assert net(torch.ones(1, 6)).shape == (1, 5)
    shown = net(torch.ones(1, 6))
    assert [net.grow(outputs, seed=outputs) for outputs in (6, 7, 8)] == [[], [], []]
    assert torch.equal(net(torch.ones(1, 6))[:, :5], shown)
    assert len(net.grow(9, seed=0)) == 2


def test_a_head_cannot_grow_smaller() -> None:
    net = mlp(features=6, classes=4, hidden=())
    with pytest.raises(SettingsError):
        net.grow(2, seed=0)


# ---- temporary modes and buffers ----


def with_norms() -> Net:
    """Return a net in training mode whose second batch norm is frozen, with running statistics that have moved."""
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh()
    )
    net = Net(body, nn.Linear(4, 3)).double()
    net(torch.randn(9, 6, dtype=torch.float64) + 1)
    body[4].eval()
    return net


def buffers(net: nn.Module) -> list[tuple[int, Tensor]]:
    return [(id(value), value.clone()) for value in net.buffers()]


def modes(net: nn.Module) -> list[bool]:
    return [part.training for part in net.modules()]


ContextMaker = Callable[[nn.Module], AbstractContextManager[None]]
CONTEXTS: dict[str, ContextMaker] = {
    "evaluating": evaluating,
    "scratch_buffers": scratch_buffers,
    "running_statistics": running_statistics,
}


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_modes_and_buffers_are_restored(context: ContextMaker, fails: bool) -> None:
    net = with_norms()
    before, training = buffers(net), modes(net)
    try:
        with context(net):
            net(torch.randn(7, 6, dtype=torch.float64))
            if fails:
                raise KeyError("in the middle")
    except KeyError:
        assert fails
    after = buffers(net)
    assert modes(net) == training
    assert [place for place, _ in after] == [
        place for place, _ in before
    ]  # the same tensor objects, because an optimizer may hold them
    assert all(torch.equal(old, new) for (_, old), (_, new) in zip(before, after, strict=True))


def test_contexts_set_the_modes_they_promise() -> None:
    net = with_norms()
    first, dropout, second = (net.get_submodule(f"backbone.{place}") for place in (1, 2, 4))
    with evaluating(net):
        assert not any(modes(net))
    with running_statistics(net):
        assert (first.training, dropout.training, second.training) == (False, True, False)
    with scratch_buffers(net):
        assert (first.training, dropout.training, second.training) == (True, True, False)
        inside = buffers(net)
        net(torch.randn(7, 6, dtype=torch.float64))
        moved = [not torch.equal(old, new) for (_, old), (_, new) in zip(inside, buffers(net), strict=True)]
        assert moved == [True, True, True, False, False, False]  # of the norm in training, not of the frozen one


def test_contexts_accept_modules_with_empty_buffers() -> None:
    """Batch norm without running statistics has buffers that are None."""
    norm = nn.BatchNorm1d(3, track_running_stats=False)
    for context in CONTEXTS.values():
        with context(norm):
            norm(torch.randn(4, 3))
    assert norm.running_mean is None
    assert norm.training


def test_the_gradient_of_a_single_sample_is_right_though_statistics_change_later() -> None:
    """The forward of one sample uses running statistics. A later forward overwrites them, and a backward that then
    read them would be silently wrong; so the forward of one sample must use a copy."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh())
    net = Net(body, nn.Linear(4, 3)).double()
    net(torch.randn(9, 6, dtype=torch.float64) + 1)
    one, many = torch.randn(1, 6, dtype=torch.float64), torch.randn(8, 6, dtype=torch.float64) * 3 - 2
    y = torch.randint(3, (8,))

    expected = [torch.zeros_like(weight) for weight in net.parameters()]
    for x, training in ((one, False), (many, True)):  # each loss on its own net, with the current running statistics
        twin = copy.deepcopy(net).train(training)
        gradients = torch.autograd.grad(F.cross_entropy(twin(x), y[: len(x)]), list(twin.parameters()))
        expected = [total + gradient for total, gradient in zip(expected, gradients, strict=True)]

    with running_statistics(net):
        first = net(one)
    loss = F.cross_entropy(first, y[:1]) + F.cross_entropy(net(many), y)
    found = torch.autograd.grad(loss, list(net.parameters()))
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", [name for name, make in NETS.items() if "model" not in named_arguments(make)])
def test_a_recipe_holds_the_name_and_every_argument_of_its_net(name: str) -> None:
    """Without them, a checkpoint would load another network without a word."""
    arguments = {"classes": 2, "seed": 3, **({"features": 4} if "features" in named_arguments(NETS[name]) else {})}
    recipe = NETS[name](**arguments).recipe
    assert recipe is not None
    assert {"name": name, **arguments}.items() <= recipe.items()
    assert recipe.keys() == {"name", *named_arguments(NETS[name])}
