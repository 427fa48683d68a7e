"""Where a net computes: devices by name, a net moved to one with its optimizer, and what differs between them."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn
from torch.optim import Optimizer

from evenkeel.errors import DeviceError, SettingsError, nearest
from evenkeel.learning.types import Precision

AUTO, CPU = "auto", "cpu"
ACCELERATORS: dict[str, Callable[[], int]] = {"cuda": torch.cuda.device_count, "mps": torch.mps.device_count}
"""How many devices there are of each kind; "auto" takes the first of them."""


def require_name(name: object) -> str:
    """Return the name of a device; raise SettingsError unless it is one, whether this machine has that device or not.

    >>> require_name("cuda:1")
    'cuda:1'
    """
    choices = [AUTO, CPU, *ACCELERATORS]
    kind, colon, index = str(name).partition(":")
    if kind not in choices or (colon and (kind not in ACCELERATORS or not index.isdigit())):
        names = ", ".join(map(repr, choices))
        raise SettingsError(f"device={str(name)!r} is not one of {names}, or 'cuda:1', say.{nearest(kind, choices)}")
    return str(name)


def find_device(name: object, net: nn.Module | None = None) -> torch.device:
    """Return the device of a name; raise DeviceError if this machine lacks it.

    "auto" is where the net is, if that is no CPU; else an accelerator, if there is one; else the CPU.
    """
    kind, _, index = require_name(name).partition(":")
    if kind == AUTO:
        here = torch.device(CPU) if net is None else next(net.parameters()).device
        if here.type != CPU:
            return here
        kind = next((each for each, count in ACCELERATORS.items() if count()), CPU)
    if kind == CPU:
        return torch.device(CPU)
    count = ACCELERATORS[kind]()
    if int(index or 0) >= count:
        there = f"has only {count} of them" if count else "has none that this torch can use"
        raise DeviceError(
            f"device={str(name)!r} is not available: this machine {there}. Choose 'auto', which takes what there is, "
            "or 'cpu'."
        )
    if kind == "cuda":  # before the first product: without it, cuBLAS may sum in another order each time
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return torch.device(kind, int(index or 0))


def move(net: nn.Module, optimizer: Optimizer, device: torch.device) -> None:
    """Move a net, and whatever its optimizer has learned of it. The optimizer may be the user's own, and stays it."""
    before = list(net.parameters())
    if all(weight.device == device for weight in before):
        return
    state = optimizer.state_dict()
    net.to(device)
    moved = {id(old): new for old, new in zip(before, net.parameters(), strict=True)}
    for group in optimizer.param_groups:
        group["params"] = [moved.get(id(weight), weight) for weight in group["params"]]
    optimizer.state.clear()
    optimizer.load_state_dict(state)  # moves what belongs next to the weights


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Compute in bf16 what may be, if that is the precision; everything outside of it is in float32."""
    return nullcontext() if precision == "float32" else torch.autocast(device.type, torch.bfloat16)


@contextmanager
def computing(device: torch.device) -> Iterator[None]:
    """Compute on a device: in a fixed order where it has one, and with a sentence if its memory is exhausted."""
    if device.type == CPU:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise DeviceError(
            f"The memory of {str(device)!r} is exhausted. Smaller batches, draws (replay) or networks need less, other "
            "processes may use it too, and device='cpu' needs none of it."
        ) from error
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
