"""Additions to torch: the check for finite numbers, and the tensors of a module."""

import copy

import pytest
import torch
from torch import nn

from evenkeel.learning.torch_utils import are_finite, mean_into, tensors_of

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


def test_the_tensors_of_a_module_are_its_parameters_and_buffers_each_once() -> None:
    shared = nn.Linear(3, 3, bias=False)
    net = nn.Sequential(shared, nn.BatchNorm1d(3), nn.Sequential(shared, nn.BatchNorm1d(3, track_running_stats=False)))
    net.register_buffer("again", shared.weight)
    tensors = tensors_of(net)
    assert len(tensors) == len(set(map(id, tensors)))
    assert {*map(id, tensors)} == {*map(id, net.parameters()), *map(id, net.buffers())}
    twin = copy.deepcopy(net)
    names = {id(tensor): name for each in (net, twin) for name, tensor in each.state_dict(keep_vars=True).items()}
    assert [names[id(tensor)] for tensor in tensors_of(twin)] == [names[id(tensor)] for tensor in tensors]


def test_a_mean_is_that_of_fractions_and_a_copy_of_whole_numbers() -> None:
    one, other = [torch.randn(5), torch.tensor([1, 2])], [torch.randn(5), torch.tensor([7, 9])]
    mean = [torch.zeros(5), torch.zeros(2, dtype=torch.int64)]
    mean_into(mean, one, other)
    torch.testing.assert_close(mean[0], (one[0] + other[0]) / 2)
    assert mean[1].tolist() == [7, 9]
