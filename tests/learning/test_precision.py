"""Training in bf16: forwards and losses only; what is stored, averaged or stepped is in float32. Tests in bf16."""

from collections import Counter
from statistics import fmean
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import evenkeel as ek
from evenkeel.errors import SettingsError
from evenkeel.grids.run_names import run_key
from evenkeel.learning.adaptors import bilevel
from evenkeel.learning.adaptors.bilevel import VirtualStep
from evenkeel.learning.types import Precision
from tests.helpers.cases import thinned
from tests.helpers.small_learners import CORRECTIONS, METHODS, PAIRS, batches, make_net


def learned(method: str, adaptor: str, precision: Precision) -> tuple[ek.Learner, list[float | None], set[torch.dtype]]:
    """Return a learner in its second task, its losses, and the types that its backbone's first layer returned."""
    net, types = make_net(), set[torch.dtype]()
    learner = ek.Learner(
        net, METHODS[method](), adaptor=CORRECTIONS[adaptor](), memory=8, replay=4, precision=precision, device="cpu"
    )
    layer = net.backbone.get_submodule("0")
    handle = layer.register_forward_hook(lambda _module, _given, out: types.add(out.dtype))
    losses = [learner.learn(x, y).loss for x, y in batches([0, 1], 2)]
    handle.remove()
    learner.boundary()
    return learner, losses + [learner.learn(x, y).loss for x, y in batches([2, 3], 2)], types


@pytest.mark.parametrize(("method", "adaptor"), thinned(PAIRS, together=1))
def test_every_method_and_adaptor_learns_nearly_the_same(method: str, adaptor: str) -> None:
    (learner, losses, types), (_, expected, _) = (learned(method, adaptor, each) for each in get_args(Precision)[::-1])
    assert (torch.bfloat16 in types) == learner.method.trains  # predictions are in float32
    for loss, other in zip(losses, expected, strict=True):
        assert loss == (None if other is None else pytest.approx(other, rel=0.05))
    kinds = {each.dtype for each in tree_leaves(learner.state()[1]) if isinstance(each, Tensor)}
    assert torch.bfloat16 not in kinds  # weights, statistics, stored logits, averages, momentum, omega


def test_the_outer_step_is_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set[tuple[torch.dtype, bool]]()
    outer_gradients = VirtualStep.outer_gradients

    def spied(step: VirtualStep, *arguments: object) -> object:
        seen.update((view.logits.dtype, torch.is_autocast_enabled("cpu")) for view in step.groups)
        return outer_gradients(step, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(VirtualStep, "outer_gradients", spied)
    learned("er", "cba as in the paper", "bf16")
    assert seen == {(torch.float32, False)}


def test_only_weights_of_float32_can_be_trained_in_bf16() -> None:
    with pytest.raises(SettingsError, match=r"precision='bf16' is for weights of float32, but .* of float64"):
        ek.Learner(make_net().double(), ek.ER(), precision="bf16", device="cpu")
    with pytest.raises(SettingsError, match=r"precision='fp16' is not one of 'float32', 'bf16'"):
        ek.Learner(make_net(), ek.ER(), precision="fp16", device="cpu")  # type: ignore[arg-type]


def test_precision_and_compilation_are_part_of_a_run_key_unless_they_are_the_default() -> None:
    changes: list[list[str]] = [[], ["learner.precision=bf16"], ["learner.compile=true"]]
    keys = [run_key(ek.load_config("digits", each)) for each in changes]
    assert len(set(keys)) == len(keys)
    default = ["learner.precision=float32", "learner.compile=false"]
    assert run_key(ek.load_config("digits", default)) == keys[0]


@pytest.mark.parametrize("method", METHODS)
def test_scores_in_bf16_are_nearly_the_same_and_change_nothing(method: str) -> None:
    learner, _, types = learned(method, "none", "float32")
    x = torch.cat([x for x, _ in batches([0, 1, 2, 3], 3)])
    exact = learner.logits(x)
    layer = learner._classifier.predictor.backbone.get_submodule("0")  # GDumb has a net of its own
    with layer.register_forward_hook(lambda _module, _given, out: types.add(out.dtype)):
        scores = learner.logits(x, precision="bf16")
    assert torch.bfloat16 in types
    assert scores.dtype == torch.float32
    assert 0 < (scores - exact).abs().max() < 0.05 * exact.abs().max()
    assert torch.equal(learner.logits(x), exact)


def test_a_precision_must_be_known() -> None:
    learner = ek.Learner(make_net(), ek.ER(), device="cpu")
    with pytest.raises(SettingsError, match=r"precision='bf61' is not one of 'float32', 'bf16'\. .*'bf16'"):
        learner.logits(torch.rand(2, 4), precision="bf61")  # type: ignore[arg-type]


def test_a_run_that_is_tested_in_bf16_learns_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Counter[str]()
    logits = ek.Learner.logits

    def spied(learner: ek.Learner, x: object, **options: Any) -> Tensor:
        seen[options["precision"]] += 1
        return logits(learner, x, **options)

    monkeypatch.setattr(ek.Learner, "logits", spied)
    quick = ["limits.train=16", "limits.test=8", "evaluation.prequential=false", "evaluation.every=5"]
    configs = [ek.load_config("digits", [*quick, *more]) for more in ([], ["evaluation.precision=bf16"])]
    runs = [ek.Results.of(ek.run(config)) for config in configs]
    assert seen["bf16"] == seen["float32"] > 6  # the anytime curve, too
    assert [step.loss for step in runs[0].steps] == [step.loss for step in runs[1].steps]
    assert len({run_key(config) for config in configs}) == 2


def mean_accuracy(changes: list[str]) -> float:
    """Return the mean ACC of ten seeds of digits."""
    quick = ["evaluation.every=0", "evaluation.alignment=0", "evaluation.prequential=false"]
    runs = [ek.run(ek.load_config("digits", [*quick, *changes, f"seed={seed}"])) for seed in range(10)]
    ends = [ek.Results.of(run).ended for run in runs]
    return fmean(end.metrics["acc"] or 0 for end in ends if end is not None)


@pytest.mark.slow
def test_ten_seeds_of_digits_are_as_accurate_in_bf16() -> None:
    accuracy = [mean_accuracy([f"learner.precision={precision}"]) for precision in ("bf16", "float32")]
    assert abs(accuracy[0] - accuracy[1]) <= 2


@pytest.mark.slow
def test_ten_seeds_of_digits_are_as_accurate_by_the_closed_form_of_the_outer_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cba = ["adaptor.name=cba"]
    accuracy = [mean_accuracy(cba)]
    monkeypatch.setattr(bilevel, "is_linear", lambda _: False)
    accuracy.append(mean_accuracy(cba))
    assert abs(accuracy[0] - accuracy[1]) <= 1
