"""What torch lacks: modes and buffers for a while, versions of tensors, and a fast check for finite numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from math import isfinite

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def are_finite(*values: Tensor) -> bool:
    """Return whether all numbers are finite, in one pass over each tensor.

    The least and the largest of numbers are NaN if one of them is. torch.isfinite takes several times as long, and
    this is called in every step and every prediction.
    """
    return all(isfinite(end) for value in values if value.numel() for end in value.detach().aminmax())


def version(module: nn.Module) -> tuple[int, ...]:
    """Another value after each change of a parameter or buffer in place."""
    held = chain(module.parameters(), module.buffers())
    return tuple(number for tensor in held for number in (id(tensor), tensor_version(tensor)))


def tensor_version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode, then every submodule back to the mode it was in (a frozen batch norm stays frozen)."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


@contextmanager
def scratch_buffers(module: nn.Module) -> Iterator[None]:
    """Copies of the buffers for a while: what a forward writes (running statistics of batch norm) is thrown away.

    Copies also serve the graph of such a forward, which would otherwise read, in its backward, what a later forward
    wrote over the originals.
    """
    kept = [(part, name, buffer) for part in module.modules() for name, buffer in part._buffers.items()]
    for part, name, buffer in kept:
        part._buffers[name] = None if buffer is None else buffer.clone()
    try:
        yield
    finally:
        for part, name, buffer in kept:
            part._buffers[name] = buffer


@contextmanager
def running_statistics(module: nn.Module) -> Iterator[None]:
    """Batch norm by its running statistics, which stay as they are: a group of one sample has no others."""
    norms = [part for part in module.modules() if isinstance(part, _BatchNorm) and part.training]
    for part in norms:
        part.training = False
    try:
        with scratch_buffers(module):
            yield
    finally:
        for part in norms:
            part.training = True
