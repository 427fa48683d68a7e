"""A service that starts from a learner of a run or a notebook: its config, and the learner itself with its memory."""

from pathlib import Path
from typing import Any

from evenkeel.config.build import make_net, parts_of
from evenkeel.config.schema import OF_SIGNATURE, SUPPLIED
from evenkeel.errors import SettingsError
from evenkeel.learning import checkpoint
from evenkeel.learning.labels import LabelMap
from evenkeel.learning.learner import Learner
from evenkeel.service.config import ServiceConfig


def tables_of(path: Path) -> dict[str, Any]:
    """Return the config of a service for the learner in a file: its parts, settings, labels and kind of samples."""
    facts, tensors = checkpoint.read(path)
    labels = LabelMap.from_state(facts["labels"])
    if not all(isinstance(name, str | int) and not isinstance(name, bool) for name in labels.names):
        raise SettingsError(f"{str(path)!r} has labels that a service cannot name: texts or whole numbers are needed.")
    settings = facts["settings"]
    learner = {name: value for name, value in settings.items() if name in OF_SIGNATURE}
    if facts["normalize"] is not None:
        learner["normalize"] = dict(zip(("mean", "std"), facts["normalize"], strict=True))
    group = tensors["optimizer"]["param_groups"][0]
    optimizer = {name: group[name] for name in ("lr", "momentum", "weight_decay") if name in group}
    parts = {kind: facts[kind] for kind in ("net", "method", "adaptor", "augment")}
    return {
        "seed": settings["seed"],
        "input": _input(path, facts["sample"]),
        "classes": labels.names if labels.fixed else None,
        "memory": {name: value for name, value in facts["memory"].items() if name in ("capacity", "policy")},
        "optimizer": {"name": facts["optimizer"]["class"], **optimizer},
        "learner": {**learner, "head": "fixed" if labels.fixed else "growing"},
        **{kind: _table(recipe) for kind, recipe in parts.items() if recipe is None or "class" not in recipe},
    }


def _table(recipe: Any) -> Any:
    """Return the recipe of a part as a table of a config: without what a config finds out by itself."""
    if isinstance(recipe, list):
        return [_table(each) for each in recipe]
    if recipe is None:
        return {"name": "none"}
    table = {name: value for name, value in recipe.items() if name not in SUPPLIED}
    return {**table, "encoder": _table(table["encoder"])} if "encoder" in table else table


def _input(path: Path, sample: dict[str, Any]) -> dict[str, Any]:
    shape = sample["shape"]
    if sample["uint8"] and shape is not None and len(shape) == 3 and shape[0] in (1, 3):
        return {"channels": shape[0], "size": shape[1:]}
    if not sample["uint8"] and shape is not None and len(shape) == 1:
        return {"features": shape[0]}
    if sample["uint8"] and shape == []:
        return {"text": True}
    known = "has learned nothing yet" if shape is None else f"takes samples of shape {tuple(shape)}"
    raise SettingsError(f"{str(path)!r} {known}; a service takes vectors, texts, or uint8 images with 1 or 3 channels.")


def learner_from(path: Path, config: ServiceConfig) -> Learner:
    """Return the learner in a file, with memory and optimizer. Parts of the user's own are those of the config."""
    facts, tensors = checkpoint.read(path)
    own = dict.fromkeys(("net", "method", "adaptor"))
    given = {kind for kind in own if facts[kind] is not None and "class" in facts[kind]}
    parts: dict[str, Any] = {kind: part for kind, part in parts_of(config).items() if kind in given}
    if "net" in given:
        state = tensors["net"]
        first = next(value for name, value in state.items() if name in ("head.weight", "head.parts.0.weight"))
        parts["net"] = make_net(config, config.input.sample, len(first))
    return Learner.load(path, device=config.device, **parts)


def require_own_parts(path: Path, overrides: dict[str, Any]) -> None:
    """Raise SettingsError if a part of the learner is of the user's own, and nothing names it."""
    facts, _ = checkpoint.read(path)
    for kind, option in (("net", "--net"), ("method", "--set method.name="), ("adaptor", "--set adaptor.name=")):
        recipe = facts[kind]
        if recipe is not None and "class" in recipe and "name" not in overrides.get(kind, {}):
            raise SettingsError(
                f"The {kind} of {str(path)!r} is your own {recipe['class']}, which a file cannot hold. Name what makes "
                f"it: {option}{' ' * (kind == 'net')}my_package.my_module:name."
            )
