"""The contract of a method: what to minimise over the groups of samples it is shown."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenkeel.learning.memory import Memory
from evenkeel.learning.nets import Net
from evenkeel.learning.registry import call_text
from evenkeel.learning.types import Draw, View


class Method(nn.Module, ABC):
    """A method says what to minimise; the learner draws, forwards, steps and stores. Only `loss` is required.

    Settings are keyword arguments of the constructor, kept under the same name. Everything learned must be in
    parameters, buffers or submodules, so that checkpoints hold it; a `Net` among them grows with the learner's.

    >>> class Half(Method):
    ...     def loss(self, new, old):
    ...         return cross_entropy(new) + sum(0.5 * cross_entropy(view) for view in old)
    >>> Half()
    Half()
    """

    title: str = ""  # in tables and reports; the name of the class if empty
    bound: str = ""  # "lower" or "upper" for what is no method to use, but a bound to hold others against

    draws: int = 1  # memory draws per step
    repeats: int = 1  # steps per incoming batch (RAR)
    joint_forward: bool = False  # new and old through the net as one batch (matters to batch norm)
    recalls_new: bool = False  # whether `recall` is asked about the incoming batch too (a teacher's word on it)

    rehearses: bool = True  # whether samples are kept in memory at all
    memory_policy: str = "reservoir"  # of the memory, unless the user says otherwise
    held_out: float = 0.0  # share of stream and memory that is never trained on, for `boundary` to fit on (BiC)
    logit_columns: tuple[str, ...] = ()  # columns of `remember` with an entry for each output: they grow with the head

    asks_memory: bool = False  # whether `classify` looks into memory, so that a snapshot needs a copy of it (iCaRL)
    needs_boundaries: bool = False  # whether it waits for `boundary` to be what it is (SS-IL's teacher)
    cosine_head: float = 0.0  # first scale of the cosine head that a linear one is made (LUCIR); 0: any head will do
    no_adaptor: str = ""  # the reason why an adaptor makes no sense with it, if so
    mixed_passes: int = 0  # passes over all tasks mixed, which a run gives it in place of the stream (Joint)

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        """Before the first step: make copies of the net, keep the generator if chance is needed later."""

    @abstractmethod
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        """The scalar to minimise. Pure: it may be called twice in a step. `old` is empty while the memory is."""

    def query_loss(self, old: Sequence[View]) -> Tensor:
        """CBA's outer objective, on fresh draws and the plain head. Default: mean cross-entropy on plain logits."""
        return torch.stack([F.cross_entropy(view.logits, view.y) for view in old]).mean()

    def recall(self, draw: Draw) -> Mapping[str, Tensor]:
        """Extra columns for a training draw, computed once, without gradient (CLS-ER's teacher). Not for the query.

        With `recalls_new`, for the incoming batch too.
        """
        return {}

    def remember(self, new: View) -> Mapping[str, Tensor]:
        """Extra columns to store with the samples of an incoming batch (DER++'s logits). Called once a batch."""
        return {}

    def grow(self, outputs: int) -> None:
        """The head has `outputs` now: widen buffers with an entry for each. A `Net` among the submodules has grown."""

    def before_step(self, net: Net, new: Draw) -> None:
        """Before the forwards of each update: give classes that come for the first time a start (LUCIR's imprint)."""

    def after_step(self, net: Net) -> None:
        """After each optimizer step: move averages, say."""

    def boundary(self, net: Net, memory: Memory) -> None:
        """A task ended: keep a teacher, fit a correction on `memory.samples()` or `memory.held`."""

    def classify(self, net: Net, memory: Memory, x: Tensor) -> Tensor:
        """(n, outputs) scores for prediction; the largest wins."""
        logits: Tensor = net(x)
        return logits

    def __repr__(self) -> str:
        return call_text(self)


def cross_entropy(view: View) -> Tensor:
    """Mean cross-entropy on what the adaptor made of the logits: the term that CBA corrects."""
    return F.cross_entropy(view.adapted, view.y)
