"""Build a learner from a config."""

from collections.abc import Hashable, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import numpy as np

from evenkeel.config.parts import PartSettings, prototype
from evenkeel.config.schema import LearnerConfig
from evenkeel.errors import InputError, SettingsError
from evenkeel.learning.adaptors import ADAPTORS, Adaptor
from evenkeel.learning.augment import AUGMENTS
from evenkeel.learning.compatibility import memory_for
from evenkeel.learning.encoder import Encoder
from evenkeel.learning.inputs import is_channels_last
from evenkeel.learning.learner import Learner
from evenkeel.learning.methods import METHODS, Method
from evenkeel.learning.nets import Net
from evenkeel.learning.pretrained import MODELS, with_encoder
from evenkeel.learning.registry import Recipe, Registry, build, named_arguments
from evenkeel.learning.rng import derive, global_seed
from evenkeel.learning.texts import NEEDS_ENCODER
from evenkeel.learning.zoo import NETS

AnyConfig = TypeVar("AnyConfig", bound=LearnerConfig)


def make_learner(config: LearnerConfig, sample: tuple[int, ...], classes: Sequence[Hashable] | None) -> Learner:
    """Return a fresh learner for samples of this shape.

    classes: all labels, for a head of fixed size; if None, the head grows with the labels that arrive.
    """
    parts = parts_of(config)
    return Learner(
        make_net(config, sample, 1 if classes is None else len(classes)),
        **parts,
        memory=memory_for(parts["method"], **dict(config.memory)),
        optimizer=config.optimizer.make,
        classes=classes,
        device=config.device,
        seed=config.seed,
        **config.learner.arguments(),
    )


def parts_of(config: LearnerConfig) -> dict[str, Any]:
    """Return method, adaptor and augmentation for one learner, as its arguments."""
    views = config.augment if isinstance(config.augment, list) else [config.augment] if config.augment else []
    return {
        "method": deepcopy(method_of(config)),
        "adaptor": deepcopy(adaptor_of(config)),
        "augment": [deepcopy(prototype(table, AUGMENTS)) for table in views],
    }


def method_of(config: LearnerConfig) -> Method:
    """Return the method of a config, to look at; each learner trains a copy."""
    method: Method = prototype(config.method, METHODS)
    return method


def adaptor_of(config: LearnerConfig) -> Adaptor | None:
    """Return the adaptor of a config, to look at; each learner trains a copy."""
    return None if config.adaptor is None else prototype(config.adaptor, ADAPTORS)


def task_free() -> str:
    """List the methods that need no task boundaries, for a sentence; bounds are not methods to choose."""
    return ", ".join(name for name, kind in METHODS.items() if not (kind.needs_boundaries or kind.bound))


def make_net(config: LearnerConfig, sample: tuple[int, ...], outputs: int) -> Net:
    """Return the network for samples of this shape."""
    if is_channels_last(sample):
        raise InputError(f"Images must be (channels, height, width), but {sample} looks channels-last.")
    table = {name: value for name, value in config.net.items() if name != "encoder"}
    encoder, recipe, inner = None, None, sample
    if "encoder" in config.net:
        encoder, recipe = _built(config.net["encoder"], MODELS, config.seed, sample=sample)
        _require_kind(Encoder(encoder), sample)
        inner = Encoder(encoder).shape_behind(sample)
    net, whole = _built(table, NETS, config.seed, sample=inner, classes=outputs)
    if not isinstance(net, Net):
        raise SettingsError(
            f"net.name = {config.net['name']!r} returned a {type(net).__name__}; it must return an ek.Net, which "
            "Net(backbone, head) and Net.split(model, head=...) make."
        )
    net.recipe = net.recipe or whole
    if encoder is not None:
        return with_encoder(net, encoder, recipe)
    _require_kind(net.encoder, sample)
    return net


def _require_kind(encoder: Encoder | None, sample: tuple[int, ...]) -> None:
    """Raise SettingsError if samples are texts and nothing takes them, or are none and only texts are taken."""
    takes_texts = encoder is not None and encoder.takes_texts
    if sample == () and not takes_texts:
        raise SettingsError(NEEDS_ENCODER)
    if sample != () and takes_texts:
        raise SettingsError(f"The encoder takes texts, but a sample has the shape {sample}.")


def _built(table: PartSettings, registry: Registry, seed: int, **known: Any) -> tuple[Any, Recipe]:
    """Return what a table describes, and the whole recipe: with what the function asks for of data and seed."""
    sample = known["sample"]
    accepted = named_arguments(registry[table["name"]])
    measured = {**known, "seed": seed}
    if sample:
        measured |= {"channels": sample[0], "features": int(np.prod(sample))}
    elif accepted.keys() & {"channels", "features", "sample"}:  # texts have none of them
        raise SettingsError(NEEDS_ENCODER)
    supplied = {name: value for name, value in measured.items() if name in accepted}
    with global_seed(derive(seed, "net")):  # a function of the user's own may take no seed
        return build(table, registry, **supplied), {**table, **supplied}


def with_policy(config: AnyConfig) -> AnyConfig:
    """Return the config with the memory policy written out, for the records: the method's own if none is set."""
    policy = config.memory.policy or method_of(config).memory_policy
    return config.model_copy(update={"memory": config.memory.model_copy(update={"policy": policy})})


def title_of(config: LearnerConfig) -> str:
    """Name a learner by its method and adaptor, such as "RAR(DER++) + CBA"."""
    method, adaptor = method_of(config), adaptor_of(config)
    title = method.title or type(method).__name__
    title = title if config.learner.repeats == 1 else f"RAR({title})"
    return title if adaptor is None else f"{title} + {adaptor.title or type(adaptor).__name__}"
