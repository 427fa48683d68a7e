"""`evenkeel learn`: teach a model the labelled samples of a source."""

import time
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from evenkeel.cli.console import Device, notes, on_device, print_table, progress
from evenkeel.cli.service import (
    AT_ONCE,
    ConfigFile,
    Folder,
    LabelColumn,
    OwnNet,
    SampleColumn,
    Settings,
    Source,
    chunks,
    with_net,
)
from evenkeel.errors import DataError, EvenkeelError, SettingsError
from evenkeel.files import keep_files_private

if TYPE_CHECKING:
    from evenkeel.cli.feed import Item
    from evenkeel.service.config import ServiceConfig
    from evenkeel.service.service import Service


def learn_command(  # noqa: PLR0917
    folder: Folder,
    source: Source,
    config: ConfigFile = None,
    settings: Settings = None,
    sample: SampleColumn = None,
    label: LabelColumn = None,
    net: OwnNet = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also teach samples that were taught from this source before.")
    ] = False,
    device: Device = None,
) -> None:
    """Teach labelled samples, in order, in one pass. Safe to repeat: samples taught before are skipped.

    It stops at a sample that cannot be used; those before it are kept. Correct it and repeat the command.
    """
    from evenkeel.cli.feed import Feed
    from evenkeel.service.service import Service
    from evenkeel.service.store.model_folder import ModelFolder

    keep_files_private()
    model_folder, settings = ModelFolder(folder), on_device(with_net(settings, net), device)
    checked = model_folder.read(config, settings)
    feed = Feed(source, checked, sample, label).items(labelled=True)
    lists = chunks(feed, min(AT_ONCE, checked.limits.examples, checked.most_waiting))
    if not model_folder.exists:
        lists = _begun(lists, source, checked)
    service = Service(folder, config, settings)
    if service.failure:
        service.close()
        raise SettingsError(service.failure)
    service.start()
    taught = repeated = 0
    try:
        with progress() as bar:
            task = bar.add_task("Learning", total=None)
            for items in lists:
                new = _teach(service, items, again=again)
                taught, repeated = taught + new, repeated + len(items) - new
                bar.update(task, total=taught, completed=taught - service.waiting)
            while service.waiting and service.problem is None:
                bar.update(task, total=taught, completed=taught - service.waiting)
                time.sleep(0.05)
            bar.update(task, total=taught, completed=taught - service.waiting)
        problem, left = service.problem, service.waiting
    except KeyboardInterrupt:
        notes.print("Stopped. Accepted samples are kept; the next command or service will learn them.")
        raise typer.Exit(130) from None
    finally:
        service.close()
    _print_summary(service, taught, repeated)
    if problem is not None:
        raise EvenkeelError(f"{problem} {left} examples are waiting in the journal.")


def _begun(lists: "Iterator[list[Item]]", source: str, config: "ServiceConfig") -> "Iterator[list[Item]]":
    """Read the first chunk before a folder is created: if it cannot be used, there must be no folder."""
    first = next(lists, None)
    if first is None:
        raise DataError(f"{source!r} has no samples.")
    config.require_labels([item.label for item in first], frozenset())
    return chain([first], lists)


def _teach(service: "Service", items: "list[Item]", *, again: bool) -> int:
    """Teach the items, waiting while the queue is full, and return how many were new."""
    from evenkeel.cli.feed import as_known
    from evenkeel.service.examples import Example, FullError

    known = dict.fromkeys(service.published.classifier.classes)
    examples = [Example(item.x, as_known(item.label, known), "" if again else item.id or "") for item in items]
    while True:
        try:
            return sum(accepted.new for accepted in service.learn(examples).result())
        except FullError:
            if service.problem is not None:  # the queue will not drain
                raise
            time.sleep(0.05)


def _print_summary(service: "Service", taught: int, repeated: int) -> None:
    from evenkeel.results.table import Cell, ResultTable, Row

    if service.supervisor is None:
        return
    columns = ["taught", "skipped", "classes", "recent accuracy before learning", "version"]
    recent, published = service.supervisor.report.lately, service.published
    accuracy = "-" if recent is None else f"{recent:.1f}%"
    classes = len(published.classifier.classes)
    row = Row.of(taught, repeated, classes, Cell(recent, accuracy), published.version)
    print_table(ResultTable("", columns, [row]))
