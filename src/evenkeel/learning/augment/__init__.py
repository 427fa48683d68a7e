"""Random views of image batches: each sample gets its own, drawn from the caller's generator.

An augmentation is called as `augment(x, generator)` with a whole batch (n, channels, height, width). Parameters are
drawn on the CPU, for all samples at once; the pixels are then moved together, on their own device.
"""

from collections.abc import Callable, Sequence

from evenkeel.errors import CheckpointError
from evenkeel.learning.augment.base import Augment, InOrder, PerSample, in_order
from evenkeel.learning.augment.colors import ColorJitter, Grayscale
from evenkeel.learning.augment.crops import CropFlip, ResizedCrop
from evenkeel.learning.augment.rand_augment import OPERATIONS, RandAugment
from evenkeel.learning.registry import Recipe, describe, rebuild

AUGMENTS: dict[str, Callable[..., Augment]] = {
    "crop-flip": CropFlip,
    "rand-augment": RandAugment,
    "resized-crop": ResizedCrop,
    "color-jitter": ColorJitter,
    "grayscale": Grayscale,
}


def augment_facts(augment: Augment | None) -> Recipe | list[Recipe] | None:
    """Return the recipe of an augmentation for a checkpoint; of several in order, a list."""
    if isinstance(augment, InOrder):
        return [describe(step, AUGMENTS) for step in augment.steps]
    return None if augment is None else describe(augment, AUGMENTS)


def rebuild_augment(facts: Recipe | list[Recipe] | None, given: Augment | Sequence[Augment] | None) -> Augment | None:
    """Return the augmentation of a checkpoint: the one `given`, which must match its recipe, or one built from it."""
    own = in_order(given)
    if not isinstance(facts, list):
        one: Augment | None = rebuild(facts, own, AUGMENTS, "augment")
        return one
    steps = own.steps if isinstance(own, InOrder) else [own] * (len(facts) if own is None else 1)
    if len(steps) != len(facts):
        raise CheckpointError(f"The checkpoint's augment is a list of {len(facts)}, but augment= has {len(steps)}.")
    return InOrder([rebuild(recipe, step, AUGMENTS, "augment") for recipe, step in zip(facts, steps, strict=True)])


__all__ = [
    "AUGMENTS",
    "OPERATIONS",
    "Augment",
    "ColorJitter",
    "CropFlip",
    "Grayscale",
    "InOrder",
    "PerSample",
    "RandAugment",
    "ResizedCrop",
    "augment_facts",
    "in_order",
    "rebuild_augment",
]
