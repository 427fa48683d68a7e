"""`evenkeel evaluate`: score a model on labelled data."""

import json
from collections import Counter
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenkeel.cli.console import Device, notes, print_table, progress
from evenkeel.cli.service import AT_ONCE, LabelColumn, SampleColumn, Source, chunks, newest, open_model_folder
from evenkeel.errors import DataError, SettingsError, some

if TYPE_CHECKING:
    from evenkeel.learning.learner import Learner
    from evenkeel.service.config import ServiceConfig

Pairs = Counter[tuple[Hashable, Hashable]]  # how often each (label, prediction) occurs


def evaluate_command(  # noqa: PLR0917
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a service, or a saved learner (.ek).")],
    source: Source,
    sample: SampleColumn = None,
    label: LabelColumn = None,
    device: Device = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Score labelled data: the accuracy overall and by class. It changes nothing, and a service may be running.

    Of a folder with parts for training and testing, it reads the one for testing.
    """
    from evenkeel.cli.feed import Feed

    learner, config, version = _opened(model, device)
    counts, feed = Pairs(), Feed(source, config, sample, label, part="test").items(labelled=True)
    with progress() as bar:
        task = bar.add_task("Evaluating", total=None)
        for pairs in _answered(learner, config, feed):
            counts.update(pairs)
            bar.update(task, completed=counts.total())
    if not counts:
        raise DataError(f"{source!r} has no samples.")
    scores = _scores(learner, counts)
    if as_json:
        typer.echo(json.dumps({"model": str(model), "version": version, "source": source, **scores}))
    else:
        _print(scores)
    if unknown := [each["label"] for each in scores["classes"] if not each["learned"]]:
        notes.print(f"Never learned, so never predicted: {some(unknown)}", soft_wrap=True)


def _opened(model: Path, device: str | None) -> "tuple[Learner, ServiceConfig, int | None]":
    """Return a learner, how its samples are read, and its version if it is one of a service."""
    from evenkeel.learning.learner import Learner

    if model.is_file():
        learner = Learner.load(model, device=device or "auto")
        return learner, _config_of(learner, model), None
    folder = open_model_folder(model)
    version, learner = newest(folder, device=device)
    return learner, folder.read(), version


def _config_of(learner: "Learner", path: Path) -> "ServiceConfig":
    """Return a config by which samples are read as this learner was given them."""
    from evenkeel.service.config import load_service

    inputs = learner.snapshot().inputs
    if inputs.shape == ():
        return load_service({"input": {"text": True}})
    shape, is_image = inputs.shape or (), str(inputs.dtype) == "torch.uint8"
    if is_image and len(shape) == 3 and shape[0] in (1, 3):
        return load_service({"input": {"channels": shape[0], "size": list(shape[1:])}})
    if not is_image and len(shape) == 1:
        return load_service({"input": {"features": shape[0]}})
    known = f"takes samples of shape {shape}" if shape else "has learned nothing"
    raise SettingsError(f"{str(path)!r} {known}; data is read as uint8 images with 1 or 3 channels, vectors or texts.")


def _answered(learner: "Learner", config: "ServiceConfig", feed: "Iterator[Any]") -> Iterator[Pairs]:
    from evenkeel.cli.feed import as_known
    from evenkeel.service.samples import unpack

    known = dict.fromkeys(learner.classes)
    for items in chunks(feed, AT_ONCE):
        predicted = learner.predict(unpack([item.x for item in items], config.input))
        yield Pairs(zip([as_known(item.label, known) for item in items], predicted.tolist(), strict=True))


def _scores(learner: "Learner", counts: Pairs) -> dict[str, Any]:
    """Return the accuracy, overall and by class; classes in the order in which they were first learned."""
    samples, predicted = Counter[Hashable](), Counter[Hashable]()
    for (label, prediction), count in counts.items():
        samples[label] += count
        predicted[prediction] += count
    known = learner.classes
    labels = [*known, *(label for label in samples if label not in known)]
    classes = [
        {
            "label": label,
            "samples": samples[label],
            "predicted": predicted[label],
            "accuracy": 100 * counts[label, label] / samples[label] if samples[label] else None,
            "learned": label in known,
        }
        for label in labels
    ]
    correct = sum(counts[label, label] for label in labels)
    return {"samples": counts.total(), "accuracy": 100 * correct / counts.total(), "classes": classes}


def _print(scores: dict[str, Any]) -> None:
    from evenkeel.results.table import ResultTable, Row

    rows = [
        Row.of(str(each["label"]), each["samples"], each["predicted"], each["accuracy"]) for each in scores["classes"]
    ]
    rows.append(Row.of("all", scores["samples"], scores["samples"], scores["accuracy"], bold=True))
    note = "Classes in order of arrival. Compare predicted with samples: a model with a bias toward the newest classes "
    note += "predicts the last ones too often."
    print_table(ResultTable("Accuracy in percent", ["class", "samples", "predicted", "accuracy"], rows, ["", note]))
