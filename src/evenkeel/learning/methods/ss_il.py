"""SS-IL: separated softmax for incremental learning."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel.errors import above_zero
from evenkeel.learning.methods._teacher import UNSEEN, Distilling, columns, distillation, joined, leave_out
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
        views, task_of = [new, *old], self.task_of_with(new.y_host)
        side = own_side(joined(views, "y_host"), task_of, int(self.task))
        loss = F.cross_entropy(leave_out(joined(views, "adapted"), ~side), joined(views, "y"))
        if self.task > 0:
            logits, teacher = joined(views, "logits"), joined(views, "teacher")
            for task in range(int(self.task)):
                mine = task_of == task
                kept = distillation(columns(logits, mine), columns(teacher, mine), self.temperature)
                loss = loss + self.temperature**2 * kept
        return loss


def own_side(y: Tensor, task_of: Tensor, task: int) -> Tensor:
    """Return (n, outputs) the seen classes on a sample's side: those of `task`, or those before. All on the host."""
    is_new, is_old = task_of == task, (task_of != task) & (task_of != UNSEEN)
    return torch.where(is_new[y][:, None], is_new, is_old)
