"""ER-ACE: experience replay with asymmetric cross-entropy."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel.errors import SettingsError
from evenkeel.methods.base import Method, cross_entropy
from evenkeel.nets import Net
from evenkeel.types import View


class ERACE(Method):
    """ER-ACE (Caccia et al. 2022): CE(new, old classes left out) + CE(memory).

    The incoming batch competes only with its own classes and with those never seen, so it does not push old classes
    down; memory, which holds all of them, competes with all. "Own" is what is in the batch: no boundary is needed, and
    masking and replay begin with the first batch (in the released CBA code: with the second task, and there every class
    above the highest seen one counts as unseen, none below it).
    """

    title = "ER-ACE"
    seen: Tensor  # (outputs,) whether a class was learned before the present batch

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        if "seen" in self._buffers:
            raise SettingsError("This ERACE already belongs to a learner and knows its classes; make a new one.")
        device = next(net.parameters()).device
        self.register_buffer("seen", torch.zeros(net.outputs, dtype=torch.bool, device=device))

    def grow(self, outputs: int) -> None:
        self.seen = F.pad(self.seen, (0, outputs - len(self.seen)))

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        loss = F.cross_entropy(new.adapted.masked_fill(self.masked(new), torch.finfo(new.adapted.dtype).min), new.y)
        for view in old:
            loss = loss + cross_entropy(view)
        return loss

    def masked(self, new: View) -> Tensor:
        """(outputs,) the classes seen before and absent from the batch."""
        masked = self.seen.clone()
        masked[new.y] = False
        return masked

    def remember(self, new: View) -> Mapping[str, Tensor]:
        self.seen[new.y] = True
        return {}
