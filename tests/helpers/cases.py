"""Which cases of a large product run in `make test`: so many that all pairs of values occur."""

from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import combinations

import pytest
from _pytest.mark import ParameterSet

Case = tuple[Hashable, ...]
Group = tuple[tuple[int, Hashable], ...]  # some values of a case, each with its place


def thinned(cases: Iterable[Case], together: int = 2) -> list[ParameterSet]:
    """Return all cases as parameters of a test; those that `covering` can do without are marked as slow."""
    every = list(cases)
    enough = covering(every, together)
    return [pytest.param(*case, marks=[] if case in enough else [pytest.mark.slow]) for case in every]


def covering(cases: Iterable[Case], together: int = 2) -> set[Case]:
    """Return few of the cases that hold every value of all cases (together=1), or every pair of values (2).

    Greedy: next comes a case that adds most, and among those one whose values were used least.
    """
    groups = {case: set(_groups(case, together)) for case in cases}
    missing, used, chosen = set[Group]().union(*groups.values()), Counter[Group](), set[Case]()
    while missing:
        best = max(groups, key=lambda case: (len(groups[case] & missing), -sum(used[one] for one in _groups(case, 1))))
        missing -= groups.pop(best)
        used.update(_groups(best, 1))
        chosen.add(best)
    return chosen


def _groups(case: Case, size: int) -> Iterable[Group]:
    return combinations(enumerate(case), size)
