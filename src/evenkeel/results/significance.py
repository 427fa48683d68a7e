"""Paired comparison of two sides, run by run: differences, significance tests, correction for multiple testing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, stdev

from evenkeel.errors import RunError, nearest
from evenkeel.results.groups import (
    ENOUGH,
    Estimate,
    Group,
    benchmark,
    comparable,
    gain,
    groups,
    paired,
    pairs,
    place_names,
)
from evenkeel.results.measures import MEASURES
from evenkeel.results.run_files import Results
from evenkeel.results.table import Cell, ResultTable, Row

LEVEL = 0.05  # a corrected p below this gets a star


@dataclass(frozen=True)
class Comparison:
    """One measure of two groups, over the finished runs that both have: those with the same seed and stream."""

    runs: str  # the labels of the groups
    measure: str
    n: int  # number of pairs that have the measure
    a: float | None  # mean over the paired runs
    b: float | None
    difference: Estimate | None  # b - a
    t: float | None  # p of the paired t-test; None if undefined
    wilcoxon: float | None
    t_corrected: float | None = None
    wilcoxon_corrected: float | None = None
    measured: bool = True  # False: there are pairs, but none has the measure

    @property
    def significant(self) -> bool:
        """Return whether the t-test, which matches the interval, is significant; with few pairs Wilcoxon's never is."""
        return self.t_corrected is not None and self.t_corrected < LEVEL

    @property
    def verdict(self) -> str:
        if not self.measured:
            return "not measured"
        if self.n < ENOUGH:
            return f"{self.n or 'no'} run{'s' * (self.n != 1)} in common, no test"
        if not self.significant or self.difference is None:
            return ""
        higher = MEASURES[self.measure].higher_is_better
        if higher is None:
            return "* they differ"
        return f"* {'B' if (self.difference.mean > 0) == higher else 'A'} is better"


def compare(sides: Sequence[tuple[Group, Group]], names: Sequence[str]) -> list[Comparison]:
    """Compare each measure of each pair of groups; p values are corrected over all of them, per kind of test."""
    rows = [_comparison(name, a, b) for a, b in sides for name in names]
    t, wilcoxon = holm([row.t for row in rows]), holm([row.wilcoxon for row in rows])
    return [
        replace(row, t_corrected=first, wilcoxon_corrected=second)
        for row, first, second in zip(rows, t, wilcoxon, strict=True)
    ]


def _comparison(name: str, a: Group, b: Group) -> Comparison:
    label = a.label if a.label == b.label else f"{a.label} against {b.label}"
    # Runs on different data are not paired, even if their seeds are equal.
    common = paired(a, b) if a.runs[0].started.data == b.runs[0].started.data else []
    measured = [(MEASURES[name].of(one), MEASURES[name].of(other)) for one, other in common]
    values = [(one, other) for one, other in measured if one is not None and other is not None]
    if not values:
        return Comparison(label, name, 0, None, None, None, None, None, measured=not common)
    # Rounded so that values that differ only in the last bits of a float count as equal.
    differences = [round(other - one, 9) for one, other in values] if len(values) >= ENOUGH else []
    return Comparison(
        label,
        name,
        len(values),
        fmean(one for one, _ in values),
        fmean(other for _, other in values),
        gain(MEASURES[name], common),
        paired_t(differences),
        signed_rank(differences),
    )


def paired_t(differences: Sequence[float]) -> float | None:
    """Return p of Student's paired t-test, two-sided.

    None for fewer than two pairs, and if all pairs differ by the same amount: without spread there is no t, and a p of
    0 would feign certainty.
    """
    from scipy.special import stdtr  # the distribution itself: scipy.stats takes a second to import

    n = len(differences)
    if n < 2:
        return None
    if not any(differences):
        return 1.0
    spread = stdev(differences)
    return float(2 * stdtr(n - 1, -abs(fmean(differences)) * sqrt(n) / spread)) if spread else None


def signed_rank(differences: Sequence[float]) -> float | None:
    """Return p of Wilcoxon's signed-rank test, two-sided; None for fewer than two pairs.

    Exact for any number of pairs and with ties, where scipy's result depends on its version: all ways to assign signs
    to the ranks are counted by the sum of the positive ranks. Pairs without a difference are left out, as in Wilcoxon's
    own test.
    """
    if len(differences) < 2:
        return None
    nonzero = [each for each in differences if each]
    sizes = [abs(each) for each in nonzero]
    # Doubled, as ties share the mean of their ranks, which may be a half.
    ranks = [1 + sum((other < size) + (other <= size) for other in sizes) for size in sizes]
    upward = sum(rank for rank, each in zip(ranks, nonzero, strict=True) if each > 0)
    smaller = min(upward, sum(ranks) - upward)
    ways = [1] + [0] * smaller  # by sum, up to the observed one
    for rank in ranks:
        ways = [count + (ways[total - rank] if total >= rank else 0) for total, count in enumerate(ways)]
    return min(1.0, 2 * sum(ways) / (1 << len(ranks)))


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Return p values corrected for their number by Holm's method; those that are None do not count.

    >>> holm([0.01, None, 0.25, 0.02])
    [0.03, None, 0.25, 0.04]
    """
    corrected: list[float | None] = [None] * len(values)
    ordered = sorted((p, place) for place, p in enumerate(values) if p is not None)
    highest = 0.0
    for rank, (p, place) in enumerate(ordered):
        highest = max(highest, min(1.0, p * (len(ordered) - rank)))
        corrected[place] = highest
    return corrected


def side_by_side(
    a: Sequence[Results], b: Sequence[Results], names: Sequence[str], *, called: tuple[str, str] = ("first", "second")
) -> ResultTable:
    """Compare groups of `a` and `b` with equal settings, or else equal labels; if each has only one group, these."""
    first, second = groups(a), groups(b)
    by_setting, by_label = ({getattr(group, by): group for group in second} for by in ("setting", "label"))
    matches = [(group, by_setting.get(group.setting) or by_label.get(group.label)) for group in first]
    sides = [(one, other) for one, other in matches if other is not None]
    if len(first) == len(second) == 1:
        sides = [(first[0], second[0])]
    if not sides:
        raise RunError(
            f"Nothing to compare: no method is on both sides. {called[0]!r} has {_listed(_labels(first))}; "
            f"{called[1]!r} has {_listed(_labels(second))}. Give folders with one method each to compare two methods."
        )
    matched = {id(group) for pair in sides for group in pair}
    notes = []
    for name, side in zip("AB", (first, second), strict=True):
        if alone := [group for group in side if id(group) not in matched]:
            notes.append(f"Only in {name}: {_listed(_labels(alone))}.")
    return _table(sides, names, called, notes)


def by_adaptor(runs: Sequence[Results], names: Sequence[str]) -> ResultTable:
    """Compare each method without an adaptor to the same method with it."""
    candidates = groups(runs)
    sides = pairs(candidates)
    if not sides:
        raise RunError(
            f"Nothing to compare: no two of these differ only in the adaptor: {_listed(_labels(candidates))}. "
            "Give two folders to compare the runs of one with those of the other."
        )
    adaptors = " or ".join(dict.fromkeys(with_.adaptor for _, with_ in sides))
    return _table(sides, names, (f"without {adaptors}", f"with {adaptors}"), [])


def against(label: str, runs: Sequence[Results], names: Sequence[str]) -> list[ResultTable]:
    """Compare each other method to the one with this label: a table per data set, scenario and memory that have it."""
    members = {place: groups(each) for place, each in _places(runs).items()}
    ones = {place: _called(label, each) for place, each in members.items()}
    if not any(ones.values()):
        known = list(dict.fromkeys(group.label for each in members.values() for group in each))
        raise RunError(f"There is no method {label!r} among {_listed(known)}.{nearest(label, known)}")
    tables = []
    for place, one in ones.items():
        sides = [(other, group) for group in one for other in members[place] if other is not group]
        if sides:
            table = _table(sides, names, ("the other method", label), [])
            tables.append(table.on(place) if len(members) > 1 else table)
    if not tables:
        raise RunError(f"Nothing to compare: {label} is the only method with its data, scenario and memory.")
    return tables


def _called(label: str, members: Sequence[Group]) -> list[Group]:
    """Return the group with this label, or else all of that name: among namesakes labels have settings too."""
    exact = [group for group in members if group.label == label]
    return exact or [group for group in members if group.runs[0].label == label]


def _places(runs: Sequence[Results]) -> dict[str, list[Results]]:
    """Return the runs by data, scenario and memory; a place has the settings in its name that set it apart."""
    parts = comparable(runs, same_memory=True)
    first = [each[0] for each in parts]
    names = [f"{benchmark(run)}, memory {run.started.config['memory']['capacity']}" for run in first]
    return dict(zip(place_names(first, names), parts, strict=True))


def _labels(members: Sequence[Group]) -> list[str]:
    return [group.label for group in members]


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(map(repr, labels))


def _table(
    sides: Sequence[tuple[Group, Group]], names: Sequence[str], called: tuple[str, str], notes: Sequence[str]
) -> ResultTable:
    rows = compare(sides, names)
    explanations = [
        "n: pairs of finished runs with the same seed and stream; means are over these. p: of the paired t-test and of "
        f"Wilcoxon's test; Holm: p corrected for all tests of its kind in this table. *: Holm (t) is below {LEVEL}. "
        f"Fewer than {ENOUGH} pairs are not tested.",
        f"With n pairs Wilcoxon's p is at least 2^(1-n): with fewer than 6 pairs it is never below {LEVEL}.",
    ]
    if any(row.t is None and row.n >= ENOUGH for row in rows):
        explanations.append("No t-test where all pairs differ by the same amount: t is undefined.")
    return ResultTable(
        title=f"A: {called[0]}, B: {called[1]}; in percent, paired difference ± half of its 95% interval",
        columns=[
            *("runs", "measure", "n", "A", "B", "B - A"),
            *("p (t)", "Holm (t)", "p (Wilcoxon)", "Holm (Wilcoxon)", "verdict"),
        ],
        rows=[_row(row) for row in rows],
        notes=[*explanations, *notes],
    )


def _row(row: Comparison) -> Row:
    return Row.of(
        row.runs,
        Cell(row.measure, MEASURES[row.measure].heading),
        row.n,
        row.a,
        row.b,
        Cell(row.difference, signed=True),
        *map(_p, (row.t, row.t_corrected, row.wilcoxon, row.wilcoxon_corrected)),
        row.verdict,
    )


def _p(value: float | None) -> Cell:
    return Cell(value, "" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}")
