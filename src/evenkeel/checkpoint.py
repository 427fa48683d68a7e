"""One file for everything a learner is: tensors that load with `weights_only=True`, and JSON for the rest.

The file is written beside its destination, read back, flushed to the disk, and renamed: whoever reads the path finds
the old checkpoint or the new one, whole.
"""

import json
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evenkeel.errors import CheckpointError

FORMAT = 1
KIND = "evenkeel learner"


def write(path: str | os.PathLike[str], facts: dict[str, Any], tensors: dict[str, Any]) -> None:
    """`facts` must be JSON; `tensors` nested dicts and lists of tensors and numbers."""
    target = Path(path)
    if target.is_dir():
        raise CheckpointError(f"Cannot save to {str(target)!r}: it is a folder. Give the name of a file.")
    if not target.parent.is_dir():
        raise CheckpointError(f"Cannot save to {str(target)!r}: the folder {str(target.parent)!r} does not exist.")
    content = {"kind": KIND, "format": FORMAT, "facts": json.dumps(_plain(facts)), "tensors": _plain(tensors)}
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        torch.load(partial, map_location="cpu", weights_only=True)  # what cannot be read must not replace what can
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    flush_folder(target.parent)


def write_whole(path: Path, content: bytes) -> None:
    """All of it or nothing, and on the disk when this returns: what it stands in for may then be deleted."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def flush_folder(path: Path) -> None:
    """A file that was renamed in `path` survives a power cut from here on."""
    if os.name == "posix":
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts and tensors of a checkpoint. Nothing in a foreign file is ever executed."""
    if not Path(path).is_file():
        raise CheckpointError(f"There is no file {str(path)!r}.")
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        content = None if damaged else torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a foreign file can make its readers fail in any way
        raise CheckpointError(
            f"{str(path)!r} is not a whole checkpoint: it is truncated, damaged, or another kind of file."
        ) from error
    if damaged:
        raise CheckpointError(f"{str(path)!r} is damaged (its part {damaged!r} fails its checksum).")
    if not isinstance(content, dict) or content.get("kind") != KIND or not isinstance(content.get("format"), int):
        raise CheckpointError(f"{str(path)!r} is a torch file, but not a checkpoint of an evenkeel learner.")
    if content["format"] != FORMAT:
        raise CheckpointError(
            f"{str(path)!r} has checkpoint format {content['format']}, but this version of evenkeel reads format "
            f"{FORMAT}. {'Upgrade evenkeel to load it.' if content['format'] > FORMAT else ''}".rstrip()
        )
    return json.loads(content["facts"]), content["tensors"]


def _plain(value: Any) -> Any:
    """Numbers of numpy (a learning rate from np.logspace, say) as Python's own: neither JSON nor torch takes them."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value
