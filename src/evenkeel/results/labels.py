"""Labels that tell runs apart: their names, and where several share one, the settings in which they differ."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

APART = ("seed", "threads")  # settings that may differ within a group: threads change only the last bits
DATA = "data.name"
ENOUGH = 3  # settings in a label, unless it takes more to tell it from all others
Settings = Mapping[str, Any]  # by "part.setting"


def flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings of a config as ("part.setting", value), without what is too long to be read."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{key}.")
        elif value and isinstance(value, list) and all(isinstance(each, Mapping) and "name" in each for each in value):
            # parts in order
            yield f"{above}{key}", " + ".join(str(each["name"]) for each in value)
            for place, each in enumerate(value):
                yield from flat(each, f"{above}{key}[{place}].")
        elif key not in ("digest", "classes"):
            yield f"{above}{key}", value


def labels(names: Sequence[str], settings: Sequence[Settings]) -> list[str]:
    """Return a label for each of these; namesakes with equal settings get the same.

    >>> labels(["ER", "ER", "CBA"], [{"memory.capacity": size} for size in (20, 50, 20)])
    ['ER (memory 20)', 'ER (memory 50)', 'CBA']

    Where the data sets differ, what follows from the data set is left out:

    >>> labels(["ER", "ER"], [{"mean": 0.4, "data.name": "mnist"}, {"mean": 0.5, "data.name": "svhn"}])
    ['ER (data mnist)', 'ER (data svhn)']

    The same goes for what follows from the name of a part:

    >>> labels(["ER", "ER"], [{"augment.name": "flip", "augment.rate": 0.5}, {"augment.name": "crop"}])
    ['ER (augment flip)', 'ER (augment crop)']
    """
    keys = [key for each in settings for key in each]
    made = []
    for name, own in zip(names, settings, strict=True):
        others = [other for other, namesake in zip(settings, names, strict=True) if namesake == name]
        differences = ", ".join(f"{short(key, keys)} {value_text(own[key])}" for key in _differing(own, others))
        made.append(f"{name} ({differences})" if differences else name)
    return made


def numbered(texts: Sequence[str]) -> list[str]:
    """Return distinct texts: those that occurred before get a number.

    >>> numbered(["ER", "ER", "CBA"])
    ['ER', 'ER #2', 'CBA']
    """
    uses, distinct = Counter[str](), list[str]()
    for text in texts:
        uses[text] += 1
        distinct.append(f"{text} #{uses[text]}" if uses[text] > 1 else text)
    return distinct


def short(key: str, keys: Sequence[str]) -> str:
    """Return the shortest name of a setting that means no other of these `keys`.

    >>> keys = ["memory.capacity", "optimizer.lr", "optimizer.momentum", "adaptor.lr", "net.name"]
    >>> [short(key, keys) for key in keys]
    ['memory', 'optimizer lr', 'momentum', 'adaptor lr', 'net']
    """
    above, _, last = key.rpartition(".")
    if last in ("name", "capacity"):  # what people mean by the part itself
        return above.replace(".", " ") or last
    alike = {other for other in keys if other.rpartition(".")[2] == last}
    return last if alike <= {key} else key.replace(".", " ")


def value_text(value: object) -> str:
    """Return a value as in TOML, lists without brackets and only the beginning of long ones, a part by its name.

    >>> value_text(True), value_text([256, 128]), value_text([3, 1, 0, 2]), value_text(0.1)
    ('true', '256, 128', '3, 1, ...', '0.1')
    >>> value_text({"name": "prior", "tau": 0.5})
    'prior, tau 0.5'
    """
    if isinstance(value, Mapping):
        return ", ".join(
            value_text(each) if name == "name" else f"{name} {value_text(each)}" for name, each in value.items()
        )
    if isinstance(value, list | tuple):
        return ", ".join([*map(value_text, value[:2]), *["..."] * (len(value) > 2)])
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _differing(own: Settings, others: Sequence[Settings]) -> list[str]:
    """Return the first settings in which `own` differs from the others: so many that they tell it from all of them."""
    differ = [key for key in own if key not in APART and any(other.get(key) != own[key] for other in others)]
    named = [key for key in differ if key.endswith(".name")]
    differ = [key for key in differ if not any(_follows(key, name, others) for name in named)]
    if DATA in differ:
        differ.sort(key=lambda key: key != DATA)

    def is_distinct(by: Sequence[str]) -> bool:
        return all(other == own or any(other.get(key) != own[key] for key in by) for other in others)

    return next((differ[:count] for count in range(ENOUGH, len(differ)) if is_distinct(differ[:count])), differ)


def _follows(key: str, name: str, others: Sequence[Settings]) -> bool:
    """Return whether a setting has one value for each name of its part, or of the data set: it tells no more."""
    if key == name or not (name == DATA or key.startswith(name.removesuffix("name"))):
        return False
    by_name = {(other.get(name), str(other.get(key))) for other in others}
    return len(by_name) == len({other.get(name) for other in others})
