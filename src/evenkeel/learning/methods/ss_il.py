"""SS-IL: separated softmax for incremental learning."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel.errors import above_zero
from evenkeel.learning.methods._teacher import UNSEEN, Distilling, distillation, joined, leave_out
from evenkeel.learning.types import View


class SSIL(Distilling):
    """SS-IL (Ahn et al. 2021): a softmax over new classes and one over old ones, and distillation task by task.

    A sample's cross-entropy runs over the classes on its own side of the last boundary; the mean is over new and
    replayed samples together. From the second task on, T^2 KL(teacher || net) is added for each old task's outputs, on
    all samples; the teacher is the net as it was at the last boundary, in evaluation mode.

    The original fills its memory at the end of a task by reading the task again. Here, strictly in one pass, the memory
    is filled during the stream, so a draw also holds samples of the current task, which count on the new side.
    """

    title = "SS-IL"

    def __init__(self, *, temperature: float = 2.0) -> None:
        super().__init__()
        self.temperature = above_zero("temperature", temperature)

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        views, task_of = [new, *old], self.task_of_with(new.y)
        loss = separated_cross_entropy(joined(views, "adapted"), joined(views, "y"), task_of, int(self.task))
        if self.task > 0:
            logits, teacher = joined(views, "logits"), joined(views, "teacher")
            for task in range(int(self.task)):
                mine = task_of == task
                kept = distillation(logits[:, mine], teacher[:, mine], self.temperature)
                loss = loss + self.temperature**2 * kept
        return loss


def separated_cross_entropy(logits: Tensor, y: Tensor, task_of: Tensor, task: int) -> Tensor:
    """Return the mean cross-entropy, each sample over the seen classes on its side: of `task`, or of those before."""
    is_new, is_old = task_of == task, (task_of != task) & (task_of != UNSEEN)
    side = torch.where(is_new[y][:, None], is_new, is_old)  # (n, outputs)
    return F.cross_entropy(leave_out(logits, ~side), y)
