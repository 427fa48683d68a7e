"""Dark Experience Replay++."""

from collections.abc import Mapping, Sequence

from torch import Tensor
from torch.nn import functional as F

from evenkeel.learning.methods.base import Method, cross_entropy
from evenkeel.learning.types import View


class DERpp(Method):
    """DER++ (Buzzega et al. 2020): CE(new) + alpha MSE(memory logits, stored ones) + beta CE(another memory draw).

    The logits of the augmented view before its step are stored. With CBA there are two kinds: the training loss
    compares adapted with adapted, CBA's outer objective plain with plain (weights 1 and 1, as in the released code).
    What a prior adds is neither stored nor compared: it has changed by the time a sample is replayed.
    """

    title = "DER++"
    draws = 2
    logit_columns = ("logits", "adapted")

    def __init__(self, *, alpha: float = 0.2, beta: float = 0.5) -> None:
        super().__init__()
        self.alpha = alpha
        self.beta = beta

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        loss = cross_entropy(new)
        if old:
            dark, labelled = old
            target = dark.stored.get("adapted", dark.stored["logits"])
            loss = loss + self.alpha * F.mse_loss(dark.comparable, target) + self.beta * cross_entropy(labelled)
        return loss

    def share_of_new(self, new: int, old: int) -> float:
        return 1 / (1 + self.beta)

    def query_loss(self, old: Sequence[View]) -> Tensor:
        dark, labelled = old
        return F.mse_loss(dark.logits, dark.stored["logits"]) + F.cross_entropy(labelled.logits, labelled.y)

    def remember(self, new: View) -> Mapping[str, Tensor]:
        if new.comparable is new.logits:
            return {"logits": new.logits}
        return {"logits": new.logits, "adapted": new.comparable}
