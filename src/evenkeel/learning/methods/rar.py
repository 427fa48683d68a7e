"""Repeated Augmented Rehearsal."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from evenkeel.errors import SettingsError, whole_number
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods.base import Method
from evenkeel.learning.methods.er import ER
from evenkeel.learning.nets import Net
from evenkeel.learning.types import Draw, View

PASSED_ON = (
    *("bound", "joint_forward", "recalls_new", "rehearses", "memory_policy", "held_out", "logit_columns"),
    *("asks_memory", "needs_boundaries", "cosine_head", "no_adaptor", "mixed_passes"),
)


class RAR(Method):
    """Repeated Augmented Rehearsal (Zhang et al. 2022), around any base: `repeats` steps for each incoming batch.

    The learner augments the incoming batch and draws from memory again for every repeat, and stores each sample once.
    The augmentation is the learner's; the paper's is `RandAugment()`. (Not Retrospective Adversarial Replay, which has
    the same abbreviation in other libraries.)

    >>> RAR(ER(), repeats=5)
    RAR(base=ER(joint_forward=False), repeats=5)
    """

    def __init__(self, base: Method | None = None, *, repeats: int = 10) -> None:
        super().__init__()
        self.base = ER() if base is None else base
        if self.base.repeats != 1:
            raise SettingsError(f"base={self.base!r} already repeats; wrap its own base instead.")
        self.repeats = whole_number("repeats", repeats, at_least=1)
        for name in PASSED_ON:
            setattr(self, name, getattr(self.base, name))

    @property
    def draws(self) -> int:  # type: ignore[override]  # ER-ACE's changes with the first boundary
        return self.base.draws

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        self.base.prepare(net, generator)

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return self.base.loss(new, old)

    def query_loss(self, old: Sequence[View]) -> Tensor:
        return self.base.query_loss(old)

    def recall(self, draw: Draw) -> Mapping[str, Tensor]:
        return self.base.recall(draw)

    def remember(self, new: View) -> Mapping[str, Tensor]:
        return self.base.remember(new)

    def grow(self, outputs: int) -> None:
        self.base.grow(outputs)

    def before_step(self, net: Net, new: Draw) -> None:
        self.base.before_step(net, new)

    def after_step(self, net: Net) -> None:
        self.base.after_step(net)

    def boundary(self, net: Net, memory: Memory) -> None:
        self.base.boundary(net, memory)

    def classify(self, net: Net, memory: Memory, x: Tensor) -> Tensor:
        return self.base.classify(net, memory, x)
