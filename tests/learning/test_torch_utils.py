"""A single value that is not finite is detected at any position, in every dtype that a network may have."""

import pytest
import torch

from evenkeel.learning.torch_utils import are_finite

KINDS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_one_value_that_is_not_finite_is_detected(kind: torch.dtype, bad: float) -> None:
    for size in (1, 2, 7, 33, 384, 5_000):  # with and without vector instructions
        for place in {0, size // 3, size - 1}:
            values = torch.randn(size).to(kind)
            assert are_finite(values)
            values[place] = bad
            assert not are_finite(values)
            assert not are_finite(torch.ones(3), values)
            assert not are_finite(values.requires_grad_())


def test_other_tensors_of_a_network_are_finite() -> None:
    assert are_finite(torch.empty(0, 4), torch.tensor(3), torch.tensor([True, False]), torch.ones(2, 3)[:, ::2])
    assert are_finite()
    assert not are_finite(torch.tensor(float("nan")))
