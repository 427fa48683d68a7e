"""Additions to torch: temporary modes and buffers, copies and versions of tensors, and a check for finite numbers."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def are_finite(*values: Tensor) -> bool:
    """Return whether all numbers are finite, in one pass over each tensor.

    The minimum and the maximum of numbers are NaN if one of them is. torch.isfinite takes several times as long, and
    this is called in every step and every prediction.
    """
    return all(isfinite(end) for value in values if value.numel() for end in value.detach().aminmax())


def compile_in_place(module: nn.Module) -> None:
    """Compile a module for batches of any size. Copies of it (teachers, snapshots) are not compiled.

    nn.Module.compile does the same, but nothing at all for modules of torch itself, such as nn.Sequential.
    """
    plain: Callable[[Tensor], Any] = module._call_impl

    def call(x: Tensor) -> Any:
        return plain(x)

    # Code of its own: torch compiles one piece of code eight times at most, in all learners of a process.
    call.__code__ = call.__code__.replace(co_name=f"call_{id(module)}")
    module._compiled_call_impl = torch.compile(call, dynamic=True)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on a device, without waiting for what that is computing; on the host, once it is there."""
    return tensor if tensor.device == device else tensor.to(device, non_blocking=device.type != "cpu")


def to_host(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors of a device on the host, which waits for all of them once."""
    parts = [tensor.contiguous().flatten().view(torch.uint8) for tensor in tensors]
    copies = torch.cat(parts).cpu().split([len(part) for part in parts])
    pairs = zip(copies, tensors, strict=True)
    return [copy.clone().view(tensor.dtype).view(tensor.shape) for copy, tensor in pairs]  # aligned, for any dtype


def copied(state: Any) -> Any:
    """Return a copy of nested dicts and lists of tensors and numbers, several times as fast as copy.deepcopy."""
    if isinstance(state, dict):
        return {name: copied(value) for name, value in state.items()}
    if isinstance(state, list):
        return [copied(value) for value in state]
    if isinstance(state, Tensor):
        return state.clone()
    return state if isinstance(state, int | float | str | None) else copy.deepcopy(state)


@contextmanager
def trainable() -> Iterator[None]:
    """Leave the modes of torch that a caller may be in: a tensor made in inference mode can never be trained."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


@torch.no_grad()
def with_rows(tensor: Tensor, rows: int) -> Tensor:
    """Return a tensor with more rows, of zeros. Most calls copy nothing: the storage grows by half at a time."""
    size = (rows, *tensor.shape[1:])
    room = tensor.untyped_storage().nbytes() // tensor.element_size() // max(1, tensor[:1].numel())
    if rows <= room and tensor.is_contiguous() and not tensor.storage_offset():
        return tensor.detach().as_strided(size, tensor.stride())  # what was never used is still zero
    wider = tensor.new_zeros(max(rows, len(tensor) + len(tensor) // 2), *tensor.shape[1:])
    wider[: len(tensor)] = tensor
    return wider[:rows]


@torch.no_grad()
def with_columns(matrix: Tensor, columns: int) -> Tensor:
    """Return a matrix with more columns, of zeros. Most calls copy nothing: rows are made longer by half at a time."""
    width, room = matrix.shape[1], row_length(matrix)
    if columns <= room:
        return matrix.detach().as_strided((len(matrix), columns), (room, 1))  # what was never used is still zero
    return with_row_length(matrix, max(columns, width + width // 2), columns)


@torch.no_grad()
def with_row_length(matrix: Tensor, length: int, columns: int | None = None) -> Tensor:
    """Return a copy of a matrix with rows of this length, of which `columns` are visible, or as many as it has."""
    wider = matrix.new_zeros(len(matrix), length)
    wider[:, : matrix.shape[1]] = matrix
    return wider[:, : matrix.shape[1] if columns is None else columns]


def row_length(matrix: Tensor) -> int:
    """Return how many numbers there are from the beginning of one row to that of the next."""
    return matrix.stride(0) if len(matrix) > 1 and matrix.stride(1) == 1 else matrix.shape[1]


def tensors_of(module: nn.Module) -> list[Tensor]:
    """Return all parameters and buffers, each once, in the same order for every copy of a module.

    `parameters()` and `buffers()` build names for all of them, which takes several times as long as what is done to
    the weights of a small net in each step.
    """
    held = chain.from_iterable((part._parameters.values(), part._buffers.values()) for part in module.modules())
    return list({id(tensor): tensor for tensor in chain.from_iterable(held) if tensor is not None}.values())


def version(module: nn.Module) -> tuple[int, ...]:
    """Return a value that differs after every in-place change of a parameter or buffer."""
    return tuple(number for tensor in tensors_of(module) for number in (id(tensor), tensor_version(tensor)))


def tensor_version(tensor: Tensor) -> int:
    """Return a number that increases with every in-place change; always 0 for a tensor of inference mode."""
    return 0 if tensor.is_inference() else tensor._version


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode, then return every submodule to its own mode (a frozen batch norm stays frozen)."""
    training = [part for part in module.modules() if part.training]
    if training:
        module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def scratch_buffers(module: nn.Module) -> Iterator[None]:
    """Replace the buffers by copies for a while: what a forward writes (running statistics of batch norm) is discarded.

    The copies also keep the graph of such a forward valid: its backward would otherwise read what a later forward
    wrote to the originals.
    """
    originals = [(part, name, buffer) for part in module.modules() for name, buffer in part._buffers.items()]
    for part, name, buffer in originals:
        part._buffers[name] = None if buffer is None else buffer.clone()
    try:
        yield
    finally:
        for part, name, buffer in originals:
            part._buffers[name] = buffer


@contextmanager
def running_statistics(module: nn.Module) -> Iterator[None]:
    """Let batch norm use its running statistics without updating them: a single sample has no batch statistics."""
    norms = [part for part in module.modules() if isinstance(part, _BatchNorm) and part.training]
    for part in norms:
        part.training = False
    try:
        with scratch_buffers(module):
            yield
    finally:
        for part in norms:
            part.training = True


def training_logits(net: nn.Module, x: Tensor, forward: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Return what the net, or `forward` through it, gives for a batch in training; its buffers do not move."""
    with scratch_buffers(net), running_statistics(net) if len(x) == 1 else nullcontext():
        logits: Tensor = (forward or net)(x)
    return logits


@contextmanager
def batch_norm_like(net: nn.Module, copied: nn.Module) -> Iterator[None]:
    """Let batch norm in a copy of `net` use batch statistics, and move its running ones, where it does so in `net`."""
    theirs, ours = ([part for part in one.modules() if isinstance(part, _BatchNorm)] for one in (net, copied))
    modes = [(mine, mine.training) for mine in ours]
    for mine, its in zip(ours, theirs, strict=True):
        mine.training = its.training
    try:
        yield
    finally:
        for mine, mode in modes:
            mine.training = mode


def buffers_but_statistics(module: nn.Module) -> list[Tensor]:
    """Return all buffers but the running statistics of batch norm."""
    parts = [part for part in module.modules() if not isinstance(part, _BatchNorm)]
    return [buffer for part in parts for buffer in part.buffers(recurse=False)]


@torch.no_grad()
def lerp_(here: Sequence[Tensor], there: Sequence[Tensor], share: float) -> None:
    """Move each tensor of `here` by a share of the way to its counterpart; copy what is not made of fractions."""
    pairs = list(zip(here, there, strict=True))
    moved = [(old, new) for old, new in pairs if old.is_floating_point()]
    torch._foreach_lerp_([old for old, _ in moved], [new for _, new in moved], share)
    for old, new in pairs:
        if not old.is_floating_point():
            old.copy_(new)


@torch.no_grad()
def mean_into(mean: Sequence[Tensor], one: Sequence[Tensor], other: Sequence[Tensor]) -> None:
    """Write the mean of two lists of tensors to a third; where it is not made of fractions, a copy of the second."""
    for result, first, second in zip(mean, one, other, strict=True):
        if result.is_floating_point():
            torch.lerp(first, second, 0.5, out=result)
        else:
            result.copy_(second)


def full(values: Tensor) -> Tensor:
    """Return numbers of bf16 as float32; others as they are."""
    return values.float() if values.dtype == torch.bfloat16 else values
