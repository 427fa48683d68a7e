"""The contract of a method: it defines what to minimise over groups of samples."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from evenkeel.errors import SettingsError
from evenkeel.learning.memory import Memory
from evenkeel.learning.nets import Net
from evenkeel.learning.registry import call_text
from evenkeel.learning.types import Draw, View


class Method(nn.Module, ABC):
    """A method defines what to minimise; the learner draws, forwards, steps and stores. Only `loss` is required.

    Settings are keyword arguments of the constructor, kept under the same name. Everything learned must be in
    parameters, buffers, submodules or `get_extra_state`, so that checkpoints contain it; a `Net` among the submodules
    grows with the learner's. Parameters that `prepare` creates are trained with the net, unless they are frozen.

    >>> class Half(Method):
    ...     def loss(self, new, old):
    ...         return cross_entropy(new) + sum(0.5 * cross_entropy(view) for view in old)
    ...     def share_of_new(self, new, old):
    ...         return 1 / (1 + 0.5)
    >>> Half()
    Half()
    """

    title: str = ""  # for tables and reports; the name of the class if empty
    bound: str = ""  # "lower" or "upper" if it is not a method to use, but a bound to compare others with

    draws: int = 1  # memory draws per step
    joint_forward: bool = False  # forward new and old samples as one batch (matters to batch norm)
    second_view: bool = False  # show each sample once more, not augmented, behind the augmented ones of its group (SCR)
    recalls_new: bool = False  # whether `recall` is also called for the incoming batch (for a teacher's outputs)
    trains: bool = True  # whether incoming batches are learned, not only stored (GDumb, which overrides `fitted`)

    rehearses: bool = True  # whether samples are kept in memory at all
    memory_policy: str = "reservoir"  # of the memory, unless the user chooses another
    held: Memory | None = None  # a memory of its own, for samples that are never trained on (BiC)
    logit_columns: tuple[str, ...] = ()  # columns of `remember` with an entry per output: they grow with the head

    asks_memory: bool = False  # whether `classify` reads memory, so that a snapshot needs a copy of it (iCaRL)
    needs_boundaries: bool = False  # whether it only works if `boundary` is called (SS-IL's teacher)
    cosine_head: float = 0.0  # initial scale of the cosine head that replaces a linear one (LUCIR); 0: any head
    no_adaptor: str = ""  # the reason why it cannot be combined with an adaptor, if so
    no_average: str | None = None  # why averaged weights cannot predict; "": they can; None: they can by the head alone
    mixed_passes: int = 0  # passes over all tasks mixed, which a run uses instead of the stream (Joint)

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        """Prepare for the first step: copy the net, or keep the generator for later random draws."""

    def split_memory(self, memory: Memory) -> None:
        """Take a part of the capacity of the learner's empty memory, if needed: `self.held = memory.split(0.1)`."""

    def hold_out(self, x: Tensor, y: Tensor, memory: Memory, generator: torch.Generator) -> Tensor:
        """Return (samples,) which of an incoming batch are not trained on, but go to `held`. Default: none.

        `x` are the samples as they came, before any encoder.
        """
        return torch.zeros_like(y, dtype=torch.bool)

    @abstractmethod
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        """Return the scalar to minimise. Pure: it may be called twice in a step. `old` is empty while the memory is."""

    def query_loss(self, old: Sequence[View]) -> Tensor:
        """Return CBA's outer objective, on fresh draws. Default: mean cross-entropy on plain logits."""
        losses = [F.cross_entropy(view.logits, view.y) for view in old]
        return losses[0] if len(losses) == 1 else torch.stack(losses).mean()

    def share_of_new(self, new: int, old: int) -> float:
        """Return the weight of the new samples' cross-entropy in `loss`, as a share of it and that of the old samples.

        new, old: samples in the incoming batch and in a memory draw. Default: half, for a sum of two means. `Prior`
        mixes the class shares of batch and memory with it.
        """
        return 0.5

    def retrieve(self, net: Net, optimizer: Optimizer, new: Draw, draw: Callable[[int], Draw], count: int) -> Draw:
        """Return the samples to replay, of those that `draw(number)` draws from memory. Default: `count`, unchosen."""
        return draw(count)

    def recall(self, draw: Draw) -> Mapping[str, Tensor]:
        """Return extra columns for a training draw, computed once, without gradient (CLS-ER's teacher).

        Also called for the incoming batch with `recalls_new`; never for the draws of `query_loss`.
        """
        return {}

    def remember(self, new: View) -> Mapping[str, Tensor]:
        """Return extra columns to store with an incoming batch's samples (DER++'s logits). Called once per batch."""
        return {}

    def grow(self, outputs: int) -> None:
        """Widen buffers with an entry per output: the head has `outputs` now, as does each `Net` of the submodules."""

    @property
    def acts_before_loss(self) -> bool:
        """Return whether a method has a `before_step` or a `recall` of its own, which may write to the head."""
        own, none = type(self), Method
        return own.before_step is not none.before_step or own.recall is not none.recall

    def before_step(self, net: Net, new: Draw) -> None:
        """Act before the forward passes of each update: initialise rows of new classes, say (LUCIR's imprint)."""

    def after_step(self, net: Net) -> None:
        """Act after each optimizer step: update averages, say."""

    def boundary(self, net: Net, memory: Memory) -> None:
        """Act at the end of a task: copy a teacher, or fit a correction on `memory.samples()` or `self.held`."""

    def fitted(self, net: Net, memory: Memory) -> Net:
        """Return the net that `classify` is given; keep it until `net` or `memory` change (GDumb). Default: `net`."""
        return net

    def classify(self, net: Net, memory: Memory, x: Tensor) -> Tensor:
        """Return (n, outputs) scores for prediction; the largest wins."""
        logits: Tensor = net(x)
        return logits

    def exported(self, net: Net, memory: Memory) -> nn.Module:
        """Return a module that maps network inputs to the scores of `classify`, for a file that holds no memory.

        It is called on a copy. Default: `classify` itself; override it if that reads memory (iCaRL).
        """
        if self.asks_memory:
            raise SettingsError(
                f"{self!r} predicts from its memory, which an exported file does not hold. Implement `exported` in "
                f"{type(self).__name__}: it returns a module that predicts the same without memory."
            )
        return _Classify(self, net)

    def __repr__(self) -> str:
        return call_text(self)


class _Classify(nn.Module):
    """The rule by which a method predicts, as a module."""

    def __init__(self, method: Method, net: Net) -> None:
        super().__init__()
        self.method, self.net, self.memory = method, net, Memory(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.method.classify(self.net, self.memory, x)


def cross_entropy(view: View) -> Tensor:
    """Return the mean cross-entropy on the adapted logits: the term that an adaptor corrects."""
    return F.cross_entropy(view.adapted, view.y)


def sum_of_cross_entropies(_method: Method, new: View, old: Sequence[View]) -> Tensor:
    """Return the `loss` of a method that minimises the cross-entropies of all groups and nothing else.

    An outer step recognises this function, and knows its gradient in closed form.
    """
    loss = cross_entropy(new)
    for view in old:
        loss = loss + cross_entropy(view)
    return loss
