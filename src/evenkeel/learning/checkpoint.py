"""The whole state of a learner in one file: tensors that load with `weights_only=True`, and JSON for the rest.

The file is written next to its destination, read back, flushed to the disk, and renamed: a reader of the path sees
either the old checkpoint or the new one, complete.
"""

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.optim import Optimizer

from evenkeel.errors import CheckpointError
from evenkeel.files import replacing
from evenkeel.learning.adaptors import ADAPTORS, Adaptor
from evenkeel.learning.augment import Augment, augment_facts, rebuild_augment
from evenkeel.learning.checkpoint_1 import from_format_1
from evenkeel.learning.encoder import ENCODERS
from evenkeel.learning.memory import MEMORIES, Memory
from evenkeel.learning.methods import METHODS, Method
from evenkeel.learning.nets import Net
from evenkeel.learning.optimizers import MakeOptimizer, make_optimizer_again, optimizer_facts
from evenkeel.learning.pretrained import MODELS, with_encoder
from evenkeel.learning.registry import describe, rebuild
from evenkeel.learning.rng import derive, global_seed
from evenkeel.learning.step import Step
from evenkeel.learning.zoo import NETS

FORMAT = 2
KIND = "evenkeel learner"


def write(path: str | os.PathLike[str], facts: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Write a checkpoint. `facts` must be JSON; `tensors` nested dicts and lists of tensors and numbers."""
    target = Path(path)
    if target.is_dir():
        raise CheckpointError(f"Cannot save to {str(target)!r}: it is a folder. Give the name of a file.")
    if not target.parent.is_dir():
        raise CheckpointError(f"Cannot save to {str(target)!r}: the folder {str(target.parent)!r} does not exist.")
    content = {
        "kind": KIND,
        "format": FORMAT,
        "facts": json.dumps(_portable(facts)),
        "tensors": _portable(tensors),
    }
    with replacing(target) as file:
        torch.save(content, file)
        file.flush()
        torch.load(file.name, map_location="cpu", weights_only=True)  # an unreadable file must replace nothing


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the facts and tensors of a checkpoint. Nothing in an untrusted file is ever executed."""
    if not Path(path).is_file():
        raise CheckpointError(f"There is no file {str(path)!r}.")
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        content = None if damaged else torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # an untrusted file can make its readers fail in any way
        raise CheckpointError(
            f"{str(path)!r} is not a complete checkpoint: it is truncated, damaged, or another kind of file."
        ) from error
    if damaged:
        raise CheckpointError(f"{str(path)!r} is damaged (its part {damaged!r} fails its checksum).")
    if not isinstance(content, dict) or content.get("kind") != KIND or not isinstance(content.get("format"), int):
        raise CheckpointError(f"{str(path)!r} is a torch file, but not a checkpoint of an evenkeel learner.")
    if not 1 <= content["format"] <= FORMAT:
        raise CheckpointError(
            f"{str(path)!r} has checkpoint format {content['format']}, but this version of evenkeel reads formats 1 to "
            f"{FORMAT}. Upgrade evenkeel to load it."
        )
    facts, tensors = json.loads(content["facts"]), content["tensors"]
    return from_format_1(facts, tensors, path) if content["format"] == 1 else (facts, tensors)


def _portable(value: Any) -> Any:
    """Return the same on the CPU, and numpy's numbers as Python's: neither JSON nor torch accepts those."""
    if isinstance(value, dict):
        return {name: _portable(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_portable(inner) for inner in value]
    if isinstance(value, torch.Tensor):
        return value.cpu()
    return value.item() if isinstance(value, np.generic) else value


def facts_of(step: Step) -> dict[str, Any]:
    """Return the description of all parts, as JSON."""
    net = step.net
    return {
        "net": net.recipe or {"class": type(net).__name__},
        "cosine": net.cosine_scale is not None,
        "growth": net.growth,
        "frozen": [name for name, weight in net.named_parameters() if not weight.requires_grad],
        "evaluating": [name for name, part in net.named_modules() if not part.training],
        "method": describe(step.method, METHODS),
        "adaptor": step.adaptor and describe(step.adaptor, ADAPTORS),
        "memory": describe(step.memory, MEMORIES),
        "optimizer": optimizer_facts(step.optimizer, net),
        "augment": augment_facts(step.augment),
        "normalize": step.inputs.normalize,
        **({} if net.encoder is None else {"encoder": net.encoder.digest}),
        "sample": {"shape": step.inputs.shape, "uint8": step.inputs.dtype == torch.uint8},
    }


def tensors_of(step: Step) -> dict[str, Any]:
    """Return the state of all parts as nested dicts of tensors, not copied."""
    return {
        "net": step.net.state_dict(),
        "method": step.method.state_dict(),
        "adaptor": None if step.adaptor is None else step.adaptor.state_dict(),
        "memory": step.memory.state_dict(),
        "optimizer": step.optimizer.state_dict(),
        "streams": step.generators.state_dict(),
        "average": None if step.average is None else step.average.state_dict(),
    }


def rebuild_parts(
    facts: Mapping[str, Any],
    *,
    net: Net | None,
    method: Method | None,
    adaptor: Adaptor | None,
    memory: Memory | None,
    optimizer: Optimizer | MakeOptimizer | None,
    augment: Augment | Sequence[Augment] | None,
) -> dict[str, Any]:
    """Return the parts that `facts` describe, as arguments of a learner; a user's own parts are those passed in."""
    rebuilt = net is None
    with global_seed(derive(facts["settings"]["seed"], "net")):  # as it was built, for weights that are not loaded
        recipe = {name: value for name, value in facts["net"].items() if name != "encoder"}
        net = rebuild(recipe, net, NETS, "net")
    if net.recipe is None and "name" in recipe:  # of a user's own function, known by name
        net.recipe = recipe
    if "encoder" in facts["net"] and net.encoder is None:
        with global_seed(derive(facts["settings"]["seed"], "net")):
            module = rebuild(facts["net"]["encoder"], None, MODELS, "encoder")
        with_encoder(net, module, facts["net"]["encoder"])
    if rebuilt and net.encoder is not None:  # one that this process has is shared
        net.encoder = ENCODERS.get(facts.get("encoder", ""), net.encoder)
    encoder = None if net.encoder is None else net.encoder.digest
    if encoder != facts.get("encoder"):
        raise CheckpointError(
            f"The checkpoint's encoder is {facts.get('encoder') or 'none'}, but the net has {encoder or 'none'}: they "
            "differ in structure or weights. Give the net with the encoder that this learner was made with."
        )
    if facts.get("cosine"):
        net.make_cosine()
    for outputs in facts["growth"]:
        if outputs > net.outputs:
            net.grow(outputs, seed=0)
    return {
        "net": net,
        "method": rebuild(facts["method"], method, METHODS, "method"),
        "adaptor": rebuild(facts["adaptor"], adaptor, ADAPTORS, "adaptor"),
        "memory": rebuild(facts["memory"], memory, MEMORIES, "memory"),
        "optimizer": make_optimizer_again(facts["optimizer"], optimizer, net),
        "augment": rebuild_augment(facts["augment"], augment),
        "normalize": facts["normalize"],
    }


def fill(step: Step, facts: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    """Load the saved state into newly built parts."""
    net = step.net
    if facts["sample"]["shape"] is not None:
        step.inputs.shape = tuple(facts["sample"]["shape"])
        step.inputs.dtype = torch.uint8 if facts["sample"]["uint8"] else next(net.head.parameters()).dtype
    for name, weight in net.named_parameters():
        weight.requires_grad_(name not in facts["frozen"])
    for name, part in net.named_modules():
        part.training = name not in facts["evaluating"]
    net.load_state_dict(tensors["net"])
    step.method.load_state_dict(tensors["method"])
    step.optimizer.load_state_dict(tensors["optimizer"])
    step.memory.load_state_dict(tensors["memory"])
    step.generators.load_state_dict(tensors["streams"])
    if step.adaptor is not None:
        step.adaptor.load_state_dict(tensors["adaptor"])
    if step.average is not None:
        step.average.load_state_dict(tensors["average"])
