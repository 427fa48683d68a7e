"""A compiled backbone: the same numbers, few compilations, and copies and checkpoints that know nothing of it."""

import copy
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

import evenkeel as ek
from evenkeel.learning.rng import global_seed
from tests.helpers.small_learners import CORRECTIONS, METHODS, PAIRS

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # torch's own, on import
CHEAP = partial(torch.compile, backend="eager")  # all but the code for the machine


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Count from zero, and leave nothing compiled behind."""
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", CHEAP)


def a_learner(method: ek.Method, adaptor: ek.Adaptor | None, *, compile: bool, dtype: torch.dtype) -> ek.Learner:
    with global_seed(0):
        backbone = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
        net = ek.Net(backbone, nn.Linear(4 * 36, 3)).to(dtype)
    return ek.Learner(net, method, adaptor=adaptor, memory=20, replay=6, compile=compile, device="cpu")


def a_batch(count: int, seed: int) -> Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(seed))


def first_step(method: str, adaptor: str, *, compile: bool, dtype: torch.dtype) -> tuple[Tensor, list[Tensor]]:
    """Return the logits of an update and its gradients, with memory in use."""
    learner = a_learner(METHODS[method](), CORRECTIONS[adaptor](), compile=compile, dtype=dtype)
    learner.learn(a_batch(6, 1), [0, 1] * 3)
    logits = learner.logits(a_batch(5, 3))
    learner.learn(a_batch(6, 2), [1, 2] * 3)
    return logits, [weight.grad.clone() for weight in learner.net.parameters() if weight.grad is not None]


def require_close(method: str, adaptor: str, dtype: torch.dtype, tolerance: float) -> None:
    (logits, gradients), (expected, expected_gradients) = (
        first_step(method, adaptor, compile=compile, dtype=dtype) for compile in (True, False)
    )
    assert counters["stats"]["unique_graphs"]
    for one, other in zip([logits, *gradients], [expected, *expected_gradients], strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("method", "adaptor"),
    [
        pytest.param(*pair, marks=[] if pair == ("derpp", "cba") else [pytest.mark.slow])
        for pair in PAIRS
        if METHODS[pair[0]]().trains
    ],
)
@pytest.mark.usefixtures("cheap")
def test_every_method_and_adaptor_learns_the_same(method: str, adaptor: str) -> None:
    require_close(method, adaptor, torch.float64, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
def test_code_for_the_machine_computes_the_same(dtype: torch.dtype, tolerance: float) -> None:
    require_close("er", "cba", dtype, tolerance)


@pytest.mark.usefixtures("cheap")
def test_growth_short_batches_and_predictions_compile_a_few_times() -> None:
    """For training and evaluation, with and without a gradient, and a single sample, which has no batch statistics."""
    learner = a_learner(ek.ER(), ek.CBA(every=1, start="first"), compile=True, dtype=torch.float32)
    for step, count in enumerate((6, 6, 5, 4, 3, 1, 1, 6, 2)):
        learner.learn(a_batch(count, step), [step // 2] * count)
        for asked in (9, 1, 4, 200):
            learner.predict(a_batch(asked, step))
    assert learner.net.outputs > 3
    assert 3 <= counters["stats"]["unique_graphs"] <= 6


@pytest.mark.slow
@pytest.mark.usefixtures("cheap")
def test_learners_of_one_process_do_not_share_the_limit_of_compilations() -> None:
    for _ in range(3):
        counters.clear()
        learner = a_learner(ek.ER(), None, compile=True, dtype=torch.float32)
        for step, count in enumerate((6, 4, 1)):
            learner.learn(a_batch(count, step), [step // 2] * count)
            learner.predict(a_batch(count, step))
        assert counters["stats"]["unique_graphs"] >= 3


@pytest.mark.usefixtures("cheap")
def test_copies_snapshots_and_files_are_not_compiled(tmp_path: Path) -> None:
    learner = a_learner(ek.ER(), None, compile=True, dtype=torch.float32)
    learner.learn(a_batch(6, 1), [0, 1] * 3)
    assert learner.net.backbone._compiled_call_impl is not None
    for net in (copy.deepcopy(learner.net), learner.snapshot().net):
        assert net.backbone._compiled_call_impl is None
    learner.save(tmp_path / "learner")
    again = ek.Learner.load(tmp_path / "learner", net=a_learner(ek.ER(), None, compile=False, dtype=torch.float32).net)
    assert again.compile
    assert again.net.backbone._compiled_call_impl is not None
    x = a_batch(4, 7)
    assert learner.learn(x, [0, 1, 1, 0]) == again.learn(x, [0, 1, 1, 0])
