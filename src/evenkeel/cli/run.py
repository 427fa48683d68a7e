"""`evenkeel run`, `list`: one run, and what its config may hold."""

import inspect
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from evenkeel.cli.console import DataFolder, SaveEvery, notes, out, progress

if TYPE_CHECKING:
    from evenkeel.experiment.config import Config
    from evenkeel.results.records import Record


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
    from evenkeel.experiment.config import load_config
    from evenkeel.experiment.run import run
    from evenkeel.results.formats import to_rich
    from evenkeel.results.overview import measures_table
    from evenkeel.results.records import Started, Stepped
    from evenkeel.results.run_files import Results

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
    out.print(to_rich(measures_table([Results.of(records, folder)])))
    out.print(f"Records: {folder}\nReport:  evenkeel report {shlex.quote(str(folder))} -o report.html", soft_wrap=True)


def list_command() -> None:
    """Show what a config may name: presets, data sets, scenarios, nets, methods, adaptors, augmentations; settings."""
    for table in config_tables():
        out.print(table)


def _scenario(config: "Config") -> str:
    return "" if config.scenario is None else str(config.scenario["name"])


def _slug(name: str) -> str:
    return "-".join("".join(each if each.isalnum() else " " for each in name.lower()).split())


def config_tables() -> list[Table]:
    """Everything that a config may name."""
    from pydantic import BaseModel

    from evenkeel.config.loading import presets
    from evenkeel.config.parts import settings_of
    from evenkeel.config.schema import PARTS
    from evenkeel.experiment.config import Config

    tables = []
    for part, kind in PARTS.items():
        table = Table(f"{part}.name", "settings and defaults", "what it is", title=f"[{part}]", title_justify="left")
        for name, made in kind.registry.items():
            summary = (inspect.getdoc(made) or "").split("\n\n")[0].replace("\n", " ")
            table.add_row(name, ", ".join(_default(*each) for each in settings_of(made, kind).items()), summary)
        tables.append(table)
    others = Table("setting", "default", "what it is", title="Other settings", title_justify="left")
    for name, field in Config.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            for key, each in inner.model_fields.items():
                others.add_row(f"{name}.{key}", _shown(each.default), each.description)
        elif name not in PARTS:
            others.add_row(name, _shown(field.default), field.description)
    known = Table("preset", "what it is", title="Presets: evenkeel run NAME", title_justify="left")
    for name, about in presets().items():
        known.add_row(name, about)
    return [*tables, others, known]


def _default(name: str, default: object) -> str:
    return name if default is inspect.Parameter.empty else f"{name}={_shown(default)}"


def _shown(value: object) -> str:
    return "none" if value is None else str(list(value)) if isinstance(value, tuple) else str(value)
