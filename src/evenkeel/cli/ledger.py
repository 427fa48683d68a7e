"""`evenkeel ledger`: list, pack, repair and export the runs of a grid."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenkeel.cli.console import open_ledger, out, print_table, with_imports
from evenkeel.errors import RunError, counted

if TYPE_CHECKING:
    from evenkeel.grids.ledger import Ledger

app = typer.Typer(help="List, pack, repair and export the runs of a ledger.", no_args_is_help=True)
Folder = Annotated[Path, typer.Argument(help="The ledger, as given to --out.")]


@app.command("list")
def ledger_list(folder: Folder) -> None:
    """Show the runs of a ledger: finished, failed, or how far they are."""
    from evenkeel.results.labels import flat, labels
    from evenkeel.results.records import Started
    from evenkeel.results.run_files import started_of
    from evenkeel.results.table import ResultTable, Row

    ledger = _there(folder)
    acc = {entry.key: entry.metrics.get("acc") for entry in ledger.entries()}
    keys = ledger.runs()
    begun = dict[str, Started]()
    for key in keys:
        with suppress(RunError):  # it is just starting, failed before that, or is damaged
            begun[key] = started_of(ledger.place(key))
    configs = [each.config for each in begun.values()]
    called = labels([config["name"] for config in configs], [dict(flat(config)) for config in configs])
    names = dict(zip(begun, called, strict=True))
    rows = []
    for key in keys:
        failures, state = ledger.failures(key), ledger.state(key)
        text = f"{state}: {failures[-1].error}" if state.startswith("failed") else state
        data, seed = (begun[key].data["name"], begun[key].config["seed"]) if key in begun else ("", None)
        rows.append(Row.of(names.get(key, ""), str(data), seed, acc.get(key), text, key))
    print_table(ResultTable("", ["run", "data", "seed", "ACC", "state", "key"], rows))


@app.command("rebuild")
def ledger_rebuild(folder: Folder) -> None:
    """Rebuild the index from the runs."""
    out.print(f"The index has {counted(_there(folder).rebuild(), 'finished run')}.")


@app.command("adopt")
@with_imports
def ledger_adopt(
    folder: Folder,
    runs: Annotated[list[Path], typer.Argument(help="Runs made by `evenkeel run`, or folders with runs below them.")],
) -> None:
    """Move single runs into a ledger, so that a grid does not repeat them."""
    from evenkeel.grids.ledger import Ledger
    from evenkeel.results.run_files import find_runs

    ledger = Ledger(folder)
    for run in find_runs(runs):
        out.print(f"{run} is now {ledger.place(ledger.adopt(run))}", soft_wrap=True)


@app.command("pack")
def ledger_pack(folder: Folder) -> None:
    """Make one file of each finished run: records, config and times are kept, weights are deleted."""
    out.print(f"{_there(folder).pack() / 1e6:.1f} MB freed.")


@app.command("export")
def ledger_export(
    folder: Folder,
    path: Annotated[Path, typer.Option("--output", "-o", help="The file to write: .parquet or .csv.")],
) -> None:
    """Write one row per finished run, with measures, settings, seed, versions and cost, for other tools."""
    from evenkeel.grids.ledger_export import write_runs

    count = write_runs(_there(folder), path)
    out.print(f"{path} has {counted(count, 'run')}.", soft_wrap=True)


def _there(folder: Path) -> "Ledger":
    if not folder.is_dir():
        raise RunError(f"There is no ledger {str(folder)!r}.")
    ledger = open_ledger(folder)
    if not ledger.runs():
        raise RunError(f"There is no run in the ledger {str(folder)!r}.")
    return ledger
