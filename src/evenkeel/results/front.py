"""Accuracy against cost: what each method reaches, what it costs, and which are not beaten in both."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import Any

from evenkeel.results.groups import Estimate, Group, seeds_text
from evenkeel.results.measures import MEASURES, Measure
from evenkeel.results.run_files import Results
from evenkeel.results.table import Cell, ResultTable, Row

SHOWN = ("acc", "aia", "acc_auc")  # the measures that are set against cost, by name
UNIT = "er"  # the method whose runs without anything added cost 1
Machine = frozenset[str | None]
Timed = tuple[Machine, float]  # where, and how many seconds


@dataclass(frozen=True)
class Point:
    """A group of runs as a point: its cost and its value in one measure."""

    group: Group
    cost: Estimate
    value: Estimate
    rivals: tuple[str, ...]  # what it has in common with those it is compared with: their memory, and the unit of cost
    on_front: bool  # whether no rival is better without costing more, or cheaper without being worse


@dataclass(frozen=True)
class Costs:
    """The mean cost of the finished runs of each group: in units of plain ER, or in seconds if there is no such group.

    Of several kinds of plain ER, the unit of a group is the one with its net and batch size (or else its net, or any),
    whatever the memory holds, that replays least.
    A cost is the time to learn the stream once, without tests, in CPU seconds; runs that did not record them have no
    cost. Where not even plain ER did, it is seconds of a clock, which count other programs too. Time is compared
    between machines of one kind only, so a run on a kind on which its unit was not run has no cost either.
    """

    of: dict[str, Estimate]  # by label
    units: dict[str, tuple[str, ...]]  # by label, the labels of plain ER that its cost is in units of
    unit: str  # how the numbers are headed
    by_clock: bool

    @classmethod
    def measured(cls, grouped: Sequence[Group]) -> "Costs":
        timed = {group.label: [run for run in group.finished if run.sessions] for group in grouped}
        units = [group for group in grouped if _is_unit(group) and timed[group.label]]
        by_clock = not any(cpu_known(run) for group in units or grouped for run in timed[group.label])
        seconds = {
            label: [_timed(run, by_clock=by_clock) for run in runs if by_clock or cpu_known(run)]
            for label, runs in timed.items()
        }
        units = [group for group in units if seconds[group.label]]
        labels = {group.label: _unit_of(group, units) for group in grouped}
        costs = {
            label: Estimate.of(_in_units(mine, [each for unit in labels[label] for each in seconds[unit]]))
            for label, mine in seconds.items()
        }
        heading = "cost, ER = 1" if units else "seconds"
        return cls({label: cost for label, cost in costs.items() if cost}, labels, heading, by_clock)

    def mean(self, label: str) -> float:
        """Return the mean cost of a group, or infinity if it is not known."""
        return self.of[label].mean if label in self.of else inf


def _timed(run: Results, *, by_clock: bool) -> Timed:
    return machine_of(run), learning_seconds(run, by_clock=by_clock)


def _in_units(mine: Sequence[Timed], units: Sequence[Timed]) -> list[float]:
    """Return seconds in units of the mean of these on the same kind of machine; without any units, as they are."""
    scales: dict[Machine, list[float]] = {}
    for machine, each in units:
        scales.setdefault(machine, []).append(each)
    if not scales:
        return [each for _, each in mine]
    return [each / fmean(scales[machine]) for machine, each in mine if machine in scales]


def machine_of(run: Results) -> Machine:
    """Return the kinds of machines that a run was on; None stands for those of older runs, which did not record it."""
    return frozenset(session.machine for session in run.sessions)


def cpu_known(run: Results) -> bool:
    """Return whether all of a run's CPU time was recorded."""
    return bool(run.sessions) and all(session.learning_cpu is not None for session in run.sessions)


def learning_seconds(run: Results, *, by_clock: bool) -> float:
    """Return the seconds that a run's stream took; steps repeated after an interruption are not counted twice."""
    sessions = run.sessions
    spent = sum((each.seconds - each.evaluating) if by_clock else (each.learning_cpu or 0.0) for each in sessions)
    steps = sum(session.step - session.from_step for session in sessions)
    return spent * len(run.steps) / steps if steps else spent


def _is_unit(group: Group) -> bool:
    """Return whether these runs are plain ER: no adaptor, one update per batch, no averaged weights."""
    config = group.runs[0].started.config
    learner = config.get("learner", {})
    plain = learner.get("repeats", 1) == 1 and learner.get("average") is None
    return config["method"]["name"].lower() == UNIT and not group.adaptor and plain


def _unit_of(group: Group, units: Sequence[Group]) -> tuple[str, ...]:
    """Return the labels of the groups that are the unit of a group; none if there are none."""
    if not units:
        return ()
    same_net = [unit for unit in units if _net(unit) == _net(group)] or units
    same = [unit for unit in same_net if _batch_size(unit) == _batch_size(group)] or same_net
    least = min(map(_replay, same))
    return tuple(unit.label for unit in same if _replay(unit) == least)


def _net(group: Group) -> Any:
    return group.runs[0].started.config.get("net")


def _batch_size(group: Group) -> Any:
    return group.runs[0].started.config.get("batches", {}).get("size")


def _replay(group: Group) -> int:
    return int(group.runs[0].started.config.get("learner", {}).get("replay", 0))


def memory_of(group: Group) -> str:
    """Return how much the memory of these runs holds."""
    return str(group.runs[0].started.config["memory"]["capacity"])


def points(grouped: Sequence[Group], measure: Measure, costs: Costs) -> list[Point]:
    """Return the groups that have cost and value, cheapest first; bounds are none of them.

    Rivals have the same memory, and the same unit of cost: that of another net or of other batches is another one.
    """
    known = [
        (group, costs.of[group.label], value, (memory_of(group), *costs.units[group.label]))
        for group in grouped
        if group.label in costs.of and not group.is_bound and (value := group.estimate(measure)) is not None
    ]
    reached: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for _, cost, value, rivals in known:
        reached.setdefault(rivals, []).append((cost.mean, value.mean))
    return sorted(
        (
            Point(group, cost, value, rivals, not _beaten((cost.mean, value.mean), reached[rivals]))
            for group, cost, value, rivals in known
        ),
        key=lambda point: point.cost.mean,
    )


def _beaten(one: tuple[float, float], others: Sequence[tuple[float, float]]) -> bool:
    return any(cost <= one[0] and value >= one[1] and (cost, value) != one for cost, value in others)


def front_table(grouped: Sequence[Group], names: Sequence[str] = SHOWN) -> ResultTable:
    """Return a row per group: its cost, and each measure with a star where it is on the front."""
    costs = Costs.measured(grouped)
    by_measure = {name: {each.group.label: each for each in points(grouped, MEASURES[name], costs)} for name in names}
    shown = [name for name in names if by_measure[name]]
    rows = []
    for group in sorted(grouped, key=lambda each: costs.mean(each.label)):
        cells = [_cell(group, MEASURES[name], by_measure[name].get(group.label)) for name in shown]
        if any(cell.value is not None for cell in cells):
            cost = costs.of.get(group.label)
            rows.append(Row.of(group.label, Cell(cost, cost_text(cost, group), digits=2), *cells, len(group.finished)))
    headings = [MEASURES[name].heading for name in shown]
    columns = ["", costs.unit, *headings, "seeds"]
    return ResultTable(_title(grouped), columns, rows, notes=[_note(costs)], best_means="on the front")


def cost_text(cost: Estimate | None, group: Group) -> str:
    """Return a cost as people read it, which says so if it is that of one run of several."""
    if cost is None:
        return "-"
    return f"{cost.text('.2f')}{' (1 run)' if cost.n == 1 < len(group.finished) else ''}"


def _cell(group: Group, measure: Measure, point: Point | None) -> Cell:
    if group.is_bound:
        return Cell(None)
    on_front = point is not None and point.on_front
    value = group.estimate(measure)
    return Cell(value, f"{value}{' *' if on_front else '  '}" if value else "", best=on_front)


def _title(grouped: Sequence[Group]) -> str:
    seeds = [len(group.finished) for group in grouped if group.finished]
    counted = f", {seeds_text(seeds, to='-')}" if seeds else ""
    return (
        f"In percent{counted}; * or bold: on the front, no other with its memory, its unit of cost (plain ER with the "
        "same net and batches) and a known cost is better without costing more"
    )


def _note(costs: Costs) -> str:
    """Return how the cost was measured."""
    how = "seconds of a clock, which count what else the machine did" if costs.by_clock else "CPU seconds"
    return (
        f"Cost: {how}, to learn the stream without tests; - where no run recorded it, or "
        "plain ER was not run on the same kind of machine. Bounds are left out."
    )
