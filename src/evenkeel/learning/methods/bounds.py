"""Bounds: training without any defence against forgetting, and training on all tasks mixed."""

from collections.abc import Sequence

from torch import Tensor

from evenkeel.errors import whole_number
from evenkeel.learning.methods.base import Method, cross_entropy
from evenkeel.learning.types import View


class Finetune(Method):
    """Lower bound: CE(new), no memory. It reads every sample once."""

    title = "Finetune (lower bound)"
    bound = "lower"
    rehearses = False
    no_adaptor = "it keeps no memory, and without old samples an adaptor has nothing to balance"

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return cross_entropy(new)


class Joint(Finetune):
    """Upper bound: CE(new), no memory, on the samples of all tasks mixed: i.i.d., in one pass or `epochs` passes.

    A run gives it a stream of its own, shuffled over all tasks and split into as many parts of equal size, so that it
    is tested at the same points as the other methods. It is not a method for streams: a learner that gets batches in
    another order learns them in that order.
    """

    title = "Joint (upper bound)"
    bound = "upper"

    def __init__(self, *, epochs: int = 1) -> None:
        super().__init__()
        self.epochs = whole_number("epochs", epochs, at_least=1)
        self.mixed_passes = self.epochs
        passes = "one pass" if self.epochs == 1 else f"{self.epochs} passes"
        self.title = f"Joint, {passes} (upper bound)"
