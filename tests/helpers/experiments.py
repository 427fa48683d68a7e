"""Small data and configs for runs."""

from collections.abc import Mapping
from typing import Any

import torch

import evenkeel as ek
from tests.helpers.streams import images


def small_data(train: int = 12, test: int = 5) -> ek.DataSet:
    """Return four classes of noisy patterns."""
    x, y = [], []
    for seed, n in ((1, train), (2, test)):
        stream = images(batches=4 * n, size=1, tasks=4, seed=0)
        noise = torch.Generator().manual_seed(seed)
        shift = torch.randint(-20, 21, (4 * n, 1, 8, 8), generator=noise)
        x.append((torch.cat([batch for batch, _ in stream]) + shift).clamp(0, 255).to(torch.uint8))
        y.append([label for _, labels in stream for label in labels])
    return ek.DataSet.of(x[0], y[0], x[1], y[1], classes=["ant", "bee", "cat", "dog"], name="small")


DATA = small_data()


def config(*overrides: str, **parts: Mapping[str, Any]) -> ek.Config:
    base: dict[str, Any] = {
        "scenario": {"name": "disjoint", "tasks": 2},
        "batches": {"size": 6},
        "net": {"name": "convnet", "width": 4},
        "memory": {"capacity": 10},
        "learner": {"replay": 6},
        "augment": {"name": "crop-flip", "padding": 1},
        "evaluation": {"every": 2, "sample": 12, "alignment": 2},
    }
    return ek.load_config(base | parts, overrides)
