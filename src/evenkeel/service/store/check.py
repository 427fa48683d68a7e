"""`evenkeel check`: every row, every version, every promise. Nothing is written."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from evenkeel.errors import CheckpointError, EvenkeelError
from evenkeel.service.config import ServiceConfig
from evenkeel.service.store import accounts, queries, schema, version_rows, versions
from evenkeel.service.store.agreement import disagreement, other_learner
from evenkeel.service.store.checksums import is_whole
from evenkeel.service.store.journal import open_unchanged
from evenkeel.service.store.model_folder import ModelFolder


def check(folder: ModelFolder) -> Iterator[str]:
    """Check a folder that no service is using; yield a sentence for each thing that is wrong."""
    config: ServiceConfig | None = None
    try:
        config = folder.read()
    except EvenkeelError as error:
        yield str(error)
    try:
        trouble = disagreement(folder)
        if trouble is not None:
            yield trouble
        if folder.journal.exists():
            with closing(open_unchanged(folder.journal)) as db:
                yield from _check_journal(db, folder, config)
    except sqlite3.Error as error:
        yield f"{folder.journal.name} cannot be read: {error}."
    try:
        if folder.predictions.exists():
            with closing(open_unchanged(folder.predictions)) as db:
                yield from _check_pages(db, folder.predictions.name)
    except sqlite3.Error as error:
        yield f"{folder.predictions.name} cannot be read: {error}. The next start sets it aside."


def _check_pages(db: sqlite3.Connection, name: str) -> Iterator[str]:
    for (line,) in db.execute("PRAGMA integrity_check(10)"):
        if line != "ok":
            yield f"{name} is damaged: {line}."


def _check_journal(db: sqlite3.Connection, folder: ModelFolder, config: ServiceConfig | None) -> Iterator[str]:
    yield from _check_pages(db, "journal.sqlite")
    if db.execute("PRAGMA user_version").fetchone()[0] != schema.NEWEST:
        return  # of version 0.1: the next start takes it over
    made_for = queries.value(db, "learner")
    if config is not None and made_for is not None and (difference := other_learner(folder, config, made_for)):
        yield difference
    rows = db.execute("SELECT batch, checksum, seq, id, own, digest, label, x FROM examples")
    for batch, checksum, *content in rows:
        if not is_whole(content, batch, checksum):
            yield f"The row of example {content[1]!r} in the journal is damaged."
    yield from _check_versions(db, folder)


def _check_versions(db: sqlite3.Connection, folder: ModelFolder) -> Iterator[str]:
    """Check that all versions can be loaded, and that the current one and the journal account for every example."""
    current = queries.value(db, "current")
    for version in version_rows.kept(db):
        try:
            _, counters = versions.load(folder, version.number)
        except CheckpointError as error:
            yield str(error)
            continue
        if version.number == current:
            accepted, missing = queries.value(db, "accepted"), accounts.learned(db) - counters.learned
            if missing:
                yield f"{accepted:,} examples were accepted, but {accepted - missing:,} are accounted for."
    if not any(number >= queries.value(db, "dropped") for _, number in version_rows.ancestors(db)):
        yield "There is no version from which the journal leads to the current state."
