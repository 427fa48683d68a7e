"""Streams that are not clean: wrong labels and rare classes, for every scenario. Test data is never changed.

Both are drawn from the seed, by generators of their own, so that more noise keeps the errors of less noise and a larger
imbalance leaves out more of the same samples.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from evenkeel.errors import SettingsError
from evenkeel.learning.rng import make_generator

UNCLEAN: dict[str, float | None] = {
    "noise": 0.0,
    "imbalance": None,
}  # the settings, each with the value of a clean stream


def noisy(labels: Tensor, groups: Sequence[Sequence[int]], *, share: float, seed: int = 0) -> Tensor:
    """Return the labels with this share of each class replaced, uniformly, by another class of the same group.

    A group has the classes of a task: a wrong label never names a class that is not due yet. A sample has the same
    wrong label whenever it arrives. Labels in no group stay as they are.

    >>> labels = torch.tensor([0] * 5 + [1] * 5)
    >>> [int((noisy(labels, [[0, 1]], share=0.2)[labels == label] != label).sum()) for label in (0, 1)]
    [1, 1]
    """
    generator = make_generator(seed, "noise")
    turn, other = (torch.rand(len(labels), dtype=torch.float64, generator=generator) for _ in range(2))
    result = labels.clone()
    for group in groups:
        _require_majority(share, group)
        others = torch.tensor(list(group))
        for place, label in enumerate(group):
            mine = (labels == label).nonzero().flatten()
            wrong = mine[turn[mine].argsort()[: round(share * len(mine))]]
            step = 1 + (other[wrong] * (len(group) - 1)).long()
            result[wrong] = others[(place + step) % len(group)]
    return result


def imbalanced(labels: Tensor, classes: Sequence[int], *, ratio: float, seed: int = 0) -> Tensor:
    """Return the indices of the samples to keep, so that the largest class is `ratio` times as large as the smallest.

    In between, sizes fall exponentially; which class is rare is drawn from the seed. Of classes of different sizes as
    many samples are kept as this profile allows; with ratio 1 all classes have equally many.

    >>> labels = torch.arange(300) % 3
    >>> labels[imbalanced(labels, [0, 1, 2], ratio=100)].bincount().sort().values.tolist()
    [1, 10, 100]
    """
    generator = make_generator(seed, "imbalance")
    places = torch.randperm(len(classes), generator=generator)
    turn = torch.rand(len(labels), dtype=torch.float64, generator=generator)
    shares = [ratio ** (-place / max(1, len(classes) - 1)) for place in places.tolist()]
    members = [(labels == label).nonzero().flatten() for label in classes]
    largest = min(len(mine) / share for mine, share in zip(members, shares, strict=True))
    if largest * min(shares) < 1:
        raise SettingsError(f"imbalance={ratio:g}: the rarest class would have no sample. Choose a smaller number.")
    kept = [mine[turn[mine].argsort()[: round(largest * share)]] for mine, share in zip(members, shares, strict=True)]
    return torch.cat(kept).sort().values


def _require_majority(share: float, group: Sequence[int]) -> None:
    """Raise SettingsError unless the right label of a class stays its most frequent one."""
    if len(group) == 1:
        raise SettingsError(
            f"noise={share:g}: a wrong label is another class of the same task, but a task here has only one class. "
            "Divide the classes into fewer tasks."
        )
    if share >= 1 - 1 / len(group):
        raise SettingsError(
            f"noise={share:g} must be below {1 - 1 / len(group):.3g}: a wrong label is another class of the same task, "
            f"and with {len(group)} classes in a task the right one would no longer be the most frequent."
        )
