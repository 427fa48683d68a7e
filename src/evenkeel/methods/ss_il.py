"""SS-IL: separated softmax for incremental learning."""

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel.errors import SettingsError
from evenkeel.memory import Memory
from evenkeel.methods.base import Method
from evenkeel.nets import Net
from evenkeel.types import Draw, View

UNSEEN = -1


class SSIL(Method):
    """SS-IL (Ahn et al. 2021): a softmax over new classes and one over old ones, and distillation task by task.

    A sample's cross-entropy runs over the classes on its own side of the last boundary; the mean is over new and
    replayed samples together. From the second task on, T^2 KL(teacher || net) is added for each old task's outputs, on
    all samples, with the net as it was at the last boundary for a teacher, in evaluation mode.

    The original fills its memory at the end of a task by reading the task again. Strictly in one pass, the memory is
    filled as the stream goes, so a draw also holds samples of the present task, which count on the new side.
    """

    title = "SS-IL"
    joint_forward = True
    needs_boundaries = True

    teacher: Net
    task: Tensor  # () boundaries so far
    task_of: Tensor  # (outputs,) the task in which a class was first learned

    def __init__(self, *, temperature: float = 2.0) -> None:
        super().__init__()
        self.temperature = temperature
        self.register_buffer("task", torch.zeros((), dtype=torch.int64))

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        if "teacher" in self._modules:
            raise SettingsError("This SSIL already belongs to a learner and holds its teacher; make a new one.")
        self.teacher = copy.deepcopy(net).requires_grad_(False).eval()
        self.to(next(net.parameters()).device)
        self.register_buffer("task_of", torch.full((net.outputs,), UNSEEN, device=self.task.device))

    def grow(self, outputs: int) -> None:
        self.task_of = F.pad(self.task_of, (0, outputs - len(self.task_of)), value=UNSEEN)

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        views = [new, *old]
        task_of = self._with(new)
        adapted, y = torch.cat([view.adapted for view in views]), torch.cat([view.y for view in views])
        loss = separated_cross_entropy(adapted, y, task_of, int(self.task))
        if self.task > 0:
            with torch.no_grad():
                told = [self.teacher(new.x), *(view.stored["teacher"] for view in old)]
            logits = torch.cat([view.logits for view in views])
            for task in range(int(self.task)):
                mine = task_of == task
                loss = loss + distillation(logits[:, mine], torch.cat(told)[:, mine], self.temperature)
        return loss

    def recall(self, draw: Draw) -> Mapping[str, Tensor]:
        return {"teacher": self.teacher(draw.x)} if self.task > 0 else {}

    def remember(self, new: View) -> Mapping[str, Tensor]:
        self.task_of = self._with(new)
        return {}

    def boundary(self, net: Net, memory: Memory) -> None:
        self.teacher.load_state_dict(net.state_dict())
        self.task += 1

    def _with(self, new: View) -> Tensor:
        """`task_of` once the batch is learned."""
        task_of = self.task_of.clone()
        task_of[new.y] = torch.where(task_of[new.y] == UNSEEN, self.task, task_of[new.y])
        return task_of


def separated_cross_entropy(logits: Tensor, y: Tensor, task_of: Tensor, task: int) -> Tensor:
    """Mean cross-entropy, each sample over the seen classes on its own side: those of `task`, or those before it."""
    is_new, is_old = task_of == task, (task_of != task) & (task_of != UNSEEN)
    side = torch.where(is_new[y][:, None], is_new, is_old)  # (n, outputs)
    return F.cross_entropy(logits.masked_fill(~side, torch.finfo(logits.dtype).min), y)


def distillation(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T^2 KL(softmax(teacher / T) || softmax(logits / T)), mean over samples."""
    student = (logits / temperature).log_softmax(dim=1)
    target = (teacher / temperature).softmax(dim=1)
    return temperature**2 * F.kl_div(student, target, reduction="batchmean")
