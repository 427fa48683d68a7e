"""Checkpoints of format 1, which version 0.1 wrote, read as what this version writes."""

import os
from typing import Any

from evenkeel.errors import CheckpointError
from evenkeel.learning.registry import Recipe

PARTS = ("net", "method", "adaptor", "memory", "augment")


def from_format_1(
    facts: dict[str, Any], tensors: dict[str, Any], path: str | os.PathLike[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return facts and tensors of format 1 as those of today."""
    if facts["method"]["class"] == "RAR":
        facts, tensors = _without_rar(facts, tensors, path)
    facts = {**facts, **{part: facts[part] and _recipe(facts[part]) for part in PARTS}}
    facts["memory"].pop("held_out", None)
    return facts, _with_own_memory(tensors)


def _recipe(old: dict[str, Any]) -> Recipe:
    """Convert {"class": ..., "name": ..., "settings": {...}}; the last two are absent for a user's own class."""
    return {"name": old["name"], **old["settings"]} if "name" in old else {"class": old["class"]}


def _with_own_memory(tensors: dict[str, Any]) -> dict[str, Any]:
    """Read samples that were held out, a part of the memory, as part of the method's state (BiC)."""
    memory, own = dict(tensors["memory"]), ("held", "salt", "spared")
    apart = {"_extra_state": {name: memory.pop(name) for name in own}} if "held" in memory else {}
    return {**tensors, "memory": memory, "method": {**tensors["method"], **apart}}


def _without_rar(
    facts: dict[str, Any], tensors: dict[str, Any], path: str | os.PathLike[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read RAR, a method around another, as that method and the learner's repeats."""
    if "name" not in facts["method"]:
        raise CheckpointError(
            f"{str(path)!r} was written by version 0.1 with RAR around a method of your own, which this version cannot "
            "continue: the file does not say how often it repeats."
        )
    rar = facts["method"]["settings"]
    settings = {**facts["settings"], "repeats": rar["repeats"]}
    weights = {name.removeprefix("base."): value for name, value in tensors["method"].items()}
    return {**facts, "method": rar["base"], "settings": settings}, {**tensors, "method": weights}
