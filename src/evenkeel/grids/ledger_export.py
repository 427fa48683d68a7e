"""A ledger as one table for other people's analysis: a row per run, with measures, settings, seed and versions."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from evenkeel.config.build import with_policy
from evenkeel.errors import RunError, SettingsError
from evenkeel.experiment.config import recorded_config
from evenkeel.files import write_whole
from evenkeel.grids.ledger import Ledger
from evenkeel.results.front import cpu_known, learning_seconds
from evenkeel.results.labels import flat
from evenkeel.results.measures import MEASURES
from evenkeel.results.records import bound_of
from evenkeel.results.run_files import Results

KINDS = {  # by column, of those that may be empty, or whole in one ledger and not in another
    **dict.fromkeys(("seconds", "evaluating", "learning_cpu"), "float64"),
    **dict.fromkeys(("steps", "peak_bytes"), "int64"),
    **dict.fromkeys(("stream", "bound", "machine"), "string"),
}


def write_runs(ledger: Ledger, path: Path) -> int:
    """Write the finished runs of a ledger to a file, Parquet or CSV by its ending; return how many there are."""
    if path.suffix not in WRITERS:
        raise SettingsError(f"{str(path)!r} must end in {' or '.join(WRITERS)}.")
    rows = [_row(entry.key, Results.read(ledger.place(entry.key))) for entry in ledger.entries()]
    if not rows:
        raise RunError(f"No run in {str(ledger.path)!r} is finished.")
    names = _together(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    known = {name: values for name, values in columns.items() if not _is_unset(name, values)}
    content = WRITERS[path.suffix]({name: _column(values) for name, values in known.items()})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise RunError(f"Cannot write the runs to {str(path)!r}: {error.strerror or error}.") from error
    return len(rows)


def _together(names: Iterable[str]) -> list[str]:
    """Return names of columns with those that begin alike side by side: not all runs have the same settings."""
    parts = {name: name.replace("[", ".").split(".") for name in names}
    places = dict[tuple[str, ...], int]()
    for each in parts.values():
        for length in (1, 2):
            places.setdefault(tuple(each[:length]), len(places))
    return sorted(parts, key=lambda name: [places[tuple(parts[name][:length])] for length in (1, 2)])


def _row(key: str, run: Results) -> dict[str, Any]:
    """Return a run as one row: `measure.*`, `config.*`, `data.*`, `version.*`, and what is known of its cost."""
    row = {
        "key": key,
        "name": run.label,
        "seed": run.seed,
        **{f"measure.{name}": measure.of(run) for name, measure in MEASURES.items()},
        **dict(flat(_uniform(_config(run)), "config.")),
        **{f"data.{name}": value for name, value in run.started.data.items() if name != "classes"},
        **{f"version.{name}": value for name, value in run.started.versions.items()},
        "tasks": len(run.started.tasks),
        "steps": run.started.steps,
        "stream": run.started.stream,
        "threads": run.started.threads,
        "device": run.started.device,
        "memory_device": run.started.memory_device,
        "bound": bound_of(run.started) or None,
        "seconds": sum(session.seconds for session in run.sessions) if run.sessions else None,
        "evaluating": sum(session.evaluating for session in run.sessions) if run.sessions else None,
        "learning_cpu": learning_seconds(run, by_clock=False) if cpu_known(run) else None,
        "machine": "; ".join(sorted({session.machine or "" for session in run.sessions})) or None,
        "peak_bytes": max((session.peak_bytes or 0 for session in run.sessions), default=0) or None,
    }
    return {name: _readable(value) for name, value in row.items()}


def _readable(value: Any) -> Any:
    """Return a text without what no file in UTF-8 can hold, such as a name from an argument in another encoding."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _config(run: Results) -> Mapping[str, Any]:
    """Return the config of a run with all defaults, of which records leave out those that came later."""
    tables = run.started.config
    with suppress(SettingsError):  # of another version, or with parts of the user's own
        return _complete(with_policy(recorded_config(tables)))
    known = {name: value for name, value in tables.items() if _is_known(name, value)}
    return _complete(recorded_config(known)) | {name: tables[name] for name in tables.keys() - known.keys()}


def _uniform(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with a single augmentation written as one of several: in the same columns."""
    augment = config.get("augment")
    return {**config, "augment": [augment] if isinstance(augment, Mapping) else augment}


def _is_known(name: str, value: Any) -> bool:
    """Return whether this version knows what a config says under `name`, without what the user imports."""
    try:
        recorded_config({name: value})
    except SettingsError:
        return False
    return True


def _complete(settings: BaseModel) -> dict[str, Any]:
    return {name: _complete(value) if isinstance(value, BaseModel) else value for name, value in settings}


def _is_unset(name: str, values: list[Any]) -> bool:
    """Return whether this is a setting that no run has; other columns are in every file."""
    return name.startswith("config.") and all(value is None for value in values)


def _column(values: list[Any]) -> list[Any]:
    """Return values of one type: a setting that is a number in one run and a text or list in another is text in all."""
    known = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in known) or all(isinstance(value, str) for value in known):
        return values
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in known):
        if not all(isinstance(value, int) for value in known):
            return [None if value is None else float(value) for value in values]
        if all(-(2**63) <= value < 2**63 for value in known):  # a seed may be larger than Parquet's numbers
            return values
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]


def _parquet(columns: Mapping[str, list[Any]]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    def array(name: str, values: list[Any]) -> Any:
        """Give what may be unknown in a whole ledger the same type in all, so that files can be read together."""
        kind = "float64" if name.startswith("measure.") else KINDS.get(name)
        return pyarrow.array(values, kind)

    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table({name: array(name, values) for name, values in columns.items()}), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _csv(columns: Mapping[str, list[Any]]) -> bytes:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


WRITERS: dict[str, Callable[[Mapping[str, list[Any]]], bytes]] = {".parquet": _parquet, ".csv": _csv}
