"""What an augmentation is, several in order, and one made of another library's transform."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from evenkeel.errors import InputError
from evenkeel.learning import rng
from evenkeel.learning.registry import call_text


class Augment(Protocol):
    """Any function that returns the batch with each sample changed at random, in the same shape and dtype."""

    def __call__(self, x: Tensor, generator: torch.Generator, /) -> Tensor: ...


class InOrder:
    """Several augmentations, each applied to the views of the one before. `Learner(augment=[...])` makes one."""

    def __init__(self, steps: Sequence[Augment]) -> None:
        self.steps = list(steps)

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        for step in self.steps:
            x = step(x, generator)
        return x

    def __repr__(self) -> str:
        return repr(self.steps)


def in_order(augment: Augment | Sequence[Augment] | None) -> Augment | None:
    """Return one augmentation for a list of them: none if it is empty, and the only one if there is one."""
    if not isinstance(augment, list | tuple):
        return augment  # type: ignore[return-value]  # a sequence that is none of these was refused before
    return InOrder(augment) if len(augment) > 1 else augment[0] if augment else None


class PerSample:
    """An augmentation made from a one-argument transform of another library, such as torchvision's.

    Such a transform draws one set of parameters per call, from torch's global generator. So each image gets a call of
    its own, the only way to draw different parameters per sample. The global generator is seeded from `generator` for
    these calls and restored afterwards.

    >>> augment = PerSample(lambda image: image + torch.rand(()))
    >>> x = torch.zeros(2, 1, 1, 1)
    >>> first, second = (augment(x, torch.Generator().manual_seed(0)) for _ in range(2))
    >>> bool((first == second).all()), bool(first[0] == first[1])
    (True, False)
    """

    def __init__(self, transform: Callable[[Tensor], Tensor]) -> None:
        self.transform = transform

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        with rng.global_seed(rng.next_seed(generator), x.device):
            images = [self._view(image) for image in x.clone()]  # a copy, because transforms may work in place
        return torch.stack(images) if images else x.clone()

    def __repr__(self) -> str:
        return call_text(self)

    def _view(self, image: Tensor) -> Tensor:
        return require_view("The transform of PerSample", self.transform(image), image)


def require_view(whose: str, view: object, of: Tensor) -> Tensor:
    """Return a view; raise InputError unless it is a tensor of the same shape and dtype as what it is of."""
    if not isinstance(view, Tensor):
        raise InputError(f"{whose} must return a tensor, but returned a {type(view).__name__}.")
    if view.shape != of.shape or view.dtype != of.dtype:
        raise InputError(
            f"{whose} must keep shape and dtype, but it turned {tuple(of.shape)} {of.dtype} into "
            f"{tuple(view.shape)} {view.dtype}."
        )
    return view
