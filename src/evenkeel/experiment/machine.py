"""What kind of machine a run computes on: only between machines of one kind can times be compared."""

import platform
from functools import cache
from pathlib import Path

import torch

PROCESSORS = Path("/proc/cpuinfo")
TELLING = ("model name", "cpu family", "model", "cache size")  # a name alone may stand for several generations


def machine_kind(device: torch.device) -> str:
    """Return the processor, and the accelerator if it computes there: 'AMD EPYC, cpu family 26, model 2, ...'."""
    accelerator = [torch.cuda.get_device_name(device)] if device.type == "cuda" else []
    return ", ".join([_processor(), *accelerator])


@cache
def _processor() -> str:
    try:
        lines = PROCESSORS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        lines = []
    facts = dict[str, str]()
    for name, _, value in (line.partition(":") for line in lines):
        facts.setdefault(name.strip(), value.strip())
    known = [facts[name] if name == TELLING[0] else f"{name} {facts[name]}" for name in TELLING if name in facts]
    return ", ".join(known) or platform.processor() or platform.machine()
