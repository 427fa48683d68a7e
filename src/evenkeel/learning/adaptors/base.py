"""The contract of an adaptor: it corrects logits while a network is trained, and is not used for prediction."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from evenkeel.learning.memory import Memory
from evenkeel.learning.methods.base import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.registry import call_text
from evenkeel.learning.torch_utils import copied
from evenkeel.learning.types import View


class Adaptor(ABC):
    """An adaptor corrects the logits that a method's loss sees, whatever the method. Only `correct` is required.

    In each update the learner calls `observe`; then `update`, if it is `due`; then `correct` for each group of samples;
    and, once the network has made its step, `after_step`. If the update is refused before that (a number overflows,
    say), the learner restores the adaptor's state. Settings are keyword arguments of the constructor, kept under the
    same name. Everything learned must be in `state_dict`.

    >>> from dataclasses import replace
    >>> class Half(Adaptor):
    ...     def correct(self, view, *, learning=False):
    ...         return replace(view, adapted=view.logits / 2)
    >>> Half()
    Half()
    """

    title: str = ""  # for tables and reports; the name of the class if empty
    needs_boundaries: bool = False  # whether it only works if `boundary` is called

    joint: bool = False  # whether it is trained in the network's own step, by the same loss, instead of by `update`
    uses_query: bool = False  # whether training it takes fresh memory draws: for `update`, or for the joint loss

    def attach(self, net: Net, optimizer: Optimizer, seed: int) -> None:
        """Prepare for the first update of a learner with this net and its optimizer."""

    def observe(self, method: Method, groups: Sequence[View], memory: Memory) -> None:
        """Take note of an update before it is made: the labels of the new group, which is the first, and of the old."""

    def due(self, y: Tensor, memory: Memory) -> bool:
        """Return whether it is trained in this update; `y` are the outputs of the incoming batch, on the host."""
        return False

    def update(
        self, method: Method, head: nn.Module, optimizer: Optimizer, groups: Sequence[View], query: Sequence[View]
    ) -> Tensor | float | None:
        """Take a training step of its own, before the network's, and return its loss for the record.

        If the loss is a tensor, the learner reads it together with its own numbers, so that the host waits once; if it
        is not finite, the update is refused. The features of `groups` are to be used as constants. `query` has fresh
        memory draws, forwarded without gradient, if it `uses_query`.
        """
        return None

    @abstractmethod
    def correct(self, view: View, *, learning: bool = False) -> View:
        """Return the view with other `adapted` logits. What it has learned is a constant, unless it is `learning` now.

        Replace `comparable` too, by what may be stored with a sample and compared with its replay: not an offset that
        has changed by then. (It is learning if it is `joint` and due: then the network's loss must have a gradient for
        it.)
        """

    def after_step(self, *, learned: bool) -> None:
        """Act after the network's step: count it, or take a step, if it has `learned` jointly and so has gradients."""

    def boundary(self) -> None:
        """Act at the end of a task."""

    def grow(self, outputs: int) -> None:
        """Widen whatever has an entry per output: the head has `outputs` now."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes, for checkpoints: nested dicts and lists of tensors and numbers."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, and drop gradients that a refused update may have left."""

    def backup(self) -> Mapping[str, Any] | None:
        """Return what `restore` needs if an update is refused; None if the state cannot change before its step."""
        state: dict[str, Any] = copied(self.state_dict())
        return state

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Return to the state of a `backup`."""
        self.load_state_dict(kept)

    def __repr__(self) -> str:
        return call_text(self)
