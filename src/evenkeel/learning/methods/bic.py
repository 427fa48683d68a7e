"""BiC: bias correction."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel.errors import SettingsError, above_zero, fraction
from evenkeel.learning.hashing import hash_samples
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods._exemplars import features_of
from evenkeel.learning.methods._teacher import UNSEEN, Distilling, columns, distillation, joined, leave_out
from evenkeel.learning.nets import Net
from evenkeel.learning.rng import next_seed
from evenkeel.learning.types import View

RIDGE = 1e-2  # penalty toward no correction: without it the fit to a few separable samples would diverge


class BiC(Distilling):
    """BiC (Wu et al. 2019): distillation while a task is learned, and a linear correction of its logits at its end.

    (1 - lambda) CE + lambda KL(teacher || net) at a temperature, CE over the seen classes, KL over the old ones, each a
    mean over new and replayed samples; lambda = old / (old + new classes), or 0 while a task has no new class. At a
    boundary, scale and shift of the logits of the newest task's classes are fitted by cross-entropy on samples that
    were held out: a share of the stream, and of the memory, is never trained on. A correction stays with its classes
    for good, in training, in the teacher and in prediction, so predictions between boundaries are corrected too.

    The original holds out some exemplars and as many samples of the finished task, which it reads again. Here, strictly
    in one pass, each sample is held out at random as it arrives, into a balanced part of the memory; with several
    passes over the data, the same samples every time.
    """

    title = "BiC"
    no_average = "its correction of logits is fitted to the working weights"
    scale: Tensor  # (outputs,)
    shift: Tensor  # (outputs,)

    def __init__(self, *, temperature: float = 2.0, held_out: float = 0.1) -> None:
        super().__init__()
        self.temperature = above_zero("temperature", temperature)
        self.held_out = fraction("held_out", held_out)
        if not held_out:
            raise SettingsError("held_out=0 leaves BiC no samples to fit its correction on; use 0.1, say.")
        self._salt: int | None = None  # of the hash that chooses the samples to hold out
        self._spared = torch.zeros(0, dtype=torch.int64)  # hashes of samples not held out because their class was new

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        super().prepare(net, generator)
        like = next(net.head.parameters())
        self.register_buffer("scale", torch.ones(net.outputs, dtype=like.dtype, device=like.device))
        self.register_buffer("shift", torch.zeros(net.outputs, dtype=like.dtype, device=like.device))

    def split_memory(self, memory: Memory) -> None:
        self.held = memory.split(self.held_out)

    def hold_out(self, x: Tensor, y: Tensor, memory: Memory, generator: torch.Generator) -> Tensor:
        """Choose at random, but no sample of a class that was not trained on yet.

        The choice is a hash of the sample with a salt drawn once, so that a sample that returns in another pass over
        the data is on the same side again. Samples spared because their class was new are remembered as such.
        """
        if self._salt is None:
            self._salt = next_seed(generator)
        hashes = hash_samples(x, self._salt)
        chosen = ((hashes & (2**52 - 1)) < self.held_out * 2**52) & ~torch.isin(hashes, self._spared)
        trained = torch.zeros_like(chosen)
        for part in (memory, self.held):
            if part is not None and len(part):
                trained |= torch.isin(y, part.column("y"))
        self._spared = torch.cat([self._spared, hashes[chosen & ~trained]])
        return chosen & trained

    def get_extra_state(self) -> dict[str, Any]:
        held = None if self.held is None else self.held.state_dict()
        return {"held": held, "salt": self._salt, "spared": self._spared.clone()}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        if self.held is not None:
            self.held.load_state_dict(state["held"])
        self._salt, self._spared = state["salt"], state["spared"].clone()

    def grow(self, outputs: int) -> None:
        super().grow(outputs)
        more = (0, outputs - len(self.scale))
        self.scale, self.shift = F.pad(self.scale, more, value=1.0), F.pad(self.shift, more)

    def corrected(self, logits: Tensor) -> Tensor:
        """Return the logits with scale and shift applied."""
        return logits * self.scale + self.shift

    def adapted(self, view: View) -> Tensor:
        """Return the adapted logits with scale and shift applied, but not to a prior: that is an offset of its own."""
        corrected = self.corrected(view.comparable)
        return corrected if view.adapted is view.comparable else corrected + (view.adapted - view.comparable)

    def taught(self, x: Tensor) -> Tensor:
        return self.corrected(self.teacher(x))

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        views, task_of = [new, *old], self.task_of_with(new.y_host)
        adapted = leave_out(torch.cat([self.adapted(view) for view in views]), task_of == UNSEEN)
        loss = F.cross_entropy(adapted, joined(views, "y"))
        is_old, is_new = self.old_and_new(task_of)
        if not bool(is_old.any()):
            return loss
        weight = int(is_old.sum()) / int((is_old | is_new).sum())
        logits, teacher = self.corrected(joined(views, "logits")), joined(views, "teacher")
        kept = distillation(columns(logits, is_old), columns(teacher, is_old), self.temperature)
        return (1 - weight) * loss + weight * kept

    def query_loss(self, old: Sequence[View]) -> Tensor:
        return torch.stack([F.cross_entropy(self.corrected(view.logits), view.y) for view in old]).mean()

    def boundary(self, net: Net, memory: Memory) -> None:
        is_old, is_new = self.old_and_new(self.task_of)
        if self.held is not None and len(self.held) and bool(is_old.any()):
            with torch.no_grad():
                logits = self.corrected(net.head(features_of(net, self.held)))
            logits = leave_out(logits, self.task_of == UNSEEN).cpu()
            scale, shift = (each.to(self.scale) for each in fitted(logits, self.held.column("y"), is_new))
            is_new = is_new.to(self.scale.device)
            self.scale = torch.where(is_new, scale, self.scale)
            self.shift = torch.where(is_new, shift, self.shift)
        super().boundary(net, memory)

    def classify(self, net: Net, memory: Memory, x: Tensor) -> Tensor:
        return self.corrected(net(x))


def fitted(logits: Tensor, y: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scale and shift of the outputs in `which` that minimise the cross-entropy (convex: one optimum)."""
    correction = logits.new_tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    identity = correction.detach().clone()
    logits = logits.double()
    optimizer = torch.optim.LBFGS(
        [correction], max_iter=100, tolerance_grad=1e-10, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        corrected = torch.where(which, logits * correction[0] + correction[1], logits)
        loss = F.cross_entropy(corrected, y) + RIDGE * (correction - identity).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    scale, shift = correction.detach()
    return scale, shift
