"""`evenkeel run` and `list`: one run, and what its config may contain."""

import inspect
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from evenkeel.cli.console import DataFolder, SaveEvery, decoding, notes, out, progress
from evenkeel.errors import one_of

if TYPE_CHECKING:
    from evenkeel.experiment.config import Config
    from evenkeel.results.records import Record


def run_command(
    config: Annotated[str, typer.Argument(help="A TOML file, or a preset such as paper/cifar10-er-cba.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override a setting, such as method.name=derpp, adaptor.name=cba or seed=3."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder of the run. Default: runs/<data>-<scenario>-<name>-seed<seed>.")
    ] = None,
    data: DataFolder = None,
    save_every: SaveEvery = 30.0,
) -> None:
    """Run one config through its stream. Resumes where it left off if interrupted.

    Records are written to the folder as JSON lines. `evenkeel list` shows what a config may contain.
    """
    from evenkeel.experiment.config import load_config
    from evenkeel.experiment.run import run
    from evenkeel.results.formats import to_rich
    from evenkeel.results.overview import measures_table
    from evenkeel.results.records import Started, Stepped
    from evenkeel.results.run_files import Results

    checked = load_config(config, settings or [])
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
                elif isinstance(record, Stepped):
                    bar.update(place, completed=record.step)
    except KeyboardInterrupt:
        notes.print("Stopped. Repeat the command to resume from the last checkpoint.")
        raise typer.Exit(130) from None
    out.print(to_rich(measures_table([Results.of(records, folder)])))
    out.print(f"Records: {folder}\nReport:  evenkeel report {shlex.quote(str(folder))} -o report.html", soft_wrap=True)


def list_command(
    what: Annotated[str, typer.Argument(help="config or measures.")] = "config",
) -> None:
    """List what a config may contain: presets, data sets, scenarios, nets, methods, adaptors, and all settings.

    `evenkeel list measures` lists the measures of runs with their definitions.
    """
    from evenkeel.cli.tables import list_measures

    one_of("what", what, ("config", "measures"))
    if what == "measures":
        list_measures()
        return
    for table in config_tables():
        out.print(table)


def scenario_name(config: "Config") -> str:
    return "" if config.scenario is None else str(config.scenario["name"])


def _slug(name: str) -> str:
    return "-".join("".join(char if char.isalnum() else " " for char in name.lower()).split())


def config_tables() -> list[Table]:
    """Return tables of everything that a config may contain."""
    from pydantic import BaseModel

    from evenkeel.config.composition import FAMILIES
    from evenkeel.config.loading import presets
    from evenkeel.config.parts import settings_of
    from evenkeel.config.schema import PARTS
    from evenkeel.experiment.config import Config

    tables = []
    for part, kind in PARTS.items():
        table = Table(f"{part}.name", "settings and defaults", "description", title=f"[{part}]", title_justify="left")
        for name, factory in kind.registry.items():
            summary = (inspect.getdoc(factory) or "").split("\n\n")[0].replace("\n", " ")
            table.add_row(name, ", ".join(_default(*each) for each in settings_of(factory, kind).items()), summary)
        tables.append(table)
    others = Table("setting", "default", "description", title="Other settings", title_justify="left")
    for name, field in Config.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            for key, each in inner.model_fields.items():
                others.add_row(f"{name}.{key}", _shown(each.default), each.description)
        elif name not in PARTS:
            others.add_row(name, _shown(field.default), field.description)
    known = Table("preset", "description", title="Presets: evenkeel run NAME", title_justify="left")
    for name, description in presets().items():
        known.add_row(name, description)
    families = [_family_table(name) for name in FAMILIES]
    return [*tables, others, known, *families]


def _family_table(name: str) -> Table:
    """Return the parts that names of presets are made of."""
    from evenkeel.config.composition import KINDS, family

    pattern = f"{name}/<{KINDS[0]}>" + "".join(f"[-<{kind}>]" for kind in KINDS[1:])
    table = Table(
        "part", "name", "description", title=f"Presets by composition: evenkeel run {pattern}", title_justify="left"
    )
    for kind in KINDS:
        for part, settings in family(name)[kind].items():
            table.add_row(kind, part, settings.get("about", settings.get("title", "").strip(", ")))
    return table


def _default(name: str, default: object) -> str:
    return name if default is inspect.Parameter.empty else f"{name}={_shown(default)}"


def _shown(value: object) -> str:
    return "none" if value is None else str(list(value)) if isinstance(value, tuple) else str(value)
