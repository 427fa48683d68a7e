"""Where to look for data: in the folder given, in that of EVENKEEL_DATA, in the user's cache."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from evenkeel.errors import DataError

Found = TypeVar("Found")
DOWNLOADABLE = ("cifar10", "cifar100", "tiny-imagenet", "fashion-mnist", "mnist")  # by `evenkeel data get`


def cache_home() -> Path:
    """Return EVENKEEL_CACHE, or the system's folder for caches."""
    from platformdirs import user_cache_dir

    return Path(os.environ.get("EVENKEEL_CACHE") or user_cache_dir("evenkeel"))


def places(root: Path | None) -> list[Path]:
    """Return the folders to search for a known set, in this order."""
    return list(dict.fromkeys([*_named_places(root), cache_home() / "data"]))


def find(name: str, root: Path | None, look: Callable[[Path], Found | None], looked_for: Sequence[str]) -> Found:
    """Return what `look` finds in the first place that has it; raise DataError if none has."""
    searched = places(root)
    for place in searched:
        found = look(place)
        if found is not None:
            return found
    raise DataError(
        f"The data set {name} is not in {_either(searched)}: looked for {_either(looked_for)}"
        + (f"; `evenkeel data get {name}` downloads it." if name in DOWNLOADABLE else ". Download it from its authors.")
    )


def existing(path: str | Path, root: Path | None) -> Path:
    """Return the user's path if it exists; a relative one is tried in root, EVENKEEL_DATA and the working folder."""
    wanted = Path(path).expanduser()
    tried = [place / wanted for place in (*_named_places(root), Path.cwd())]
    if wanted.is_absolute():
        tried = [wanted]
    for one in tried:
        if one.exists():
            return one
    raise DataError(f"There is no {_either(list(dict.fromkeys(tried)))} (path={str(path)!r}).")


def _named_places(root: Path | None) -> list[Path]:
    if root is not None and not Path(root).expanduser().is_dir():
        raise DataError(f"There is no folder {str(root)!r} to look for data in.")
    from_environment = os.environ.get("EVENKEEL_DATA")
    return [Path(place).expanduser() for place in (root, from_environment) if place]


def _either(items: Sequence[object]) -> str:
    names = [str(item) for item in items]
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
