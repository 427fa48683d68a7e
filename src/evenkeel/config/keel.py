"""The keel: the recipe that this library recommends, for a network of your own. Its presets have the same recipe."""

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import torch
from torch.optim import Optimizer

from evenkeel.config.build import parts_of
from evenkeel.config.composition import NOTES, family, merged
from evenkeel.config.loading import checked
from evenkeel.config.schema import LearnerConfig
from evenkeel.errors import SettingsError
from evenkeel.learning.augment import Augment
from evenkeel.learning.inputs import Moments
from evenkeel.learning.learner import Learner
from evenkeel.learning.memory import Memory
from evenkeel.learning.nets import Net
from evenkeel.learning.optimizers import MakeOptimizer
from evenkeel.learning.types import Precision


def keel(
    net: Net,
    *,
    memory: int | str | Memory = 500,
    budget: float = 1,
    optimizer: Optimizer | MakeOptimizer | None = None,
    augment: Augment | Sequence[Augment] | None = None,
    normalize: Moments | None = None,
    classes: Sequence[Hashable] | None = None,
    device: str | torch.device = "auto",
    replay: int = 32,
    precision: Precision = "float32",
    compile: bool = False,
    seed: int = 0,
) -> Learner:
    """Return a learner with the recipe that this library recommends; presets/keel.toml says how it was chosen.

    budget: about what learning may cost, in units of plain experience replay with the same batches; the recipe is the
    one with the most updates within it (docs/keel.md has what each costs, measured). The other arguments are those of
    `Learner`; which augmentation helps depends on your data, and a draw from memory (`replay`) is best as large as your
    batches.

    >>> from evenkeel.learning.zoo import mlp
    >>> learner = keel(mlp(features=4, classes=2), memory=10)
    >>> type(learner.adaptor).__name__, learner.average
    ('Prior', 'auto')
    """
    config = checked(recipe(budget), LearnerConfig)
    return Learner(
        net,
        **{**parts_of(config), "augment": augment},
        memory=memory,
        optimizer=optimizer,
        classes=classes,
        device=device,
        seed=seed,
        **{
            **config.learner.arguments(),
            "normalize": normalize,
            "replay": replay,
            "precision": precision,
            "compile": compile,
        },
    )


def recipe(budget: float) -> dict[str, Any]:
    """Return the tables of the most expensive recipe within a budget; raise SettingsError if there is none."""
    parts = family("keel")
    dearer = {float(name.removesuffix("x")): part for name, part in parts["variant"].items()}
    if isinstance(budget, bool) or not isinstance(budget, Real) or not budget >= 1:
        raise SettingsError(
            f"budget={budget!r} must be a number of at least 1: the cost of learning in units of plain ER. There are "
            f"recipes for {', '.join(f'{each:g}' for each in (1.0, *sorted(dearer)))}."
        )
    within = [cost for cost in dearer if cost <= budget]
    tables = merged(parts["all"], dearer[max(within)] if within else {})
    return {name: table for name, table in tables.items() if name not in (*NOTES, "name")}
