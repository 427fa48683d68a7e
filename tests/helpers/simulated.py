"""A simulated accelerator: a device whose tensors refuse to mix with the CPU's, and whose read-backs are counted.

Its tensors are CPU tensors inside, so it computes the same bits. It rests on an experimental interface of torch, which
lets a tensor subclass act as a device. Whatever would make the host wait for a real device is a read-back: reading a
scalar, copying to the CPU, and operations whose result has a shape that only the device knows (`nonzero` and what is
built on it).

torch takes a device for a whole process, before its first backward, whose threads then forbid to fork that process. So
the device is in one process of its own, in which tests with `on_simulated_device` run. It is forked before the first
test: no test module may compute a gradient when it is imported.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

import evenkeel
from evenkeel.learning.devices import ACCELERATORS
from evenkeel.learning.types import StepRecord
from tests.helpers.processes import fork_server

NAME = "sim"
PACKAGE = str(Path(evenkeel.__file__).parent)
WAITING = (  # the host cannot continue before the device has computed these
    "_local_scalar_dense",
    "nonzero",
    "unique_dim",
    "_unique2",
    "_unique",
    "unique_consecutive",
    "unique_dim_consecutive",
    "masked_select",
    "bincount",
    "histc",
    "equal",
    "isin",
    "repeat_interleave",
)
COPIES = ("_to_copy", "copy_")
INDEXED = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")  # a device takes CPU indices, too
_collecting: list[list[str]] = []  # the read-backs since each `read_backs` was entered


class Simulated(Tensor):
    """A tensor on the simulated device."""

    here: Tensor  # the same on the CPU

    @staticmethod
    def __new__(cls, here: Tensor) -> "Simulated":
        made: Simulated = Tensor._make_wrapper_subclass(
            cls,
            here.size(),
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=torch.device(NAME, 0),
            requires_grad=False,
        )
        made.here = here
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, op: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _run(op, args, kwargs or {})


def _run(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = op.name().partition("::")[2].partition(".")[0]
    tensors = [*_tensors(args), *_tensors(kwargs.values())]
    simulated = [each for each in tensors if isinstance(each, Simulated)]
    if simulated and name not in (*COPIES, *INDEXED):
        others = [each for each in tensors if not isinstance(each, Simulated) and each.dim()]
        if others:
            raise RuntimeError(f"{name}: tensors on {NAME} and on the CPU, of shape {tuple(others[0].shape)}")
    target = kwargs.get("device")
    if target is not None:
        target, kwargs = torch.device(target), {**kwargs, "device": torch.device("cpu")}
    if simulated and _waits(name, args, target):
        _note(name)
    out = op(*_mapped(_inner, args), **{name: _mapped(_inner, value) for name, value in kwargs.items()})
    if op._schema.is_mutable and op._schema.returns and len(op._schema.returns) == 1 and name.endswith("_"):
        return args[0]
    here = bool(simulated) if target is None else target.type == NAME
    return _mapped(_wrapped, out) if here else out


def _waits(name: str, args: tuple[Any, ...], target: torch.device | None) -> bool:
    if name in INDEXED:  # by a mask on the device: its rows must be counted first
        masks = [each for each in _tensors(args[1]) if isinstance(each, Simulated)]
        return any(mask.dtype in (torch.bool, torch.uint8) for mask in masks)
    if name == "_to_copy":
        return target is not None and target.type == "cpu"
    return name in WAITING or (name == "copy_" and not isinstance(args[0], Simulated))


def _note(name: str) -> None:
    frame = sys._getframe()
    while frame.f_back is not None and not frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    for read in _collecting:
        read.append(f"{name} in {Path(frame.f_code.co_filename).name}:{frame.f_lineno}")


def _tensors(values: Any) -> Iterator[Tensor]:
    for each in values:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, list | tuple):
            yield from _tensors(each)


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """Do what torch's tree_map does, for what operations take and return, in a fraction of the time."""
    if isinstance(value, list | tuple):
        return type(value)([_mapped(change, each) for each in value])
    return change(value)


def _inner(each: Any) -> Any:
    return each.here if isinstance(each, Simulated) else each


def _wrapped(each: Any) -> Any:
    if not isinstance(each, Tensor) or isinstance(each, Simulated):
        return each
    if not torch.is_inference_mode_enabled():
        return Simulated(each)
    with torch.inference_mode(False):  # a view of a tensor that is not of that mode must not be, either
        return Simulated(each)


def _register() -> None:
    """Turn this process into one that has the device, for learners too."""
    _setup_privateuseone_for_python_backend(NAME)
    _kept.append(torch.library.Library("_", "IMPL"))
    _kept[0].fallback(lambda op, *args, **kwargs: _run(op, args, kwargs), "PrivateUse1")
    ACCELERATORS[NAME] = lambda: 1


_kept: list[torch.library.Library] = []  # torch forgets what nobody keeps


@functools.cache
def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, fork_server(), _register)


def end_process() -> None:
    """End the process that has the device, if a test started it."""
    if _process.cache_info().currsize:
        _process().shutdown()


def on_simulated_device(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test in the process that has the device, with arguments that can be pickled."""

    @functools.wraps(test)
    def elsewhere(**arguments: Any) -> None:
        _process().submit(_undecorated, test.__module__, test.__name__, arguments).result()

    return elsewhere


def _undecorated(module: str, name: str, arguments: dict[str, Any]) -> None:
    torch.manual_seed(0)
    getattr(import_module(module), name).__wrapped__(**arguments)


@contextmanager
def read_backs() -> Iterator[list[str]]:
    """Collect the read-backs of a block, each with the place in the package that caused it."""
    _collecting.append([])
    try:
        yield _collecting[-1]
    finally:
        _collecting.pop()


def require_same(there: Any, here: Any) -> None:
    """Compare nested results. The last bit may differ: torch rounds it by where a tensor begins in memory."""
    leaves = [tree_leaves(each) for each in (there, here)]
    for mine, its in zip(*leaves, strict=True):
        if isinstance(mine, StepRecord):
            require_same(asdict(mine), asdict(its))
        elif isinstance(mine, Tensor):
            torch.testing.assert_close(mine.cpu(), its.cpu(), equal_nan=True)
        else:
            assert mine == (pytest.approx(its, rel=1e-5) if isinstance(its, float) else its)
