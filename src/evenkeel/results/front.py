"""Accuracy against cost: what each method reaches, what it costs, and which are not beaten in both."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from evenkeel.results.groups import Estimate, Group, seeds_text
from evenkeel.results.measures import MEASURES, Measure
from evenkeel.results.run_files import Results
from evenkeel.results.table import Cell, ResultTable, Row

SHOWN = ("acc", "aia", "acc_auc")  # the measures that are set against cost, by name
UNIT = "er"  # the method whose runs without anything added cost 1


@dataclass(frozen=True)
class Point:
    """A group of runs as a point: its cost and its value in one measure."""

    group: Group
    cost: Estimate
    value: Estimate
    on_front: bool  # whether no other point is better without costing more, or cheaper without being worse


@dataclass(frozen=True)
class Costs:
    """The mean cost of the finished runs of each group: in units of plain ER, or in seconds if there is no such group.

    A cost is the time to learn the stream once, without tests: CPU seconds where all runs recorded them, otherwise
    seconds of a clock, which count other programs too.
    """

    of: dict[str, Estimate]  # by label
    unit: str  # how the numbers are headed
    by_clock: bool  # whether some runs did not record CPU seconds

    @classmethod
    def measured(cls, grouped: Sequence[Group]) -> "Costs":
        timed = {group.label: [run for run in group.finished if run.sessions] for group in grouped}
        by_clock = not all(_cpu_known(run) for runs in timed.values() for run in runs)
        seconds = {
            label: [learning_seconds(run, by_clock=by_clock) for run in runs] for label, runs in timed.items() if runs
        }
        unit = [value for each in grouped if _is_unit(each) for value in seconds.get(each.label, ())]
        scale = fmean(unit) if unit else 1.0
        costs = {label: Estimate.of([each / scale for each in values]) for label, values in seconds.items()}
        heading = "cost, ER = 1" if unit else "seconds"
        return cls({label: cost for label, cost in costs.items() if cost}, heading, by_clock)


def _cpu_known(run: Results) -> bool:
    return all(session.learning_cpu is not None for session in run.sessions)


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


def points(grouped: Sequence[Group], measure: Measure, costs: Costs) -> list[Point]:
    """Return the groups that have cost and value, cheapest first; bounds are none of them."""
    known = [
        (group, costs.of[group.label], value)
        for group in grouped
        if group.label in costs.of and not group.is_bound and (value := group.estimate(measure)) is not None
    ]
    pairs = [(cost.mean, value.mean) for _, cost, value in known]
    return sorted(
        (Point(group, cost, value, not _beaten((cost.mean, value.mean), pairs)) for group, cost, value in known),
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
    for group in sorted(
        (each for each in grouped if each.label in costs.of), key=lambda each: costs.of[each.label].mean
    ):
        cells = [_cell(by_measure[name].get(group.label)) for name in shown]
        if any(cell.value is not None for cell in cells):
            cost = costs.of[group.label]
            rows.append(Row.of(group.label, Cell(cost, cost.text(".2f")), *cells, len(group.finished)))
    headings = [MEASURES[name].heading for name in shown]
    return ResultTable(_title(grouped, costs), ["", costs.unit, *headings, "seeds"], rows, notes=[_note(costs)])


def _cell(point: Point | None) -> Cell:
    if point is None:
        return Cell(None)
    return Cell(point.value, f"{point.value}{' *' if point.on_front else '  '}", best=point.on_front)


def _title(grouped: Sequence[Group], costs: Costs) -> str:
    seeds = [len(group.finished) for group in grouped if group.label in costs.of]
    counted = f", {seeds_text(seeds, to='-')}" if seeds else ""
    return f"In percent{counted}; * or bold: on the front, no other is better without costing more"


def _note(costs: Costs) -> str:
    """Return how the cost was measured."""
    how = "seconds of a clock, which count what else the machine did" if costs.by_clock else "CPU seconds"
    return f"Cost: {how}, to learn the stream without tests. Bounds are left out."
