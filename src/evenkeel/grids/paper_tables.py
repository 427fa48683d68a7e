"""The paper's tables, filled from the finished runs of a ledger, next to the published numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evenkeel.grids.ledger import Ledger
from evenkeel.grids.paper import WIDTHS, PaperCell, PaperTable, without
from evenkeel.grids.run_names import run_key
from evenkeel.results.formats import text_of
from evenkeel.results.groups import Estimate, Group, gain, paired, seeds_text
from evenkeel.results.measures import MEASURES, Measure, by_task, final_accuracy
from evenkeel.results.overview import GAIN, change_label
from evenkeel.results.table import Cell, ResultTable, Row

TITLES = {"cifar10": "Split CIFAR-10", "cifar100": "Split CIFAR-100", "tiny-imagenet": "Split Tiny-ImageNet"}


def result_tables(table: PaperTable, ledger: Ledger, *, only_finished: bool = False) -> list[ResultTable]:
    """Return one table per data set and memory size; below the last, the paper's slips in these.

    only_finished: leave out rows, and tables, without a finished run.
    """
    tables, shown = [], list[PaperCell]()
    for cells in table.blocks():
        ours = {cell.row: finished_group(cell, ledger) for cell in cells}
        block = [cell for cell in cells if ours[cell.row].runs or not only_finished]
        if not block:
            continue
        first, config = block[0], block[0].configs[0]
        title = (
            f"{table.number}, {TITLES.get(first.data, first.data)}, memory {first.memory}. "
            f"Ours: {config.net['name']} of width {config.net['width']}, {_listed(table.settings)}"
            f"{_seeds([len(each.runs) for each in ours.values()])}; "
            f"the paper's: width {WIDTHS['full']}, {seeds_text([table.seeds])}."
        )
        measures = _measures(table.values, tasks=len(first.values) - len(table.values) + 1)
        rows = _rows(measures, block, ours)
        show = _by_task if "tasks" in table.values else _by_method
        tables.append(show(title, measures, rows))
        shown += block
    slips = [slip.text for slip in table.slips if any(map(slip.concerns, shown))]
    return [*tables[:-1], replace(tables[-1], notes=slips)] if tables else []


def short_title(data: str) -> str:
    """Return what a data set is called where space is scarce: CIFAR-10 for cifar10."""
    return TITLES.get(data, data).removeprefix("Split ")


def _listed(settings: Sequence[str]) -> str:
    return "".join(f"{setting.strip()}, " for setting in settings)


def _seeds(numbers: Sequence[int]) -> str:
    done = [each for each in numbers if each]
    return seeds_text(done) if done else "no seeds yet"


def finished_group(cell: PaperCell, ledger: Ledger) -> Group:
    """Return the finished runs."""
    keys = [key for key in map(run_key, cell.configs) if ledger.finished(key)]
    return Group(cell.title, ledger.results(keys), setting="", base="")


def _measures(names: Sequence[str], tasks: int) -> list[Measure]:
    """Return the measures of a table, "tasks" being the final accuracy on each task."""
    each_task = by_task([f"a({task},{tasks})" for task in range(1, tasks + 1)], final_accuracy)
    return [each for name in names for each in (each_task if name == "tasks" else [MEASURES[name]])]


def _rows(measures: Sequence[Measure], block: Sequence[PaperCell], ours: Mapping[str, Group]) -> list[Row]:
    """Return a row for each cell and gain: label, number of seeds, and for each measure ours, the paper's, distance."""
    rows = []
    for cell in block:
        group, values = ours[cell.row], list[Cell]()
        for measure, printed in zip(measures, cell.values, strict=True):
            values += _next_to_paper(group.estimate(measure), printed)
        rows.append(Row.of(cell.title, len(group.runs), *values))
        base = without(block, cell)
        if base is not None:
            common, gains = paired(ours[base.row], group), list[Cell]()
            for measure, before, after in zip(measures, base.values, cell.values, strict=True):
                gains += _next_to_paper(gain(measure, common), after - before, signed=True)
            rows.append(Row.of(change_label(cell.title, GAIN.format(adaptor="CBA")), len(common), *gains, bold=True))
    return rows


def _by_method(title: str, measures: Sequence[Measure], rows: list[Row]) -> ResultTable:
    headings = [heading for measure in measures for heading in (measure.heading, "paper", "distance")]
    return ResultTable(title, ["", "seeds", *headings], rows)


def _by_task(title: str, measures: Sequence[Measure], rows: list[Row]) -> ResultTable:
    """Return the table with values as rows, because there are many values and few methods."""
    columns, values = [""], [[Cell(measure.title)] for measure in measures]
    for row in rows:
        columns += ["gain, paired" if row.bold else text_of(row.cells[0]), "paper", "distance"]
        for place, each in enumerate(values):
            each.extend(row.cells[2 + 3 * place :][:3])
    last = len(values) - 1
    return ResultTable(title, columns, [Row(each, bold=place == last) for place, each in enumerate(values)])


def _next_to_paper(ours: Estimate | None, printed: float, *, signed: bool = False) -> list[Cell]:
    """Return our value, the paper's with its digits, and the distance between them."""
    theirs = Cell(round(printed, 2), f"{printed:+.2f}" if signed else f"{printed:.2f}")
    distance = None if ours is None else ours.mean - printed
    return [Cell(ours, signed=signed), theirs, Cell(distance, signed=True)]
