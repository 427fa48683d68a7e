"""`evenkeel run`: one run."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenkeel.cli.completion import presets
from evenkeel.cli.console import DataFolder, Device, SaveEvery, decoding, notes, on_device, out, print_table, progress

if TYPE_CHECKING:
    from evenkeel.experiment.config import Config
    from evenkeel.results.records import Record


OUR_VERSIONS = ("evenkeel", "python", "torch", "numpy")  # records have those of own parts, too


def run_command(  # noqa: PLR0917
    config: Annotated[
        str, typer.Argument(help="A TOML file, or a preset such as paper/cifar10-er-cba.", autocompletion=presets)
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override a setting, such as method.name=derpp, adaptor.name=cba or seed=3."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the run. Default: below runs/, named by data, scenario, name and seed."),
    ] = None,
    device: Device = None,
    data: DataFolder = None,
    save_every: SaveEvery = 30.0,
) -> None:
    """Run one config through its stream. Resumes where it left off if interrupted.

    Records are written to the folder as JSON lines. `evenkeel list` shows what a config may contain.
    """
    from evenkeel.experiment.config import load_config
    from evenkeel.experiment.run import run
    from evenkeel.results.overview import measures_table
    from evenkeel.results.records import Started, Stepped
    from evenkeel.results.run_files import Results

    checked = load_config(config, on_device(settings, device))
    folder = folder or Path("runs") / _slug(
        f"{checked.data['name']} {scenario_name(checked)} {checked.name} seed{checked.seed}"
    )
    records: list[Record] = []
    try:
        with progress() as bar:
            place = bar.add_task("Reading data", total=None)
            for record in run(checked, out=folder, root=data, save_every=save_every, progress=decoding(bar, place)):
                records.append(record)
                if isinstance(record, Started):
                    title = f"{checked.name}, seed {checked.seed}"
                    bar.update(place, description=title, total=record.steps, completed=0)
                    for name in sorted({*record.versions} - {*OUR_VERSIONS}):
                        notes.print(f"Own part: {name}, {record.versions[name]}.", soft_wrap=True)
                    if record.device != "cpu":
                        notes.print(f"Computing on {record.device}.")
                elif isinstance(record, Stepped):
                    bar.update(place, completed=record.step)
    except KeyboardInterrupt:
        notes.print("Stopped. Repeat the command to resume from the last checkpoint.")
        raise typer.Exit(130) from None
    print_table(measures_table([Results.of(records, folder)]))
    out.print(f"Records: {folder}\nReport:  evenkeel report {shlex.quote(str(folder))} -o report.html", soft_wrap=True)


def scenario_name(config: "Config") -> str:
    return "" if config.scenario is None else str(config.scenario["name"])


def _slug(name: str) -> str:
    return "-".join("".join(char if char.isalnum() else " " for char in name.lower()).split())
