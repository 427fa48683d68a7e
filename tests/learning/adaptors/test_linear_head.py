"""The outer gradient of a linear head by its closed form, next to the general way through any head."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

from evenkeel import CBA, ER, Method
from evenkeel.learning.adaptors import bilevel
from evenkeel.learning.adaptors.bilevel import VirtualStep, is_linear
from evenkeel.learning.heads import CosineHead, GrowingHead
from evenkeel.learning.nets import Net
from evenkeel.learning.types import View
from tests.helpers.outer_gradient import assert_close

FEATURES, OUTPUTS = 6, 4


def linear(*, bias: bool = True) -> nn.Linear:
    return nn.Linear(FEATURES, OUTPUTS, bias=bias)


def grown(first: nn.Linear | CosineHead) -> GrowingHead:
    head = GrowingHead(first)
    head.grow(OUTPUTS + 1, seed=0)  # with spare rows
    return head


def frozen(name: str) -> nn.Linear:
    head = linear()
    head.get_parameter(name).requires_grad_(False)
    return head


HEADS: dict[str, Callable[[], nn.Module]] = {
    "linear": linear,
    "no bias": partial(linear, bias=False),
    "grown": lambda: grown(linear()),
    "grown, no bias": lambda: grown(linear(bias=False)),
    "frozen bias": lambda: frozen("bias"),
    "frozen weight": lambda: frozen("weight"),
}


def a_view(head: nn.Module, count: int) -> View:
    features, y = torch.randn(count, FEATURES, dtype=torch.float64), torch.randint(OUTPUTS, (count,))
    logits = head(features)
    return View(features, y, {}, features, logits, logits, logits)


class Doubled(ER):
    """ER with losses of its own, whose gradients have no closed form here."""

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return 2 * super().loss(new, old)

    def query_loss(self, old: Sequence[View]) -> Tensor:
        return super().query_loss(old) * 3


@pytest.mark.parametrize("sizes", [(3, 5, 7), (4, 4, 7, 7), (4, 4, 6, 7)], ids=str)
@pytest.mark.parametrize("method", [ER(), Doubled()], ids=["cross-entropies", "own losses"])
@pytest.mark.parametrize("through", [True, False], ids=["through", "constant"])
def test_the_gradient_of_a_linear_head_is_that_of_the_general_way(
    sizes: Sequence[int], method: ER, through: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_same(linear(), monkeypatch, method=method, sizes=sizes, through=through)


@pytest.mark.parametrize("moved", ["all", "weight only"])
@pytest.mark.parametrize("name", HEADS)
def test_so_is_that_of_any_head_of_linear_parts(name: str, moved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for through in (True, False):
        require_same(HEADS[name](), monkeypatch, moved=moved, through=through)


def require_same(
    head: nn.Module,
    monkeypatch: pytest.MonkeyPatch,
    *,
    through: bool,
    moved: str = "all",
    method: Method | None = None,
    sizes: Sequence[int] = (3, 5, 7),
) -> None:
    """Compare the two ways; `sizes` are those of two groups and of the views of the outer loss."""
    torch.manual_seed(0)
    head, method = head.double(), method or ER()
    weights = [weight for weight in head.parameters() if weight.requires_grad]
    optimizer = SGD(weights[: None if moved == "all" else 1], lr=0.5, momentum=0.9, nesterov=True, weight_decay=0.1)
    head(torch.randn(3, FEATURES, dtype=torch.float64)).square().sum().backward()
    optimizer.step()
    cba = CBA(hidden=(5,), input="logits", through=through)
    cba.attach(Net(nn.Identity(), head), optimizer, seed=0)
    new, old, *views = (a_view(head, size) for size in sizes)
    step = VirtualStep(method, head, optimizer, [new, old], partial(cba._adapted, learning=True), through)
    omega = list(cba.g.parameters())
    assert is_linear(head)
    results = []
    for closed in (True, False):
        monkeypatch.setattr(bilevel, "is_linear", lambda _, closed=closed: closed)
        results.append(step.outer_gradients(method.query_loss, views, omega))
    (loss, gradients), (expected_loss, expected) = results
    assert float(loss.detach()) == pytest.approx(float(expected_loss.detach()), rel=1e-14)
    closed_form, general = ([one for one in each if one is not None] for each in (gradients, expected))
    assert len(closed_form) == len(omega)
    assert_close(closed_form, general, 1e-13)


class Sharpened(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * F.linear(input, self.weight, self.bias)


def hooked() -> nn.Linear:
    head = linear()
    head.register_forward_hook(lambda *_: None)
    return head


@pytest.mark.parametrize(
    "head",
    [
        Sharpened(FEATURES, OUTPUTS),
        CosineHead(FEATURES, OUTPUTS),
        grown(CosineHead(FEATURES, OUTPUTS)),
        hooked(),
        GrowingHead(hooked()),
        nn.utils.parametrizations.weight_norm(linear()),
    ],
    ids=["subclass", "cosine", "grown cosine", "hook", "hook in a part", "weight norm"],
)
def test_a_head_that_does_more_takes_the_general_way(head: nn.Module) -> None:
    assert not is_linear(head)
