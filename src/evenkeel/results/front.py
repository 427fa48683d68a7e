"""Accuracy against cost: what each method reaches, what it costs, and which are not beaten in both."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean

from evenkeel.results.groups import Estimate, Group, seeds_text
from evenkeel.results.measures import MEASURES, Measure
from evenkeel.results.run_files import Results
from evenkeel.results.table import Cell, ResultTable, Row

SHOWN = ("acc", "aia", "acc_auc")  # the measures that are set against cost, by name
UNIT = "er"  # the method whose runs without anything added cost 1
Rivals = tuple[str, ...]  # the memory, net and batches that methods share which are compared with each other
Timed = tuple[frozenset[str | None], float]  # the kinds of machines (None in older runs), and the seconds there


@dataclass(frozen=True)
class Point:
    """A group of runs as a point: its cost and its value in one measure."""

    group: Group
    cost: Estimate
    value: Estimate
    rivals: Rivals
    on_front: bool  # whether no rival is better without costing more, or cheaper without being worse


@dataclass(frozen=True)
class Costs:
    """The mean cost of the finished runs of each group: in units of plain ER, or in seconds if there is no such group.

    The unit of a group is plain ER with its net and batch size, whatever the memory holds; of several, that which
    replays least. A group without such a unit has no cost.
    A cost is the time to learn the stream once, without tests, in CPU seconds; runs that did not record them have no
    cost. Where not even plain ER did, it is seconds of a clock, which count other programs too. Time is compared
    between machines of one kind only, so a run on a kind on which its unit was not run has no cost either.
    """

    of: dict[str, Estimate]  # by label
    unit: str  # how the numbers are headed
    by_clock: bool

    @classmethod
    def measured(cls, grouped: Sequence[Group]) -> "Costs":
        units = [group for group in grouped if _is_unit(group) and any(run.sessions for run in group.finished)]
        by_clock = not any(cpu_known(run) for group in units or grouped for run in group.finished)
        timed = {group.label: [_timed(run, by_clock=by_clock) for run in group.finished] for group in grouped}
        units = [group for group in units if any(timed[group.label])]
        costs = dict[str, Estimate]()
        for group in grouped:
            of_units = [each for unit in _units_of(group, units) for each in timed[unit.label]]
            values = _in_units(timed[group.label], of_units) if units else _in_seconds(timed[group.label])
            if cost := Estimate.of(values):
                costs[group.label] = cost
        return cls(costs, "cost, ER = 1" if units else "seconds", by_clock)

    def mean(self, label: str) -> float:
        """Return the mean cost of a group, or infinity if it is not known."""
        return self.of[label].mean if label in self.of else inf


def _timed(run: Results, *, by_clock: bool) -> Timed | None:
    """Return where and how long a run learned; None if it did not record that, or its clock was too coarse."""
    if not run.sessions or not (by_clock or cpu_known(run)):
        return None
    seconds = learning_seconds(run, by_clock=by_clock)
    return (frozenset(session.machine for session in run.sessions), seconds) if seconds > 0 else None


def _in_seconds(mine: Sequence[Timed | None]) -> list[float | None]:
    return [each and each[1] for each in mine]


def _in_units(mine: Sequence[Timed | None], units: Sequence[Timed | None]) -> list[float | None]:
    """Return the seconds of runs in units of the mean of those on the same kind of machine; None without these."""
    by_machine: dict[frozenset[str | None], list[float]] = {}
    for machine, seconds in filter(None, units):
        by_machine.setdefault(machine, []).append(seconds)
    return [each[1] / fmean(by_machine[each[0]]) if each and each[0] in by_machine else None for each in mine]


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


def _units_of(group: Group, units: Sequence[Group]) -> list[Group]:
    """Return the groups that are the unit of a group."""
    same = [unit for unit in units if _rivals(unit)[1:] == _rivals(group)[1:]]
    return [unit for unit in same if _replay(unit) == min(map(_replay, same))]


def _rivals(group: Group) -> Rivals:
    config = group.runs[0].started.config
    return (memory_of(group), str(config.get("net")), str(config.get("batches", {}).get("size")))


def _replay(group: Group) -> int:
    return int(group.runs[0].started.config.get("learner", {}).get("replay", 0))


def memory_of(group: Group) -> str:
    """Return how much the memory of these runs holds."""
    return str((group.runs[0].started.config.get("memory") or {}).get("capacity", "unknown"))


def by_memory(grouped: Sequence[Group]) -> dict[str, list[Group]]:
    """Return the groups by how much their memory holds: only those with the same are compared."""
    found: dict[str, list[Group]] = {}
    for group in grouped:
        found.setdefault(memory_of(group), []).append(group)
    return found


def points(grouped: Sequence[Group], measure: Measure, costs: Costs) -> list[Point]:
    """Return the groups that have cost and value, cheapest first; bounds are none of them.

    Rivals have the same memory, net and batches.
    """
    known = [
        (group, costs.of[group.label], value, _rivals(group))
        for group in grouped
        if group.label in costs.of and not group.is_bound and (value := group.estimate(measure)) is not None
    ]
    reached: dict[Rivals, list[tuple[float, float]]] = {}
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


def front_tables(grouped: Sequence[Group], names: Sequence[str] = SHOWN) -> dict[str, ResultTable]:
    """Return a table for each size of memory: a row per group with its cost, and a star where it is on the front."""
    costs = Costs.measured(grouped)
    tables = {memory: _front_table(members, names, costs) for memory, members in by_memory(grouped).items()}
    return {memory: table for memory, table in tables.items() if table.rows}


def _front_table(grouped: Sequence[Group], names: Sequence[str], costs: Costs) -> ResultTable:
    by_measure = {name: {each.group.label: each for each in points(grouped, MEASURES[name], costs)} for name in names}
    shown = [name for name in names if by_measure[name]]
    rows = []
    for group in sorted(grouped, key=lambda each: costs.mean(each.label)):
        cells = [_cell(group, MEASURES[name], by_measure[name].get(group.label)) for name in shown]
        if any(cell.value is not None for cell in cells):
            cost = costs.of.get(group.label)
            rows.append(Row.of(group.label, Cell(cost, cost_text(cost), digits=2), *cells, len(group.finished)))
    headings = [MEASURES[name].heading for name in shown]
    columns = ["", costs.unit, *headings, "seeds"]
    return ResultTable(_title(grouped), columns, rows, notes=_notes(grouped, costs), best_means="on the front")


def cost_text(cost: Estimate | None) -> str:
    """Return a cost as people read it, which says so if it is that of one run of several."""
    if cost is None:
        return "-"
    return f"{cost.text('.2f')}{' (1 run)' if cost.n == 1 and cost.missing else ''}"


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
        f"Memory {memory_of(grouped[0])}, in percent{counted}; * or bold: on the front, no other with its net and "
        "batches and a known cost is better without costing more"
    )


def _notes(grouped: Sequence[Group], costs: Costs) -> list[str]:
    """Return how the cost was measured, and which runs are left out."""
    how = "seconds of a clock, which count what else the machine did" if costs.by_clock else "CPU seconds"
    unfinished = sum(run.ended is None for group in grouped for run in group.runs)
    left_out = [f"Unfinished runs are left out: {unfinished}."] if unfinished else []
    return [
        f"Cost: {how}, to learn the stream without tests; - where no run recorded it, or plain ER with the same net "
        "and batches was not run on the same kind of machine. Bounds are left out.",
        *left_out,
    ]
