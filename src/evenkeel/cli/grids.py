"""`evenkeel reproduce` and `grid`: the paper's tables and figures, and your own grids."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenkeel.cli.completion import methods as completed_methods
from evenkeel.cli.console import Format, LedgerFolder, OnlyList, Output, notes, open_ledger, out, with_execution
from evenkeel.errors import RunError, SettingsError, one_of
from evenkeel.grids.execution import Execution

if TYPE_CHECKING:
    from evenkeel.grids.paper import PaperTable
    from evenkeel.grids.schedule import Grid

CLAIMS = "claims"  # what `reproduce` takes besides the tables and figures
RELEASED = "as-released"

TimeBudget = Annotated[
    str | None,
    typer.Option(
        help="Time for the runs, such as 3h: the most telling come first, and none begins that cannot end in time."
    ),
]


@with_execution
def reproduce_command(
    what: Annotated[
        str | None,
        typer.Argument(
            help="table1, table2, table3, table4, table5, figure1, figure3 or figure4; or claims: which of the paper's "
            "claims the runs so far show. Default, with --budget, --list or --show: all tables and figures."
        ),
    ] = None,
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
    cba: Annotated[str, typer.Option(help="Variant of CBA: as-released, as-paper or both.")] = RELEASED,
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
    from evenkeel.grids.paper import paper_table, paper_tables, published
    from evenkeel.grids.schedule import Grid
    from evenkeel.results.formats import FORMATS

    one_of("format", format, FORMATS)
    if what is not None:
        one_of("what", what, [*published(), CLAIMS])
    elif budget is None and not (only_list or only_show):
        raise SettingsError(
            f"Say what to reproduce: {', '.join([*published(), CLAIMS])}. Or give only a --budget, such as 3h: then "
            "the most telling runs of the whole paper are done."
        )
    if only_show:
        _refuse("--show runs nothing", {"--budget": budget})
    if what == CLAIMS:
        parts = {"--data-set": data_sets, "--memory": memory, "--methods": methods, "--seeds": seeds, "--set": settings}
        _refuse("The claims are about the whole paper", {**parts, "--cba": cba != RELEASED})
        _refuse("The claims are Markdown", {"--format": format != "text"})
        _refuse("The claims are about finished runs", {"--budget": budget, "--list": only_list})
        _show_claims(folder, net, path)
        return
    selection: dict[str, Any] = {
        "data": _listed(data_sets),
        "memory": [_whole(each) for each in _listed(memory)],
        "methods": _listed(methods),
        "net": net,
        "seeds": seeds,
        "cba": cba,
        "settings": settings or [],
    }
    tables = [paper_table(what, **selection)] if what else paper_tables(**selection)
    if not tables[0].values:
        _refuse("A figure is written as a page", {"--format": format != "text"})
    configs = [config for table in tables for config in table.configs()]
    bases = {key: base for table in tables for key, base in table.bases().items()}
    grid = Grid(open_ledger(folder), configs, execution)
    if only_list and not only_show:
        list_runs(grid, budget, bases)
        return
    if not only_show:
        do(grid, budget, bases)
    _show_results(tables, grid, format, path, only_finished=only_finished or what is None)
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
    from evenkeel.grids.schedule import Grid
    from evenkeel.results.formats import FORMATS
    from evenkeel.results.overview import measures_table

    one_of("format", format, FORMATS)
    grid = Grid(open_ledger(folder), read_grid(file), execution)
    if only_list:
        list_runs(grid, budget)
        return
    do(grid, budget)
    if grid.finished:
        show([measures_table(grid.results())], format, path)
    report_failures(grid)


def _refuse(why: str, options: Mapping[str, object]) -> None:
    """Raise SettingsError if any of these options, which do not apply, was given."""
    if given := [name for name, value in options.items() if value]:
        raise SettingsError(f"{why}: {' and '.join(given)} cannot be given with it.")


def _show_claims(folder: Path, net: str, path: Path | None) -> None:
    """Print which of the paper's claims the runs so far show, or write it to a file."""
    from evenkeel.cli.tables import write_file
    from evenkeel.grids.paper import WIDTHS
    from evenkeel.grids.paper_claims import beyond_claims, conclusions, on_the_whole, pairs

    ledger = open_ledger(folder)
    every = pairs(ledger, net)
    if not any(pair.ours for pair in every):
        others = [each for each in WIDTHS if each != net and any(pair.ours for pair in pairs(ledger, each))]
        hint = f"; with --net {others[0]} there is" if others else ""
        raise RunError(f"In {str(folder)!r} no method of the paper is finished with and without CBA, net {net}{hint}.")
    text = "\n".join(filter(None, [on_the_whole(every), conclusions(every), beyond_claims(every, ledger, net)]))
    if path is None:
        print(text)
    else:
        write_file(path, f"{text}\n", "claims")


def _show_results(
    tables: "Sequence[PaperTable]", grid: "Grid", format: str, path: Path | None, *, only_finished: bool
) -> None:
    """Show the tables, or write the page with the figure; of all that the paper has, the tables."""
    from evenkeel.cli.tables import show
    from evenkeel.grids.paper_tables import result_tables
    from evenkeel.report.paper_figures import write_figure

    ledger, (first, *others) = grid.ledger, tables
    if first.values:
        filled = [result_tables(table, ledger, only_finished=only_finished) for table in tables if table.values]
        shown = [each for parts in filled for each in parts]
        if shown:
            show(shown, format, path)
        else:
            print(f"No run of {'the paper' if others else first.number} is finished in {ledger.path}.")
        return

    if not (runs := grid.results()):
        raise RunError(f"None of the runs of {first.number} is finished in {str(ledger.path)!r}.")
    page = path or ledger.path / f"{first.name}.html"
    with notes.status("Drawing"):
        write_figure(first.name, runs, page)
    out.print(f"{first.number}: {page.resolve()}", soft_wrap=True)


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SettingsError(f"--memory {text!r} is not a whole number.") from None
