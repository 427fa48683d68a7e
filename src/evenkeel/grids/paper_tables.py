"""The paper's tables, filled from the finished runs of a ledger, next to the published numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evenkeel.grids.ledger import Ledger, run_key
from evenkeel.grids.paper import PaperCell, PaperTable, without
from evenkeel.results.groups import Estimate
from evenkeel.results.measures import MEASURES
from evenkeel.results.run_files import Results
from evenkeel.results.table import Cell, ResultTable, Shown, signed

TITLES = {"cifar10": "Split CIFAR-10", "cifar100": "Split CIFAR-100", "tiny-imagenet": "Split Tiny-ImageNet"}
Values = Mapping[int, Sequence[float | None]]  # by seed, one for each value of the table


def result_tables(table: PaperTable, ledger: Ledger, *, only_finished: bool = False) -> list[ResultTable]:
    """Return one table per data set and memory size; the paper's slips are listed below the last.

    only_finished: leave out rows, and tables, without a finished run.
    """
    tables = []
    for cells in table.blocks():
        ours = {cell.row: _values(cell, table, ledger) for cell in cells}
        block = [cell for cell in cells if ours[cell.row] or not only_finished]
        if not block:
            continue
        first, config = block[0], block[0].configs[0]
        title = (
            f"{table.number}, {TITLES.get(first.data, first.data)}, memory {first.memory}. "
            f"Ours: {config.net['name']} of width {config.net['width']}, {_listed(table.settings)}"
            f"{_seeds([len(each) for each in ours.values()])}; the paper's: width 64, {table.seeds} seeds."
        )
        by_task = "tasks" in table.values
        tables.append(_by_task(title, block, ours) if by_task else _by_method(title, table.values, block, ours))
    return [*tables[:-1], replace(tables[-1], notes=list(table.slips))] if tables else []


def _listed(settings: Sequence[str]) -> str:
    return "".join(f"{setting.strip()}, " for setting in settings)


def _seeds(numbers: Sequence[int]) -> str:
    done = sorted({each for each in numbers if each})
    if not done:
        return "no seeds yet"
    return f"{done[0]} seed{'s' * (done[0] > 1)}" if len(done) == 1 else f"{done[0]} to {done[-1]} seeds"


def _values(cell: PaperCell, table: PaperTable, ledger: Ledger) -> Values:
    """Return the values of the finished runs."""
    keys = {config.seed: run_key(config) for config in cell.configs}
    runs = {seed: Results.read(ledger.place(key)) for seed, key in keys.items() if ledger.finished(key)}
    return {seed: _of_run(run, table.values) for seed, run in runs.items()}


def _of_run(run: Results, names: Sequence[str]) -> list[float | None]:
    values: list[float | None] = []
    for name in names:
        values += run.matrix()[-1].tolist() if name == "tasks" else [MEASURES[name].of(run)]
    return values


def _by_method(title: str, names: Sequence[str], block: Sequence[PaperCell], ours: Mapping[str, Values]) -> ResultTable:
    columns, rows, bold = ["", "seeds"], list[list[Cell]](), set[int]()
    for name in names:
        columns += [f"{MEASURES[name].title}{MEASURES[name].arrow}", "paper", "distance"]
    for cell in block:
        row: list[Cell] = [cell.title, len(ours[cell.row])]
        for place, printed in enumerate(cell.values):
            row += _next_to_paper(_mean(ours[cell.row], place), printed)
        rows.append(row)
        base = without(block, cell)
        if base is not None:
            bold.add(len(rows))
            common = sorted(ours[cell.row].keys() & ours[base.row].keys())
            gains: list[Cell] = [Shown(f"{cell.title}: gain by CBA, paired", "  gain by CBA, paired"), len(common)]
            for place, printed in enumerate(cell.values):
                gain = _gain(ours[base.row], ours[cell.row], place)
                gains += _next_to_paper(gain, printed - base.values[place], sign=True)
            rows.append(gains)
    return ResultTable(title, columns, rows, bold=frozenset(bold))


def _by_task(title: str, block: Sequence[PaperCell], ours: Mapping[str, Values]) -> ResultTable:
    """Return the table with values as rows, because there are many values and few methods."""
    last = len(block[0].values) - 1
    names = [*(f"a({task},{last})" for task in range(1, last + 1)), "ACC"]
    columns, rows = [""], [list[Cell]([name]) for name in names]
    for cell in block:
        columns += [cell.title, "paper", "distance"]
        for place, row in enumerate(rows):
            row.extend(_next_to_paper(_mean(ours[cell.row], place), cell.values[place]))
        base = without(block, cell)
        if base is not None:
            columns += ["gain, paired", "paper", "distance"]
            for place, row in enumerate(rows):
                gain = _gain(ours[base.row], ours[cell.row], place)
                row.extend(_next_to_paper(gain, cell.values[place] - base.values[place], sign=True))
    return ResultTable(title, columns, rows, bold=frozenset({last}))


def _mean(values: Values, place: int) -> Estimate | None:
    return Estimate.of([value for each in values.values() if (value := each[place]) is not None])


def _gain(before: Values, after: Values, place: int) -> Estimate | None:
    """Return the gain, paired over the seeds that both have."""
    differences = []
    for seed in sorted(before.keys() & after.keys()):
        one, other = before[seed][place], after[seed][place]
        if one is not None and other is not None:
            differences.append(other - one)
    return Estimate.of(differences)


def _next_to_paper(ours: Estimate | None, printed: float, *, sign: bool = False) -> list[Cell]:
    """Return our value, the paper's with its digits, and the distance between them."""
    theirs = Shown(round(printed, 2), f"{printed:+.2f}" if sign else f"{printed:.2f}")
    if ours is None:
        return [None, theirs, None]
    distance = ours.mean - printed
    return [signed(ours) if sign else ours, theirs, Shown(distance, f"{distance:+.1f}")]
