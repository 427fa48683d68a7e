"""The table of groups: one row per group of runs, and one per gain by an adaptor."""

from collections.abc import Callable, Sequence
from typing import Any

from evenkeel.results.groups import (
    ENOUGH,
    Group,
    benchmark,
    comparable,
    gain,
    groups,
    key_of,
    paired,
    pairs,
    seeds_text,
)
from evenkeel.results.measures import HEADLINE, MEASURES, Measure
from evenkeel.results.run_files import Results
from evenkeel.results.table import Cell, ResultTable, Row

GAIN = "gain by {adaptor}, paired"


def measures_table(runs: Sequence[Results], names: Sequence[str] = HEADLINE) -> ResultTable:
    """Return means and intervals by group, and the gains by adaptors, paired by seed. Labels need to be distinct only
    among the runs on the same data and scenario, which have a column of their own.
    """
    by_benchmark: dict[str, list[Results]] = {}
    for run in runs:
        by_benchmark.setdefault(benchmark(run), []).append(run)
    grouped = [group for members in by_benchmark.values() for group in groups(members)]
    return groups_table(grouped, [MEASURES[name] for name in names])


def groups_table(
    grouped: Sequence[Group],
    measures: Sequence[Measure],
    title: str = "",
    *,
    sides: Sequence[tuple[Group, Group]] | None = None,
    difference: str = GAIN,
    key: Callable[[Results], Any] = key_of,
    count: bool = False,
) -> ResultTable:
    """Return groups as rows, measures as columns; below the second group of each of `sides`, their paired difference.

    sides: by default (without, with) an adaptor. key: pairs runs. count: add a column with the number of runs.
    """
    first = [group.runs[0] for group in grouped]
    several = len({benchmark(run) for run in first}) > 1
    ranked = len(comparable(first)) == 1  # numbers on different data or streams must not be compared
    by_measure = [_estimates(grouped, measure, ranked=ranked) for measure in measures]
    sides, rows = pairs(grouped) if sides is None else sides, []
    for group, *cells in zip(grouped, *by_measure, strict=True):
        where = [benchmark(group.runs[0])] * several
        done = len(group.finished)
        label = group.label + (f" ({len(group.runs) - done} unfinished)" if len(group.runs) > done else "")
        rows.append(Row.of(*where, label, *cells, *[done] * count))
        for one in [one for one, other in sides if other is group]:
            common = paired(one, group, key)
            change = change_label(group.label, difference.format(adaptor=_added(one, group)))
            gains = [Cell(gain(measure, common), signed=True) for measure in measures]
            rows.append(Row.of(*where, change, *gains, *[len(common)] * count, bold=True))
    columns = ["on"] * several + ["", *(measure.heading for measure in measures)] + ["seeds"] * count
    return ResultTable(title or caption(grouped), columns, rows)


def _added(one: Group, other: Group) -> str:
    """Return the adaptor of the second group, and what it was added to if the group's name does not say that."""
    alone = one.runs[0].label
    return other.adaptor if other.runs[0].label.startswith(f"{alone} + ") else f"{other.adaptor} over {alone}"


def _estimates(grouped: Sequence[Group], measure: Measure, *, ranked: bool) -> list[Cell]:
    """Return the mean of each group; ranked: mark the best, unless all are equal. Bounds are never the best."""
    estimates = [group.estimate(measure) for group in grouped]
    means = {each.mean for group, each in zip(grouped, estimates, strict=True) if each and not group.is_bound}
    best = None
    if ranked and measure.higher_is_better is not None and len(means) > 1:
        best = max(means) if measure.higher_is_better else min(means)
    return [
        Cell(each, best=each is not None and each.mean == best and not group.is_bound)
        for group, each in zip(grouped, estimates, strict=True)
    ]


def change_label(label: str, change: str) -> Cell:
    """Return the label of the row below that of a group; CSV names the group again."""
    return Cell(f"{label}: {change}", f"  {change}")


def caption(grouped: Sequence[Group]) -> str:
    """Say what a table of these groups shows: how many seeds, and means with intervals or single values."""
    seeds = [len(group.finished) for group in grouped if group.finished]
    if not seeds:
        return "In percent, no run is finished"
    shown = ["mean ± half of the 95% interval"] if max(seeds) >= ENOUGH else []
    shown += ["mean (both values)" if max(seeds) < ENOUGH else "of two seeds (both values)"] if 2 in seeds else []
    return ", ".join(["In percent", seeds_text(seeds, to="-"), *shown])
