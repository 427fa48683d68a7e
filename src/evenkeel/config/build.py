"""Build a learner from a config."""

import inspect
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from evenkeel.config.parts import PartSettings, make
from evenkeel.config.schema import LearnerConfig
from evenkeel.errors import InputError
from evenkeel.learning.adaptors.cba import ADAPTORS, CBA
from evenkeel.learning.augment import AUGMENTS
from evenkeel.learning.compatibility import memory_for
from evenkeel.learning.learner import Learner
from evenkeel.learning.methods import METHODS, Method
from evenkeel.learning.nets import Net
from evenkeel.learning.zoo import NETS

AnyConfig = TypeVar("AnyConfig", bound=LearnerConfig)


def make_learner(config: LearnerConfig, sample: tuple[int, ...], classes: Sequence[Hashable] | None) -> Learner:
    """Return a fresh learner for samples of this shape.

    classes: all labels, for a head of fixed size; if None, the head grows with the labels that arrive.
    """
    method, normalize = make_method(config), config.learner.normalize
    return Learner(
        _net(config, sample, 1 if classes is None else len(classes)),
        method,
        adaptor=make_adaptor(config),
        memory=memory_for(method, config.memory.capacity, config.memory.policy),
        replay=config.learner.replay,
        repeats=config.learner.repeats,
        optimizer=_optimizer(config),
        augment=None if config.augment is None else make(config.augment, AUGMENTS),
        normalize=None if normalize is None else (normalize.mean, normalize.std),
        classes=classes,
        statistics=config.learner.statistics,
        seed=config.seed,
    )


def make_method(config: LearnerConfig) -> Method:
    method: Method = make(config.method, METHODS)
    return method


def make_adaptor(config: LearnerConfig) -> CBA | None:
    return None if config.adaptor is None else make(config.adaptor, ADAPTORS)


def _net(config: LearnerConfig, sample: tuple[int, ...], outputs: int) -> Net:
    """Return the network for samples of this shape."""
    if len(sample) == 3 and sample[-1] in (1, 3, 4) and sample[0] not in (1, 3, 4):
        raise InputError(f"Images must be (channels, height, width), but {sample} looks channels-last.")
    measured = {"channels": sample[0], "features": int(np.prod(sample))}
    accepted = inspect.signature(NETS[config.net["name"]]).parameters
    dimensions = {name: value for name, value in measured.items() if name in accepted}
    net: Net = make(config.net, NETS, classes=outputs, seed=config.seed, **dimensions)
    return net


def _optimizer(config: LearnerConfig) -> Any:
    settings = config.optimizer.model_dump(exclude={"name"})
    if config.optimizer.name != "SGD":
        settings.pop("momentum")
    return partial(getattr(torch.optim, config.optimizer.name), **settings)


def with_policy(config: AnyConfig) -> AnyConfig:
    """Return the config with the memory policy written out, for the records: the method's own if none is set."""
    policy = config.memory.policy or make_method(config).memory_policy
    return config.model_copy(update={"memory": config.memory.model_copy(update={"policy": policy})})


def title_of(method: PartSettings, adaptor: PartSettings | None, repeats: int = 1) -> str:
    """Name a learner by its method and adaptor, such as "RAR(DER++) + CBA"."""
    made: Method = make(method, METHODS)
    title = made.title or type(made).__name__
    title = title if repeats == 1 else f"RAR({title})"
    return title + (f" + {ADAPTORS[adaptor['name']].__name__}" if adaptor else "")
