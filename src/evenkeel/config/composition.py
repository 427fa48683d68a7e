"""Presets by composition: `paper/cifar10-blurry-er-cba` is read as its parts, merged in the order of its name."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from evenkeel.errors import SettingsError, nearest

PRESETS = Path(str(files("evenkeel.config"))) / "presets"
FAMILIES = ("paper", "keel")  # presets/<family>.toml
KINDS = ("data", "setting", "method", "variant")  # in the order of a name; each but the first may be left out
PARTS_ALONE = "with"  # with/cba: parts of a family, to change another config
NOTES = ("about", "title", "extends", "with", "base")  # what a part says besides settings


@cache
def family(name: str) -> dict[str, Any]:
    """Read the parts of a family of presets, by kind."""
    return {**{kind: {} for kind in KINDS}, **_tables(name)}


def _tables(name: str) -> dict[str, Any]:
    return tomllib.loads((PRESETS / f"{name}.toml").read_text(encoding="utf-8"))


def compose(family_name: str, name: str, *, alone: bool = False) -> dict[str, Any]:
    """Return the tables of a preset, or raise SettingsError with the parts there are.

    alone: only the parts named, without a data set and what all presets of the family share, to change another config.
    """
    kinds = KINDS[1:] if alone else KINDS
    parts = _parts(family(family_name), name, kinds)
    if parts is None or (not alone and parts[0][0] not in family(family_name)["data"]):
        there = "; ".join(f"{kind}: {', '.join(some)}" for kind in kinds if (some := family(family_name)[kind]))
        whole = f"{PARTS_ALONE if alone else family_name}/{name}"
        raise SettingsError(
            f"There is no preset {whole!r}. Its name is made of these, in this order, with - between them: {there}."
            f"{nearest(whole, _alone(family_name) if alone else names(family_name))}"
        )
    tables = {} if alone else merged(_base(parts[0][1]), family(family_name)["all"])
    for place, (key, part) in enumerate(parts):
        tables = merged(tables, part)
        for _, before in parts[:place]:  # what only a pair of parts has
            tables = merged(tables, before.get("with", {}).get(key, {}))
    title = "".join(part.get("title", "") for _, part in parts)
    if title and "method" in tables:
        tables["name"] = f"*{title}"
    return {key: value for key, value in tables.items() if key not in NOTES}


def _base(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the preset that a part changes, of another family or of none; no tables if there is none."""
    first, _, name = part.get("base", "").partition("/")
    return compose(first, name) if name else _tables(first) if first else {}


def names(family_name: str) -> Iterator[str]:
    """Return the names of all combinations of the family's parts."""
    kinds = [["", *family(family_name)[kind]] for kind in KINDS]
    for parts in product(kinds[0][1:], *kinds[1:]):
        yield f"{family_name}/{'-'.join(part for part in parts if part)}"


def about(family_name: str, name: str) -> str:
    """Return what the parts that a preset's name is made of say of themselves."""
    parts = _parts(family(family_name), name.removeprefix(f"{family_name}/"), KINDS) or []
    said_better = {part.get("extends") for _, part in parts if "about" in part}
    return "; ".join(part["about"] for key, part in parts if "about" in part and key not in said_better)


def _alone(family_name: str) -> Iterator[str]:
    """Return the names of single parts, to change another config with."""
    return (f"{PARTS_ALONE}/{part}" for kind in KINDS[1:] for part in family(family_name)[kind])


def _parts(parts: Mapping[str, Any], name: str, kinds: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]] | None:
    """Return the parts that a name is made of, each after the one it extends; None if something is left over."""
    named, rest = [], name
    for kind in kinds:
        key = max((key for key in parts[kind] if f"{rest}-".startswith(f"{key}-")), key=len, default=None)
        if key is not None:
            base = parts[kind][key].get("extends")
            named += [(each, parts[kind][each]) for each in (base, key) if each]
            rest = rest[len(key) + 1 :]
    return None if rest or not named else named


def merged(base: Mapping[str, Any], change: Mapping[str, Any], *, other_part: bool = True) -> dict[str, Any]:
    """Return `change` on top of `base`. A table with another name is another part: the old one's settings are dropped.

    Not so if both come from one command (`other_part` is False): there the order does not matter.
    """
    result = dict(base)
    for key, value in change.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            other = other_part and "name" in value and value["name"] != old.get("name")
            result[key] = dict(value) if other else merged(old, value, other_part=other_part)
        else:
            result[key] = value
    return result


def nested(settings: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return settings by "part.setting" as tables.

    >>> nested([("memory.capacity", 20), ("memory.policy", "balanced"), ("threads", 1)])
    {'memory': {'capacity': 20, 'policy': 'balanced'}, 'threads': 1}
    """
    tables: dict[str, Any] = {}
    for name, value in settings:
        change = value
        for part in reversed(name.split(".")):
            change = {part: change}
        tables = merged(tables, change, other_part=False)
    return tables
