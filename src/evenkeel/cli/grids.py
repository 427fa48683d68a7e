"""`evenkeel reproduce` and `grid`: the paper's tables and figures, and your own grids."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenkeel.cli.completion import methods as completed_methods
from evenkeel.cli.console import Format, LedgerFolder, OnlyList, Output, notes, out, with_execution
from evenkeel.errors import RunError, SettingsError, one_of
from evenkeel.grids.execution import Execution

if TYPE_CHECKING:
    from evenkeel.grids.paper import PaperTable
    from evenkeel.grids.schedule import Grid

CLAIMS = "claims"  # what `reproduce` takes besides the tables and figures

TimeBudget = Annotated[
    str | None,
    typer.Option(help="Time for the runs, such as 3h: what tells most comes first, what cannot end is not begun."),
]


@with_execution
def reproduce_command(
    what: Annotated[
        str,
        typer.Argument(
            help="table1, table2, table3, table4, table5, figure1, figure3 or figure4; or claims: which of the paper's "
            "claims the runs so far show."
        ),
    ],
    *,
    folder: LedgerFolder = Path("ledger"),
    data_sets: Annotated[
        str, typer.Option("--data-set", help="Data sets, separated by commas. Default: all in it.")
    ] = "",
    memory: Annotated[str, typer.Option(help="Memory sizes, separated by commas. Default: all in it.")] = "",
    methods: Annotated[
        str,
        typer.Option(
            help="Methods such as er,derpp, each without and with CBA. Default: all.", autocompletion=completed_methods
        ),
    ] = "",
    net: Annotated[str, typer.Option(help="full or slim: a ResNet-18 of width 64 or 20.")] = "full",
    seeds: Annotated[
        int | None, typer.Option(help="Number of seeds, starting at 0. Default: the paper's.", min=1)
    ] = None,
    cba: Annotated[str, typer.Option(help="Variant of CBA: as-released, as-paper or both.")] = "as-released",
    settings: Annotated[list[str] | None, typer.Option("--set", help="Override a setting of all runs.")] = None,
    execution: Execution,
    budget: TimeBudget = None,
    only_list: OnlyList = False,
    only_show: Annotated[bool, typer.Option("--show", help="Show the results so far; run nothing.")] = False,
    only_finished: Annotated[
        bool, typer.Option("--only-finished", help="Leave out rows that have no finished run.")
    ] = False,
    format: Format = "text",
    path: Output = None,
) -> None:
    """Reproduce a table or figure of the CBA paper, or a part of it, and compare our numbers with the published ones.

    Safe to interrupt and repeat: finished runs are skipped, the others resume where they left off.
    """
    from evenkeel.cli.execution import do, list_runs, report_failures
    from evenkeel.grids.ledger import Ledger
    from evenkeel.grids.paper import paper_table, published
    from evenkeel.grids.paper_claims import beyond_claims, conclusions, pairs
    from evenkeel.grids.schedule import Grid
    from evenkeel.results.formats import FORMATS

    one_of("format", format, FORMATS)
    one_of("what", what, [*published(), CLAIMS])
    if what == CLAIMS:
        every = pairs(Ledger(folder), net)
        print("\n".join(filter(None, [conclusions(every), beyond_claims(every, Ledger(folder), net)])))
        return
    table = paper_table(
        what,
        data=_listed(data_sets),
        memory=[_whole(each) for each in _listed(memory)],
        methods=_listed(methods),
        net=net,
        seeds=seeds,
        cba=cba,
        settings=settings or [],
    )
    grid = Grid(Ledger(folder), table.configs(), execution)
    if only_list and not only_show:
        list_runs(grid, budget)
        return
    if not only_show:
        do(grid, budget)
    _show_results(table, grid, format, path, only_finished=only_finished)
    report_failures(grid)


@with_execution
def grid_command(
    file: Annotated[
        Path, typer.Argument(help="A TOML file with seeds, and blocks with a base and the settings to vary.")
    ],
    *,
    folder: LedgerFolder = Path("ledger"),
    execution: Execution,
    budget: TimeBudget = None,
    only_list: OnlyList = False,
    format: Format = "text",
    path: Output = None,
) -> None:
    """Run every combination in a grid of your own once and show the measures.

    Safe to interrupt and repeat: finished runs are skipped, the others resume where they left off.
    """
    from evenkeel.cli.execution import do, list_runs, report_failures
    from evenkeel.cli.tables import show
    from evenkeel.grids.grid_file import read_grid
    from evenkeel.grids.ledger import Ledger
    from evenkeel.grids.schedule import Grid
    from evenkeel.results.formats import FORMATS
    from evenkeel.results.overview import measures_table

    one_of("format", format, FORMATS)
    grid = Grid(Ledger(folder), read_grid(file), execution)
    if only_list:
        list_runs(grid, budget)
        return
    do(grid, budget)
    if grid.finished:
        show([measures_table(grid.results())], format, path)
    report_failures(grid)


def _show_results(table: "PaperTable", grid: "Grid", format: str, path: Path | None, *, only_finished: bool) -> None:
    """Show the table, or write the page with the figure."""
    from evenkeel.cli.tables import show
    from evenkeel.grids.paper_tables import result_tables
    from evenkeel.report.paper_figures import write_figure

    ledger = grid.ledger
    if table.values:
        tables = result_tables(table, ledger, only_finished=only_finished)
        if not tables:
            print(f"No run of {table.number} is finished in {ledger.path}.")
            return
        show(tables, format, path)
        return

    if not (runs := grid.results()):
        raise RunError(f"None of the runs of {table.number} is finished in {str(ledger.path)!r}.")
    page = path or ledger.path / f"{table.name}.html"
    with notes.status("Drawing"):
        write_figure(table.name, runs, page)
    out.print(f"{table.number}: {page.resolve()}", soft_wrap=True)


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SettingsError(f"--memory {text!r} is not a whole number.") from None
