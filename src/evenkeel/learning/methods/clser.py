"""CLS-ER: experience replay with a slow and a slower moving average of the working net."""

import copy
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel.errors import SettingsError, one_of
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods.base import Method, cross_entropy
from evenkeel.learning.nets import Net
from evenkeel.learning.torch_utils import batch_norm_like, buffers_but_statistics, lerp_
from evenkeel.learning.types import Draw, View

PREDICTORS = ("working", "stable", "plastic")


class CLSER(Method):
    """CLS-ER (Arani et al. 2022): CE(new) + CE(memory) + reg MSE(memory logits, those of the better average).

    Two averages of the working net, `plastic` and `stable`, are each updated after a step with a probability of their
    own. For each memory sample the teacher is the one that is more confident in the true class. The consistency term
    uses plain logits, the cross-entropies adapted ones. `predictor` selects which of the three nets predicts: "working"
    as in the CBA paper's code, or "stable" as in CLS-ER's own paper.

    Batch norm in the averages is as released: as teachers they normalise by the statistics of the memory batch, which
    also update their running ones; these are used for prediction. Statistics averaged like weights would not fit: with
    an alpha of 0.999, such averages are near chance on a ResNet. Everything else (dropout, say) is in evaluation mode.
    """

    title = "CLS-ER"
    stable: Net
    plastic: Net
    updates: Tensor
    generator: torch.Generator

    def __init__(
        self,
        *,
        reg: float = 0.1,
        p_stable: float = 0.7,
        alpha_stable: float = 0.999,
        p_plastic: float = 0.9,
        alpha_plastic: float = 0.999,
        predictor: str = "working",
    ) -> None:
        super().__init__()
        one_of("predictor", predictor, PREDICTORS)
        self.reg = reg
        self.p_stable, self.alpha_stable = p_stable, alpha_stable
        self.p_plastic, self.alpha_plastic = p_plastic, alpha_plastic
        self.predictor = predictor
        self.no_average = "" if predictor == "working" else f"it predicts with an average of its own, {predictor!r}"
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        if "stable" in self._modules:
            raise SettingsError("This CLSER already belongs to a learner and holds its averages; create a new one.")
        self.stable = copy.deepcopy(net).requires_grad_(False).eval()
        self.plastic = copy.deepcopy(net).requires_grad_(False).eval()
        self._net = (net,)  # in a tuple, so that it is not registered: it belongs to the learner
        self.generator = generator

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        loss = cross_entropy(new)
        for view in old:
            loss = loss + cross_entropy(view) + self.reg * F.mse_loss(view.logits, view.stored["teacher"])
        return loss

    def recall(self, draw: Draw) -> Mapping[str, Tensor]:
        return {
            "teacher": choose_teacher(self._taught(self.stable, draw.x), self._taught(self.plastic, draw.x), draw.y)
        }

    def _taught(self, average: Net, x: Tensor) -> Tensor:
        """Return the logits of an average; its running statistics follow, as those of the net, from two samples on."""
        with batch_norm_like(self._net[0], average) if len(x) > 1 else nullcontext():
            logits: Tensor = average(x)
        return logits

    def after_step(self, net: Net) -> None:
        self.updates += 1
        chance = torch.rand(2, generator=self.generator).tolist()
        if chance[0] < self.p_plastic:
            self._move(self.plastic, net, self.alpha_plastic)
        if chance[1] < self.p_stable:
            self._move(self.stable, net, self.alpha_stable)

    @torch.no_grad()
    def _move(self, average: Net, net: Net, alpha: float) -> None:
        share = 1 - min(1 - 1 / (int(self.updates) + 1), alpha)  # of the working net
        here, there = ([*one.parameters(), *buffers_but_statistics(one)] for one in (average, net))
        lerp_(here, there, share)

    def classify(self, net: Net, memory: Memory, x: Tensor) -> Tensor:
        chosen = {"working": net, "stable": self.stable, "plastic": self.plastic}[self.predictor]
        logits: Tensor = chosen(x)
        return logits


def choose_teacher(stable: Tensor, plastic: Tensor, y: Tensor) -> Tensor:
    """Return, row by row, the logits that give the true class the higher probability; on a tie the plastic ones."""
    rows = y[:, None]
    stable_is_better = stable.softmax(1).gather(1, rows) > plastic.softmax(1).gather(1, rows)
    return torch.where(stable_is_better, stable, plastic)
