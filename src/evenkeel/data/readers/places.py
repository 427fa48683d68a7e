"""Where data may lie: the folder given, that of EVENKEEL_DATA, the user's cache."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from evenkeel.errors import DataError

Found = TypeVar("Found")


def cache_home() -> Path:
    """EVENKEEL_CACHE, or the folder the system has for caches."""
    from platformdirs import user_cache_dir

    return Path(os.environ.get("EVENKEEL_CACHE") or user_cache_dir("evenkeel"))


def places(root: Path | None) -> list[Path]:
    """The folders a known set is looked for in, in this order."""
    return list(dict.fromkeys([*_given(root), cache_home() / "data"]))


def find(name: str, root: Path | None, look: Callable[[Path], Found | None], looked_for: Sequence[str]) -> Found:
    """What `look` finds in the first place that has it."""
    searched = places(root)
    for place in searched:
        found = look(place)
        if found is not None:
            return found
    raise DataError(
        f"The data set {name} is not in {_either(searched)}: looked for {_either(looked_for)}; "
        f"`evenkeel data get {name}` downloads it."
    )


def existing(path: str | Path, root: Path | None) -> Path:
    """A path of the user's, which if relative is tried under the places given and then from here."""
    wanted = Path(path).expanduser()
    tried = [place / wanted for place in (*_given(root), Path.cwd())]
    if wanted.is_absolute():
        tried = [wanted]
    for one in tried:
        if one.exists():
            return one
    raise DataError(f"There is no {_either(list(dict.fromkeys(tried)))} (path={str(path)!r}).")


def _given(root: Path | None) -> list[Path]:
    from_environment = os.environ.get("EVENKEEL_DATA")
    return [Path(place).expanduser() for place in (root, from_environment) if place]


def _either(items: Sequence[object]) -> str:
    names = [str(item) for item in items]
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
