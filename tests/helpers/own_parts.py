"""A module of a user's own parts, in a folder of its own, and registries that are as before afterwards."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenkeel.config.schema import PARTS

SMALL: dict[str, Any] = {
    "scenario": {"name": "disjoint", "tasks": 2},
    "batches": {"size": 8},
    "memory": {"capacity": 8},
    "learner": {"replay": 4},
    "evaluation": {"every": 0, "alignment": 0},
    "threads": 1,
}
MODULE = """
import zlib
from dataclasses import replace

import numpy as np
import torch
from torch import nn

import evenkeel as ek


class Cautious(ek.Method):
    def __init__(self, *, share: float | None = 0.5):
        super().__init__()
        self.share = share

    def loss(self, new, old):
        share = 1 if self.share is None else self.share
        return share * ek.cross_entropy(new) + sum(ek.cross_entropy(view) for view in old)


class Half(ek.Adaptor):
    def correct(self, view, *, learning=False):
        return replace(view, adapted=view.logits / 2)


class Shift:
    def __init__(self, *, by=1):
        self.by = by

    def __call__(self, x, generator):
        return x.roll(self.by, dims=-1)


def build(*, classes, features, hidden=8):  # neither annotated nor seeded
    body = nn.Sequential(nn.Flatten(), nn.Linear(features, hidden), nn.Dropout(0.1), nn.ReLU())
    return ek.Net(body, nn.Linear(hidden, classes))


def encoder(*, features, width: int | None = 6):  # random, as the seed of the run says
    return nn.Sequential(nn.Flatten(), nn.Linear(features, width or features), nn.Dropout(0.5))


def fronted(*, classes, features):
    torch.manual_seed(0)
    front = nn.Sequential(nn.Flatten(), nn.Linear(features, 6), nn.BatchNorm1d(6))
    return ek.Net(nn.Linear(6, 8), nn.Linear(8, classes), encoder=front)


class Words(ek.TextModule):
    def __init__(self, width):
        super().__init__()
        self.weights = nn.Embedding(64, width)

    def forward(self, texts):
        rows = [torch.tensor([zlib.crc32(word.encode()) % 64 for word in text.split()] or [0]) for text in texts]
        return torch.stack([self.weights(row).mean(dim=0) for row in rows])


def words(*, width=6):
    return Words(width)


def of_texts(*, classes):
    torch.manual_seed(0)
    return ek.Net(nn.Linear(6, 8), nn.Linear(8, classes), encoder=Words(6))


def patterns(*, samples=8):
    random = np.random.default_rng(0)
    y = np.arange(4 * samples) % 4
    x = (60 * y[:, None, None, None] + random.integers(20, size=(len(y), 1, 4, 4))).astype(np.uint8)
    return ek.DataSet.of(x, y, x[:8], y[:8], name="patterns")


class Fails(Cautious):
    def loss(self, new, old):
        return new.nothing


class CannotBeCreated(Cautious):
    def __init__(self):
        super().__init__()
        self.share = 1 / 0


def returns_a_module(*, classes):
    return nn.Linear(4, classes)


def returns_arrays():
    return [1, 2]
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module in the working folder, which only this test has."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    path, registries = list(sys.path), {kind: dict(each.registry) for kind, each in PARTS.items()}
    yield name
    sys.path[:] = path
    sys.modules.pop(name, None)
    for kind, before in registries.items():
        registry = PARTS[kind].registry
        assert isinstance(registry, dict)
        registry.clear()
        registry.update(before)
