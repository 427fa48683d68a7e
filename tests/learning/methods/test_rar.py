"""RAR."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from tests.helpers.methods import (
    NEW,
    OLD,
    linear_net,
    seeded,
)
from torch import Tensor

from evenkeel import (
    ER,
    RAR,
    Memory,
    Method,
)
from evenkeel.errors import SettingsError
from evenkeel.learning.types import Draw, View

# ---- RAR ----


class Recording(Method):
    """A method that returns its own values from every hook and records the calls."""

    bound = "lower"
    draws = 3
    joint_forward = True
    recalls_new = True
    rehearses = False
    memory_policy = "balanced"
    held_out = 0.25
    logit_columns = ("mine",)
    asks_memory = True
    needs_boundaries = True
    cosine_head = 3.0
    no_adaptor = "of me"
    mixed_passes = 2

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Any, ...]] = []

    def prepare(self, *given: Any) -> None:
        self.asked.append(("prepare", *given))

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        self.asked.append(("loss", new, old))
        return torch.tensor(1.0)

    def query_loss(self, old: Sequence[View]) -> Tensor:
        self.asked.append(("query_loss", old))
        return torch.tensor(2.0)

    def recall(self, draw: Draw) -> Mapping[str, Tensor]:
        self.asked.append(("recall", draw))
        return {"recalled": torch.tensor(3.0)}

    def remember(self, new: View) -> Mapping[str, Tensor]:
        self.asked.append(("remember", new))
        return {"mine": torch.tensor(4.0)}

    def grow(self, outputs: int) -> None:
        self.asked.append(("grow", outputs))

    def before_step(self, *given: Any) -> None:
        self.asked.append(("before_step", *given))

    def after_step(self, *given: Any) -> None:
        self.asked.append(("after_step", *given))

    def boundary(self, *given: Any) -> None:
        self.asked.append(("boundary", *given))

    def classify(self, *given: Any) -> Tensor:
        self.asked.append(("classify", *given))
        return torch.tensor(5.0)


def test_rar_leaves_everything_but_the_repeats_to_its_base() -> None:
    base = Recording()
    method = RAR(base, repeats=4)
    assert (method.repeats, method.draws, method.joint_forward, method.logit_columns) == (4, 3, True, ("mine",))
    net, generator, memory, draw = linear_net(), seeded(), Memory(3), Draw(NEW.x, NEW.y)
    method.prepare(net, generator)
    assert method.loss(NEW, OLD) == 1
    assert method.query_loss(OLD) == 2
    assert method.recall(draw) == {"recalled": 3}
    assert method.remember(NEW) == {"mine": 4}
    method.grow(9)
    method.before_step(net, draw)
    method.after_step(net)
    method.boundary(net, memory)
    assert method.classify(net, memory, NEW.x) == 5
    expected = [
        ("prepare", net, generator),
        ("loss", NEW, OLD),
        ("query_loss", OLD),
        ("recall", draw),
        ("remember", NEW),
        ("grow", 9),
        ("before_step", net, draw),
        ("after_step", net),
        ("boundary", net, memory),
        ("classify", net, memory, NEW.x),
    ]
    assert [tuple(map(id, call[1:])) for call in base.asked] == [tuple(map(id, call[1:])) for call in expected]
    assert [call[0] for call in base.asked] == [call[0] for call in expected]
    places = {name: value for name, value in vars(Method).items() if not name.startswith("_")}
    hooks = {name for name, value in places.items() if callable(value)}
    assert hooks == {call[0] for call in expected}  # a hook added to Method must be passed on, and be listed here
    for name in places.keys() - hooks - {"title", "repeats"}:
        assert getattr(method, name) == getattr(base, name) != places[name], name


def test_rar_refuses_invalid_settings() -> None:
    with pytest.raises(SettingsError, match="repeats=0 must be a whole number of at least 1"):
        RAR(repeats=0)
    with pytest.raises(SettingsError, match="already repeats; wrap its own base instead"):
        RAR(RAR(ER(), repeats=2))
