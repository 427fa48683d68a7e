"""ER-ACE: experience replay with asymmetric cross-entropy."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel.errors import SettingsError, one_of
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods._teacher import leave_out
from evenkeel.learning.methods.base import Method, cross_entropy
from evenkeel.learning.nets import Net
from evenkeel.learning.types import View


class ERACE(Method):
    """ER-ACE (Caccia et al. 2022): CE(new, old classes left out) + CE(memory).

    The incoming batch competes only with its own classes and with those never seen, so it does not suppress old
    classes; memory, which holds all of them, competes with all. "Own" means in the batch: no boundary is needed, and
    masking and replay start with the first batch. With `task_free=False` both start with the second task, as in the
    released CBA code (which also counts every class from the highest seen one on as unseen, and none below it).

    It was designed for one pass: nothing is read again.
    """

    title = "ER-ACE"
    seen: Tensor  # (outputs,) whether a class was learned before the current batch; on the host
    begun: Tensor  # () whether it masks and replays

    def __init__(self, *, task_free: bool = True) -> None:
        super().__init__()
        one_of("task_free", task_free, (True, False))
        self.task_free = bool(task_free)
        self.needs_boundaries = not task_free
        self.register_buffer("begun", torch.tensor(self.task_free))

    @property
    def draws(self) -> int:  # type: ignore[override]
        return int(self.begun)

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        if "seen" in self._buffers:
            raise SettingsError("This ERACE already belongs to a learner and knows its classes; create a new one.")
        self.register_buffer("seen", torch.zeros(net.outputs, dtype=torch.bool))

    def grow(self, outputs: int) -> None:
        self.seen = F.pad(self.seen, (0, outputs - len(self.seen)))

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        loss = F.cross_entropy(leave_out(new.adapted, self.masked(new)), new.y)
        for view in old:
            loss = loss + cross_entropy(view)
        return loss

    def masked(self, new: View) -> Tensor:
        """Return (outputs,) the classes seen before and absent from the batch."""
        masked = self.seen & self.begun
        masked[new.y_host] = False
        return masked

    def remember(self, new: View) -> Mapping[str, Tensor]:
        self.seen[new.y_host] = True
        return {}

    def boundary(self, net: Net, memory: Memory) -> None:
        self.begun |= self.seen.any()
