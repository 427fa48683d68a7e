"""The common base of methods that distinguish tasks and distil from the net as it was when the last task ended."""

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel.errors import SettingsError
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods.base import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.torch_utils import sent
from evenkeel.learning.types import Draw, View

UNSEEN = -1


class Distilling(Method):
    """A method that records the first task of each class, and at each boundary copies the net as a teacher.

    New and replayed samples form one batch, as if memory were merged into a task's data. The teacher is always in
    evaluation mode, and is queried once for each group of samples.
    """

    joint_forward = True
    needs_boundaries = True
    recalls_new = True
    memory_policy = "balanced"

    teacher: Net
    task: Tensor  # () boundaries so far; on the host, as all that is decided by class
    task_of: Tensor  # (outputs,) the task in which a class was first learned

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("task", torch.zeros((), dtype=torch.int64))

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        if "teacher" in self._modules:
            name = type(self).__name__
            raise SettingsError(f"This {name} already belongs to a learner and holds its teacher; create a new one.")
        self.teacher = copy.deepcopy(net).requires_grad_(False).eval()
        self.register_buffer("task_of", torch.full((net.outputs,), UNSEEN))

    def grow(self, outputs: int) -> None:
        self.task_of = F.pad(self.task_of, (0, outputs - len(self.task_of)), value=UNSEEN)

    def recall(self, draw: Draw) -> Mapping[str, Tensor]:
        return {"teacher": self.taught(draw.x)} if self.task > 0 else {}

    def taught(self, x: Tensor) -> Tensor:
        """Return (n, ...) the teacher's outputs for network inputs."""
        logits: Tensor = self.teacher(x)
        return logits

    def share_of_new(self, new: int, old: int) -> float:
        return new / (new + old)  # one mean over all samples

    def remember(self, new: View) -> Mapping[str, Tensor]:
        self.task_of = self.task_of_with(new.y_host)
        return {}

    def boundary(self, net: Net, memory: Memory) -> None:
        if bool((self.task_of != UNSEEN).any()):  # otherwise no task has ended
            self.teacher.load_state_dict(net.state_dict())
            self.task += 1

    def task_of_with(self, y: Tensor) -> Tensor:
        """Return `task_of` as it will be once a batch of these outputs is learned."""
        task_of = self.task_of.clone()
        task_of[y] = torch.where(task_of[y] == UNSEEN, self.task, task_of[y])
        return task_of

    def old_and_new(self, task_of: Tensor) -> tuple[Tensor, Tensor]:
        """Return (outputs,) which classes first appeared before the current task, and (outputs,) which in it.

        A task without new classes (other domains, a blurry stream) continues the one before: no class counts as old,
        and it is learned without the teacher.
        """
        is_new = task_of == self.task
        return (task_of != UNSEEN) & ~is_new & is_new.any(), is_new


def joined(views: Sequence[View], name: str) -> Tensor:
    """Return one column of several views: `y`, `y_host`, `logits`, `adapted`, `features`, or a stored one."""
    return torch.cat([view.stored[name] if name in view.stored else getattr(view, name) for view in views])


def leave_out(logits: Tensor, which: Tensor) -> Tensor:
    """Return the logits with those of `which` masked, so that they neither win nor get a gradient."""
    return logits.masked_fill(sent(which, logits.device), torch.finfo(logits.dtype).min)


def columns(logits: Tensor, which: Tensor) -> Tensor:
    """Return the logits of the outputs in `which`, a mask on the host."""
    return logits[:, sent(which.nonzero().flatten(), logits.device)]


def distillation(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return KL(softmax(teacher / T) || softmax(logits / T)), mean over samples."""
    student = (logits / temperature).log_softmax(dim=1)
    target = (teacher / temperature).softmax(dim=1)
    return F.kl_div(student, target, reduction="batchmean")
