"""One file for everything a learner is: tensors that load with `weights_only=True`, and JSON for the rest.

The file is written beside its destination, flushed to the disk, and renamed: whoever reads the path finds the old
checkpoint or the new one, whole.
"""

import json
import os
import pickle
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch

from evenkeel.errors import CheckpointError

FORMAT = 1
KIND = "evenkeel learner"


def write(path: str | os.PathLike[str], facts: dict[str, Any], tensors: dict[str, Any]) -> None:
    """`facts` must be JSON; `tensors` nested dicts and lists of tensors and numbers."""
    target = Path(path)
    content = {"kind": KIND, "format": FORMAT, "facts": json.dumps(facts), "tensors": tensors}
    if not target.parent.is_dir():
        raise CheckpointError(f"Cannot save to {str(target)!r}: the folder {str(target.parent)!r} does not exist.")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself must survive a power cut
    finally:
        os.close(folder)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts and tensors of a checkpoint. Nothing in a foreign file is ever executed."""
    if not Path(path).is_file():
        raise CheckpointError(f"There is no file {str(path)!r}.")
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise CheckpointError(f"{str(path)!r} is damaged (its part {damaged!r} fails its checksum).")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (zipfile.BadZipFile, pickle.UnpicklingError, RuntimeError, EOFError, KeyError) as error:
        raise CheckpointError(
            f"{str(path)!r} is not a whole checkpoint: it is truncated, damaged, or another kind of file."
        ) from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise CheckpointError(f"{str(path)!r} is a torch file, but not a checkpoint of an evenkeel learner.")
    if content["format"] != FORMAT:
        raise CheckpointError(
            f"{str(path)!r} has checkpoint format {content['format']}, but this version of evenkeel reads format "
            f"{FORMAT}. {'Upgrade evenkeel to load it.' if content['format'] > FORMAT else ''}".rstrip()
        )
    return json.loads(content["facts"]), content["tensors"]
