"""`evenkeel serve`, `keys`, `learn`, `predict`, `export`: a learner in production."""

import json
import time
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from evenkeel.cli.console import notes, out, progress
from evenkeel.errors import EvenkeelError, SettingsError
from evenkeel.service.store.keys import SCOPES, add_key, read_keys, remove_key

if TYPE_CHECKING:
    from evenkeel.cli.feed import Item
    from evenkeel.learning.learner import Learner
    from evenkeel.service.service import Service
    from evenkeel.service.store.folder import ModelFolder

AT_ONCE = 256  # samples handed over together
keys = typer.Typer(help="The API keys of a service: who may ask, teach, or do everything.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="MODEL_DIR", help="The folder of the service.")]
ConfigFile = Annotated[
    str | None, typer.Option("--config", help="A TOML file that says what the learner is; needed for a new folder.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Change a setting, as in input.features=384 or limits.queue=1000.")
]
Source = Annotated[
    str,
    typer.Argument(help="A folder of images by class, parquet files, a .jsonl file, or - for JSON lines from stdin."),
]
SampleColumn = Annotated[str | None, typer.Option("--sample", help="Column of a parquet file with the samples.")]
LabelColumn = Annotated[str | None, typer.Option("--label", help="Column of a parquet file with the labels.")]


def serve_command(  # noqa: PLR0917 - typer's options are parameters
    folder: Folder,
    config: ConfigFile = None,
    settings: Settings = None,
    host: Annotated[str, typer.Option(help="Address to listen on. Beyond 127.0.0.1 keys are needed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any that is free.", min=0, max=65535)] = 8000,
    rollback: Annotated[int | None, typer.Option(help="Start from this earlier version.", min=0)] = None,
    one_process: Annotated[
        bool, typer.Option("--one-process", help="Learn in the process that answers: less memory, slower answers.")
    ] = False,
) -> None:
    """Teach and ask a learner over HTTP. Killed at any moment it comes back with everything it acknowledged."""
    from evenkeel.service.service import Service
    from evenkeel.service.store.folder import ModelFolder

    try:
        from evenkeel.service.http.server import listen, require_keys, run
    except ModuleNotFoundError as error:
        raise SettingsError(f"{error.name} is not installed. Run: pip install 'evenkeel[serve]'") from None

    require_keys(read_keys(ModelFolder(folder).keys), host)
    with listen(host, port) as listening:
        service = Service(folder, config, settings or [], rollback=rollback, apart=not one_process)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}"
        out.print(f"Evenkeel on {address}  (dashboard), {address}/docs  (API). Ctrl-C stops it.", soft_wrap=True)
        out.file.flush()  # whoever started it in the background wants to know the port
        if service.failure:
            notes.print(f"{service.failure} Predictions are served; nothing is learned.", style="red", soft_wrap=True)
        run(service, listening, host)


def learn_command(  # noqa: PLR0917
    folder: Folder,
    source: Source,
    config: ConfigFile = None,
    settings: Settings = None,
    sample: SampleColumn = None,
    label: LabelColumn = None,
    again: Annotated[bool, typer.Option("--again", help="Also what was taught from here before.")] = False,
) -> None:
    """Teach labelled samples, in order, in one pass. Given again after an interruption it teaches nothing twice."""
    from evenkeel.cli.feed import Feed
    from evenkeel.service.service import Service

    service = Service(folder, config, settings or [])
    if service.failure:
        service.close()
        raise SettingsError(service.failure)
    service.start()
    taught = repeated = 0
    try:
        with progress() as bar:
            place = bar.add_task("Learning", total=None)
            feed = Feed(source, service.config, sample, label).items(labelled=True)
            limits = service.config.limits
            for items in _chunks(feed, min(AT_ONCE, limits.examples, limits.queue)):
                new = _teach(service, items, again=again)
                taught, repeated = taught + new, repeated + len(items) - new
                bar.update(place, total=taught, completed=taught - service.waiting)
            while service.waiting and service.problem is None:
                bar.update(place, total=taught, completed=taught - service.waiting)
                time.sleep(0.05)
            bar.update(place, total=taught, completed=taught - service.waiting)
        problem, left = service.problem, service.waiting
    except KeyboardInterrupt:
        notes.print("Stopped. What was accepted is kept, and learned by the next command or service.")
        raise typer.Exit(130) from None
    finally:
        service.close()
    _tell_taught(service, taught, repeated)
    if problem is not None:
        raise EvenkeelError(f"{problem} {left} examples wait in the journal.")


def predict_command(
    folder: Folder,
    source: Source,
    sample: SampleColumn = None,
    top: Annotated[int, typer.Option(help="How many labels to tell of.", min=1)] = 5,
) -> None:
    """Predict samples, a JSON line for each, from the newest checkpoint. A service may be running meanwhile."""
    from evenkeel.cli.feed import Feed
    from evenkeel.service.examples import likeliest
    from evenkeel.service.samples import unpack

    model_folder = _model_folder(folder)
    config = model_folder.read()
    number, learner = _newest(model_folder)
    notes.print(f"Version {number}.")
    if not learner.classes:
        raise SettingsError("Nothing was learned yet, so there is no label to predict.")
    done, feed = 0, Feed(source, config, sample).items(labelled=False)
    with progress() if not out.is_terminal else nullcontext() as bar:  # not in the middle of the answers
        place = None if bar is None else bar.add_task("Predicting", total=None)
        for items in _chunks(feed, AT_ONCE):
            probabilities = learner.predict_proba(unpack([item.x for item in items], config.input))
            for item, answer in zip(items, likeliest(learner.classes, probabilities, top), strict=True):
                typer.echo(json.dumps({"source": item.where, **answer.as_dict()}, ensure_ascii=False))
            done += len(items)
            if bar is not None and place is not None:
                bar.update(place, completed=done)


def export_command(
    folder: Annotated[
        Path, typer.Argument(metavar="MODEL_DIR", help="The folder of a service, or a checkpoint (.ek).")
    ],
    path: Annotated[Path, typer.Option("--output", "-o", help="The file to write: model.onnx or model.pt2.")],
    version: Annotated[int | None, typer.Option(help="An earlier version. Default: the newest.", min=0)] = None,
) -> None:
    """Write the classifier to one file, with preprocessing and label names inside; the adaptor is not needed for it."""
    from evenkeel.learning.export import export
    from evenkeel.learning.learner import Learner

    learner = Learner.load(folder) if folder.is_file() else _newest(_model_folder(folder), version)[1]
    with notes.status("Exporting"):
        export(learner.snapshot(), path)
    out.print(f"{path}: {len(learner.classes)} classes, {path.stat().st_size:,} bytes", soft_wrap=True)


@keys.command("add")
def add_command(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    scope: Annotated[list[str], typer.Option(help=f"What it may do: {', '.join(SCOPES)}. May be given several times.")],
) -> None:
    """Make a key. It is shown once, and only its hash is kept."""
    model_folder = _model_folder(folder)
    secret = add_key(model_folder.keys, name, [each.strip() for given in scope for each in given.split(",")])
    notes.print("Keep it well; it is not shown again:")
    typer.echo(secret)


@keys.command("list")
def list_command(folder: Folder) -> None:
    """Show the names and scopes of the keys."""
    model_folder = _model_folder(folder)
    table = Table("name", "scopes", "made")
    for key in read_keys(model_folder.keys):
        table.add_row(key.name, ", ".join(key.scopes), key.made)
    out.print(table)


@keys.command("remove")
def remove_command(folder: Folder, name: Annotated[str, typer.Argument(help="Of the key.")]) -> None:
    """Take a key away; a running service refuses it at once."""
    model_folder = _model_folder(folder)
    remove_key(model_folder.keys, name)
    if not read_keys(model_folder.keys):
        notes.print("It was the last one: on 127.0.0.1 everybody on this machine may do everything now.")


def _model_folder(folder: Path) -> "ModelFolder":
    """Open the folder of a service that is already there."""
    from evenkeel.service.store.folder import ModelFolder

    model_folder = ModelFolder(folder)
    model_folder.require()
    return model_folder


def _chunks(items: "Iterator[Item]", size: int) -> "Iterator[list[Item]]":
    while chunk := list(islice(items, size)):
        yield chunk


def _teach(service: "Service", items: "list[Item]", *, again: bool) -> int:
    """How many of them were new. Waits while the queue is full."""
    from evenkeel.service.examples import FullError, Given

    given = [Given(item.x, item.label, None if again else item.id) for item in items]
    while True:
        try:
            return sum(each.new for each in service.learn(given).result())
        except FullError:
            if service.problem is not None:  # it will not become less full
                raise
            time.sleep(0.05)


def _tell_taught(service: "Service", taught: int, repeated: int) -> None:
    if service.supervisor is None:
        return
    table = Table("taught", "taught before", "classes", "right before learned, lately", "version")
    right, published = service.supervisor.report.lately, service.published
    shown = "-" if right is None else f"{right:.1f}%"
    classes = str(len(published.classifier.classes))
    table.add_row(f"{taught:,}", f"{repeated:,}", classes, shown, str(published.version))
    out.print(table)


def _newest(model_folder: "ModelFolder", number: int | None = None) -> "tuple[int, Learner]":
    from evenkeel.learning.learner import Learner

    kept = model_folder.versions()
    if not kept or (number is not None and number not in kept):
        wanted = "a version" if number is None else f"the version {number}"
        raise SettingsError(
            f"{str(model_folder.path)!r} has not {wanted}; it has {', '.join(map(str, kept)) or 'none'}."
        )
    chosen = kept[-1] if number is None else number
    return chosen, Learner.load(model_folder.version(chosen))
