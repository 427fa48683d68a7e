"""A ledger as one table for other people's analysis: a row per run, with measures, settings, seed and versions."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evenkeel.errors import RunError, SettingsError
from evenkeel.files import write_whole
from evenkeel.grids.ledger import Ledger
from evenkeel.results.front import cpu_known, learning_seconds
from evenkeel.results.labels import flat
from evenkeel.results.measures import MEASURES
from evenkeel.results.run_files import Results


def write_runs(ledger: Ledger, path: Path) -> int:
    """Write the finished runs of a ledger to a file, Parquet or CSV by its ending; return how many there are."""
    if path.suffix not in WRITERS:
        raise SettingsError(f"{str(path)!r} must end in {' or '.join(WRITERS)}.")
    rows = [_row(entry.key, Results.read(ledger.place(entry.key))) for entry in ledger.entries()]
    if not rows:
        raise RunError(f"No run in {str(ledger.path)!r} is finished.")
    names = dict.fromkeys(name for row in rows for name in row)
    content = WRITERS[path.suffix]({name: _column([row.get(name) for row in rows]) for name in names})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise RunError(f"Cannot write the runs to {str(path)!r}: {error.strerror or error}.") from error
    return len(rows)


def _row(key: str, run: Results) -> dict[str, Any]:
    """Return a run as one row: `measure.*`, `config.*`, `data.*`, `version.*`, and what is known of its cost."""
    return {
        "key": key,
        "name": run.label,
        "seed": run.seed,
        **{f"measure.{name}": measure.of(run) for name, measure in MEASURES.items()},
        **dict(flat(run.started.config, "config.")),
        **{f"data.{name}": value for name, value in run.started.data.items() if name != "classes"},
        **{f"version.{name}": value for name, value in run.started.versions.items()},
        "tasks": len(run.started.tasks),
        "steps": run.started.steps,
        "stream": run.started.stream,
        "threads": run.started.threads,
        "seconds": sum(session.seconds for session in run.sessions),
        "evaluating": sum(session.evaluating for session in run.sessions),
        "learning_cpu": learning_seconds(run, by_clock=False) if cpu_known(run) else None,
        "peak_bytes": max((session.peak_bytes or 0 for session in run.sessions), default=0) or None,
    }


def _column(values: list[Any]) -> list[Any]:
    """Return values of one type: a setting that is a number in one run and a text or list in another is text in all."""
    known = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in known) or all(isinstance(value, str) for value in known):
        return values
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in known):
        whole = all(isinstance(value, int) for value in known)
        return values if whole else [None if value is None else float(value) for value in values]
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]


def _parquet(columns: Mapping[str, list[Any]]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(dict(columns)), sink)
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
