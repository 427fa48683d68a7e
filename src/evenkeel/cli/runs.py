"""`evenkeel run`, `report`, `list`: one run at a time, and a page about many."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from evenkeel.cli.screen import DataFolder, SaveEvery, notes, out, progress, read_runs
from evenkeel.experiment import Config, load_config, run
from evenkeel.results import Record, Results, Started, Stepped
from evenkeel.tables import config_tables, measures_table


def run_command(
    config: Annotated[str, typer.Argument(help="A TOML file, or a preset such as paper/cifar10-er-cba.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting, as in method.name=derpp, adaptor.name=cba or seed=3."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder of the run. Default: runs/<data>-<scenario>-<name>-seed<seed>.")
    ] = None,
    data: DataFolder = None,
    save_every: SaveEvery = 30.0,
) -> None:
    """Run one config through its stream; started again after an interruption it goes on where it was.

    Records stream into the folder as JSON lines. `evenkeel list` explains what a config may hold.
    """
    checked = load_config(config, settings or [])
    folder = folder or Path("runs") / _slug(
        f"{checked.data['name']} {_scenario(checked)} {checked.name} seed{checked.seed}"
    )
    records: list[Record] = []
    try:
        with progress() as bar:
            place = bar.add_task("Reading data", total=None)

            def decoding(what: str, done: int, total: int) -> None:
                bar.update(place, description=what, completed=done, total=total)

            for record in run(checked, out=folder, root=data, save_every=save_every, progress=decoding):
                records.append(record)
                if isinstance(record, Started):
                    title = f"{checked.name}, seed {checked.seed}"
                    bar.update(place, description=title, total=record.steps, completed=0)
                elif isinstance(record, Stepped):
                    bar.update(place, completed=record.step)
    except KeyboardInterrupt:
        notes.print("Stopped. The same command goes on where the last checkpoint is.")
        raise typer.Exit(130) from None
    out.print(measures_table([Results.of(records, folder)]))
    out.print(f"Records: {folder}\nReport:  evenkeel report {shlex.quote(str(folder))} -o report.html", soft_wrap=True)


def report_command(
    folders: Annotated[list[Path], typer.Argument(help="Runs, or folders with runs below them.")],
    path: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="Its title.")] = "Evenkeel report",
) -> None:
    """Compare runs in one HTML file that needs nothing else: tables, curves, confusion, configs."""
    from evenkeel.report import write_report  # here, because matplotlib is slow to import

    with notes.status("Drawing"):
        runs = read_runs(folders)
        write_report(runs, path, title=title)
    out.print(measures_table(runs))
    out.print(f"Report: {path.resolve()}", soft_wrap=True)


def list_command() -> None:
    """Show what a config may name: presets, data sets, scenarios, nets, methods, adaptors, augmentations; settings."""
    for table in config_tables():
        out.print(table)


def _scenario(config: Config) -> str:
    return "" if config.scenario is None else str(config.scenario["name"])


def _slug(name: str) -> str:
    return "-".join("".join(each if each.isalnum() else " " for each in name.lower()).split())
