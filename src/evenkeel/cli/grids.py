"""`evenkeel reproduce`, `grid`: the paper's tables and figures, and grids of one's own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenkeel.cli.console import (
    DataFolder,
    Format,
    LedgerFolder,
    OnlyList,
    Output,
    Ray,
    Resources,
    SaveEvery,
    Workers,
    notes,
    out,
)
from evenkeel.errors import RunError, SettingsError, one_of

if TYPE_CHECKING:
    from evenkeel.grids.ledger import Ledger
    from evenkeel.grids.paper import PaperTable


def reproduce_command(
    what: Annotated[str, typer.Argument(help="table1, table2, table3, table4, table5, figure1, figure3 or figure4.")],
    *,
    folder: LedgerFolder = Path("ledger"),
    data_sets: Annotated[str, typer.Option("--data-set", help="With commas between them. Default: all it has.")] = "",
    memory: Annotated[str, typer.Option(help="Sizes of memory, with commas. Default: all it has.")] = "",
    methods: Annotated[str, typer.Option(help="As in er,derpp: each without CBA and with. Default: all.")] = "",
    net: Annotated[str, typer.Option(help="full or slim: a ResNet-18 of width 64 or 20.")] = "full",
    seeds: Annotated[int | None, typer.Option(help="How many, from 0. Default: as the paper.", min=1)] = None,
    cba: Annotated[str, typer.Option(help="as-released, as-paper or both.")] = "as-released",
    settings: Annotated[list[str] | None, typer.Option("--set", help="Change a setting of all runs.")] = None,
    workers: Workers = None,
    ray: Ray = None,
    resources: Resources = "CPU=1",
    data: DataFolder = None,
    save_every: SaveEvery = 30.0,
    only_list: OnlyList = False,
    only_show: Annotated[bool, typer.Option("--show", help="Show what is there so far; run nothing.")] = False,
    only_finished: Annotated[bool, typer.Option(help="Leave out rows that have no finished run.")] = False,
    format: Format = "text",
    path: Output = None,
) -> None:
    """Run a table or a figure of the CBA paper, or a part of one, and set our numbers beside the published.

    Stop it at any moment and start it again: finished runs are not run again, the others go on where they were.
    """
    from evenkeel.cli.execution import Execution, do, list_runs, report_failures
    from evenkeel.grids.ledger import Ledger
    from evenkeel.grids.paper import paper_table
    from evenkeel.results.formats import FORMATS

    one_of("format", format, FORMATS)
    found = paper_table(
        what,
        data=_listed(data_sets),
        memory=[_whole(each) for each in _listed(memory)],
        methods=_listed(methods),
        net=net,
        seeds=seeds,
        cba=cba,
        settings=settings or [],
    )
    ledger = Ledger(folder)
    if only_show:
        _tell(found, ledger, format, path, only_finished=only_finished)
        return
    execution = Execution(ledger, data, save_every, workers, ray, resources)
    if only_list:
        list_runs(found.configs(), execution)
        return
    grid = do(found.configs(), execution)
    _tell(found, ledger, format, path, only_finished=only_finished)
    report_failures(grid, found.configs())


def grid_command(
    file: Annotated[Path, typer.Argument(help="A TOML file: seeds, and blocks with a base and what to vary.")],
    *,
    folder: LedgerFolder = Path("ledger"),
    workers: Workers = None,
    ray: Ray = None,
    resources: Resources = "CPU=1",
    data: DataFolder = None,
    save_every: SaveEvery = 30.0,
    only_list: OnlyList = False,
    format: Format = "text",
    path: Output = None,
) -> None:
    """Run every combination of a grid of your own, once, and show their measures.

    Stop it at any moment and start it again: finished runs are not run again, the others go on where they were.
    """
    from evenkeel.cli.execution import Execution, do, list_runs, report_failures
    from evenkeel.cli.tables import show
    from evenkeel.grids.grid_file import read_grid
    from evenkeel.grids.ledger import Ledger, run_key
    from evenkeel.results.formats import FORMATS
    from evenkeel.results.overview import measures_table

    one_of("format", format, FORMATS)
    configs = read_grid(file)
    ledger = Ledger(folder)
    execution = Execution(ledger, data, save_every, workers, ray, resources)
    if only_list:
        list_runs(configs, execution)
        return
    grid = do(configs, execution)
    finished = [key for key in dict.fromkeys(map(run_key, configs)) if ledger.finished(key)]
    if finished:
        show([measures_table(ledger.results(finished))], format, path)
    report_failures(grid, configs)


def _tell(found: "PaperTable", ledger: "Ledger", format: str, path: Path | None, *, only_finished: bool) -> None:
    """The table, or the page with the figure."""
    from evenkeel.cli.tables import show
    from evenkeel.grids.ledger import run_key
    from evenkeel.grids.paper_tables import result_tables
    from evenkeel.report.paper_figures import write_figure

    if found.values:
        tables = result_tables(found, ledger, only_finished=only_finished)
        if not tables:
            print(f"No run of {found.number} is finished in {ledger.path}.")
            return
        show(tables, format, path)
        return

    runs = ledger.results(key for config in found.configs() if ledger.finished(key := run_key(config)))
    if not runs:
        raise RunError(f"None of the runs of {found.number} is finished in {str(ledger.path)!r}.")
    page = path or ledger.path / f"{found.name}.html"
    with notes.status("Drawing"):
        write_figure(found.name, runs, page)
    out.print(f"{found.number}: {page.resolve()}", soft_wrap=True)


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SettingsError(f"--memory {text!r} is not a whole number.") from None
