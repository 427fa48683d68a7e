"""What a shell offers after TAB. It waits for the answer, so nothing heavy may be imported: names of files and TOML."""

from collections.abc import Iterable, Iterator
from itertools import accumulate

from evenkeel.config.composition import FAMILIES, PRESETS, family, names


def presets(incomplete: str) -> list[str]:
    """Return the presets that begin so; composed names part by part, because there are more than a thousand."""
    own = [path.stem for path in sorted(PRESETS.glob("*.toml")) if path.stem not in FAMILIES]
    opened = [each for each in FAMILIES if incomplete.startswith(f"{each}/")]
    closed = [f"{each}/" for each in FAMILIES if each not in opened]
    return [
        *_beginning(incomplete, [*own, *closed]),
        *(name for each in opened for name in _shortest(incomplete, each)),
    ]


def methods(incomplete: str) -> list[str]:
    """Return the methods that complete a list such as er,der."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _beginning(last, family("paper")["method"])]


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _shortest(incomplete: str, family_name: str) -> Iterator[str]:
    """Yield the composed names that begin so, without those that only add parts to another of them."""
    matching = dict.fromkeys(_beginning(incomplete, names(family_name)))
    for name in matching:
        *shorter, _ = accumulate(name.split("-"), lambda left, right: f"{left}-{right}")
        if not any(each in matching for each in shorter):
            yield name
