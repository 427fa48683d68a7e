"""`evenkeel serve`, `predict`, `export`: a learner in production, and what its other commands share with these."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenkeel.cli.console import Device, notes, on_device, out, progress
from evenkeel.errors import SettingsError, one_of
from evenkeel.files import keep_files_private
from evenkeel.service.store.keys import NOBODY
from evenkeel.service.worker.process import prepare_process

if TYPE_CHECKING:
    from evenkeel.cli.feed import Item
    from evenkeel.learning.learner import Learner
    from evenkeel.service.http.logs import Logged
    from evenkeel.service.store.model_folder import ModelFolder

LOGGED = ("access", "audit", "error")
AT_ONCE = 256  # samples per call
SERVE = ("fastapi", "fastapi_offline", "uvicorn", "httptools", "prometheus_client")

Folder = Annotated[Path, typer.Argument(metavar="MODEL_DIR", help="Folder of the service.")]
ConfigFile = Annotated[
    str | None, typer.Option("--config", help="TOML file that describes the learner; needed for a new folder.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Override a setting, e.g. input.features=384 or limits.queue=1000.")
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A folder of images by class, a .csv, .parquet, .npz or .jsonl file, or - for JSON lines from stdin.",
    ),
]
OwnNet = Annotated[
    str | None, typer.Option("--net", help="Your own network: a function, as my_package.nets:build; as net.name.")
]
SampleColumn = Annotated[str | None, typer.Option("--sample", help="Column of a parquet file that holds the samples.")]
LabelColumn = Annotated[str | None, typer.Option("--label", help="Column of a table that holds the labels.")]


def serve_command(  # noqa: PLR0917 - typer's options are parameters
    folder: Folder,
    config: ConfigFile = None,
    settings: Settings = None,
    learner: Annotated[
        Path | None,
        typer.Option("--from", help="Start a new folder from a saved learner (.ek), with its memory and optimizer."),
    ] = None,
    net: OwnNet = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. One that other machines can reach requires keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)] = 8000,
    rollback: Annotated[int | None, typer.Option(help="Start from this earlier version.", min=0)] = None,
    new_journal: Annotated[
        bool, typer.Option("--new-journal", help="Set the journal aside and start a new one, from the newest version.")
    ] = False,
    one_process: Annotated[
        bool, typer.Option("--one-process", help="Learn in the process that answers: less memory, slower answers.")
    ] = False,
    require_keys: Annotated[
        bool, typer.Option("--require-keys", help="Let nobody in without a key, even if there are no keys yet.")
    ] = False,
    log: Annotated[
        str, typer.Option(help="What to log to stderr: access (all), audit (changes and errors) or error.")
    ] = "access",
    device: Device = None,
) -> None:
    """Serve a learner over HTTP. Everything it acknowledged survives a crash."""
    _require_extra()
    one_of("log", log, LOGGED)
    keep_files_private()
    if not one_process:
        prepare_process()  # it imports torch while this one does
    from evenkeel.service.http.server import listen, make_keyring, run
    from evenkeel.service.service import Service
    from evenkeel.service.store.model_folder import ModelFolder

    if rollback is not None:
        open_model_folder(folder)
    keyring = make_keyring(ModelFolder(folder).keys, host, require_keys=require_keys)
    with listen(host, port) as listening:
        service = Service(
            folder,
            config,
            on_device(with_net(settings, net), device),
            learner=learner,
            rollback=rollback,
            new_journal=new_journal,
            apart=not one_process,
        )
        url_host = f"[{host}]" if ":" in host else host
        address = f"http://{url_host}:{listening.getsockname()[1]}"
        out.print(f"Evenkeel on {address}  (dashboard), {address}/docs  (API). Press Ctrl-C to stop.", soft_wrap=True)
        out.file.flush()  # a script that started it in the background needs the port now
        if service.failure:
            notes.print(f"{service.failure} Predictions continue; nothing is learned.", style="red", soft_wrap=True)
        if service.notice:
            notes.print(service.notice, style="yellow", soft_wrap=True)
        if keyring.access == "closed":
            notes.print(NOBODY.replace("MODEL_DIR", str(folder)), style="yellow", soft_wrap=True)
        run(service, listening, keyring, cast("Logged", log))


def with_net(settings: list[str] | None, net: str | None) -> list[str]:
    """Return overrides of a config with one for the network, if --net was given."""
    return [*(settings or []), *([] if net is None else [f"net.name={net}"])]


def _require_extra() -> None:
    """Raise SettingsError if a package of the extra `serve` is missing, before the slow imports."""
    missing = [name for name in SERVE if find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"Not installed: {', '.join(missing)}. Run: pip install 'evenkeel[serve]', or in a clone: pip install "
            "--constraint constraints.txt -e '.[serve]'"
        )


def predict_command(
    folder: Folder,
    source: Source,
    sample: SampleColumn = None,
    top: Annotated[int, typer.Option(help="Number of labels to report per sample.", min=1)] = 5,
    device: Device = None,
) -> None:
    """Predict samples with the newest checkpoint, one JSON line per sample. A service may be running meanwhile.

    Labels, where the data has them, are ignored.
    """
    from evenkeel.cli.feed import Feed
    from evenkeel.service.examples import likeliest
    from evenkeel.service.samples import unpack

    model_folder = open_model_folder(folder)
    config = model_folder.read()
    number, learner = newest(model_folder, device=device)
    notes.print(f"Version {number}.")
    done, feed = 0, Feed(source, config, sample).items(labelled=False)
    with progress() if not out.is_terminal else nullcontext() as bar:  # a bar would run through answers on a terminal
        task = None if bar is None else bar.add_task("Predicting", total=None)
        for items in chunks(feed, AT_ONCE):
            probabilities = learner.predict_proba(unpack([item.x for item in items], config.input))
            for item, answer in zip(items, likeliest(learner.classes, probabilities, top), strict=True):
                typer.echo(json.dumps({"source": item.where, **answer.as_dict()}, ensure_ascii=False))
            done += len(items)
            if bar is not None and task is not None:
                bar.update(task, completed=done)


def export_command(
    folder: Annotated[Path, typer.Argument(metavar="MODEL_DIR", help="Folder of a service, or a checkpoint (.ek).")],
    path: Annotated[Path, typer.Option("--output", "-o", help="File to write: model.onnx or model.pt2.")],
    version: Annotated[int | None, typer.Option(help="An earlier version. Default: the newest.", min=0)] = None,
    device: Device = None,
) -> None:
    """Export the classifier to one file, with its preprocessing and label names; predicting needs no adaptor."""
    from evenkeel.learning.export import export
    from evenkeel.learning.learner import Learner

    if folder.is_file():
        learner = Learner.load(folder, device=device or "auto")
    else:
        learner = newest(open_model_folder(folder), version, device=device)[1]
    with notes.status("Exporting"):
        export(learner.snapshot(), path)
    out.print(f"{path}: {len(learner.classes)} classes, {path.stat().st_size:,} bytes", soft_wrap=True)


def open_model_folder(folder: Path) -> "ModelFolder":
    """Return the folder of an existing service; raise SettingsError if it is not one."""
    from evenkeel.service.store.model_folder import ModelFolder

    model_folder = ModelFolder(folder)
    model_folder.require()
    return model_folder


def chunks(items: "Iterator[Item]", size: int) -> "Iterator[list[Item]]":
    while chunk := list(islice(items, size)):
        yield chunk


def newest(
    model_folder: "ModelFolder", number: int | None = None, *, device: str | None = None
) -> "tuple[int, Learner]":
    """Return a version's number and learner: the newest version, or the one with this number."""
    from evenkeel.learning.learner import Learner

    kept = model_folder.versions()
    if not kept or (number is not None and number not in kept):
        wanted = "version" if number is None else f"version {number}"
        raise SettingsError(
            f"{str(model_folder.path)!r} has no {wanted}; available: {', '.join(map(str, kept)) or 'none'}."
        )
    chosen = kept[-1] if number is None else number
    return chosen, Learner.load(model_folder.version(chosen), device=device or "auto")
