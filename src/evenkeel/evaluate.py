"""From logits of a test set to accuracies by task."""

from collections.abc import Sequence

import torch
from torch import Tensor

from evenkeel.errors import InputError


def task_accuracies(logits: Tensor, y: Tensor, tasks: Sequence[Sequence[int]], *, masked: bool = False) -> list[float]:
    """Accuracy in percent on the samples of each task, where `tasks` lists the outputs that belong to each.

    Class-incremental by default: all outputs compete, seen or not, as in the CBA paper. `masked`: task-incremental,
    only the outputs of the sample's own task compete.

    >>> logits, y = torch.tensor([[0., 1., 2., 0.], [0., 0., 1., 2.]]), torch.tensor([1, 3])
    >>> task_accuracies(logits, y, [[0, 1], [2, 3]]), task_accuracies(logits, y, [[0, 1], [2, 3]], masked=True)
    ([0.0, 100.0], [100.0, 100.0])
    """
    found = []
    for outputs in tasks:
        own = torch.tensor(sorted(outputs))
        mine = torch.isin(y, own)
        if not bool(mine.any()):
            raise InputError(f"There is no test sample of the task with outputs {list(outputs)}.")
        predicted = own[logits[mine][:, own].argmax(dim=1)] if masked else logits[mine].argmax(dim=1)
        found.append(float((predicted == y[mine]).double().mean()) * 100)
    return found
