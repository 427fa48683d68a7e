"""`evenkeel tune`: choose settings on the first tasks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenkeel.cli.console import LedgerFolder, notes, out, with_execution
from evenkeel.errors import RunError, counted
from evenkeel.grids.execution import Execution

if TYPE_CHECKING:
    from evenkeel.grids.schedule import Grid


@with_execution
def tune_command(
    file: Annotated[
        Path, typer.Argument(help="A TOML file with a base, the space of settings, tasks, trials and seeds.")
    ],
    *,
    folder: LedgerFolder = Path("ledger"),
    best: Annotated[Path | None, typer.Option(help="File for the best config. Default: best.toml in --out.")] = None,
    execution: Execution,
) -> None:
    """Search for the best settings on the first tasks, tested on held-out training samples, never on the test data.

    Safe to interrupt and repeat: the search resumes, and its result is that of an uninterrupted one.
    """
    from evenkeel.cli.execution import do
    from evenkeel.cli.tables import show
    from evenkeel.grids.ledger import Ledger
    from evenkeel.grids.tune import Search
    from evenkeel.results.labels import short
    from evenkeel.results.measures import MEASURES
    from evenkeel.results.table import Cell, ResultTable, Row

    def run(what: str, grid: "Grid") -> None:
        notes.print(what)
        do(grid)
        for error in grid.failed.values():
            notes.print(f"Failed: {error}", style="red", soft_wrap=True)

    search = Search(file)
    tried = search.go(Ledger(folder), execution, run)
    measure, names = MEASURES[search.file.measure], list(search.file.space)
    rows = [
        Row.of(*(Cell(str(each.settings[name]), _short(each.settings[name])) for name in names), each.value)
        for each in tried
    ]
    title = (
        f"Best first: {counted(len(tried), 'trial')} of {counted(search.file.seeds, 'seed')} on the first "
        f"{search.file.tasks} tasks, tested on {search.file.held_out:.0%} of their training samples"
    )
    show([ResultTable(title, [*(short(name, names) for name in names), measure.heading], rows)], "text", None)
    target = best or folder / "best.toml"
    try:
        target.write_text(search.best(tried), encoding="utf-8")
    except OSError as error:
        raise RunError(f"Cannot write the best config to {str(target)!r}: {error.strerror or error}.") from error
    out.print(f"Best: {target}\nRun it on the whole stream: evenkeel run {target}", soft_wrap=True)


def _short(value: object) -> str:
    from evenkeel.results.labels import value_text

    return f"{value:.4g}" if isinstance(value, float) else value_text(value)
