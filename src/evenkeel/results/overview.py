"""The table of measures: one row per group of runs, and one per gain by CBA."""

from collections.abc import Sequence

from evenkeel.results.groups import Group, gain, groups, pairs
from evenkeel.results.measures import HEADLINE, MEASURES
from evenkeel.results.run_files import Results
from evenkeel.results.table import Cell, ResultTable, Shown, signed


def measures_table(runs: Sequence[Results], names: Sequence[str] = HEADLINE) -> ResultTable:
    """Return means and intervals by group, and the gains by CBA, paired by seed."""
    grouped = groups(runs)
    seeds = sorted({len(group.runs) for group in grouped})
    counted = f"{seeds[0]} seed{'s' if seeds[0] > 1 else ''}" if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]} seeds"
    interval = ", mean ± half of the 95% interval" if seeds[-1] > 1 else ""
    benchmarks = [f"{group.runs[0].started.data['name']}, {_scenario(group)}" for group in grouped]
    several = len(set(benchmarks)) > 1  # numbers on different data must not look comparable
    gains = {with_.setting: (without, with_) for without, with_ in pairs(grouped)}
    rows, bold = list[list[Cell]](), set[int]()
    for benchmark, group in zip(benchmarks, grouped, strict=True):
        where: list[Cell] = [benchmark] * several
        unfinished = sum(run.ended is None for run in group.runs)
        label = group.label + (f" ({unfinished} unfinished)" if unfinished else "")
        rows.append([*where, label, *(group.estimate(name) for name in names)])
        if group.setting in gains:
            bold.add(len(rows))
            label_of_gain = Shown(f"{group.label}: gain by CBA, paired", "  gain by CBA, paired")
            rows.append([*where, label_of_gain, *(signed(gain(name, *gains[group.setting])) for name in names)])
    headings = [f"{MEASURES[name].title}{MEASURES[name].arrow}" for name in names]
    title = f"In percent, {counted}{interval}"
    return ResultTable(title, ["on"] * several + ["", *headings], rows, bold=frozenset(bold))


def _scenario(group: Group) -> str:
    scenario = group.runs[0].started.config["scenario"]
    return str(scenario["name"]) if scenario else "own stream"
