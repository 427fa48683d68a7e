"""Opening the folder of a service: the learner it holds, or a new one."""

import json
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evenkeel.config.build import make_learner
from evenkeel.errors import CheckpointError, RunError, SettingsError
from evenkeel.files import is_writable
from evenkeel.learning.learner import Learner
from evenkeel.service.config import ServiceConfig
from evenkeel.service.learners import learner_from
from evenkeel.service.store import accounts, queries, version_rows, versions
from evenkeel.service.store.agreement import disagreement, other_learner, position_of, ways_out
from evenkeel.service.store.counters import Counters
from evenkeel.service.store.cutter import Cutter
from evenkeel.service.store.journal import Journal, JournalError
from evenkeel.service.store.model_folder import ModelFolder
from evenkeel.service.store.queries import UnknownError
from evenkeel.service.store.recovery import Resumed, resume
from evenkeel.service.store.schema import new_identity
from evenkeel.service.worker.pipe import Published


@dataclass(frozen=True)
class Start:
    """How to start: from an earlier version, with a new journal, or a new folder from the learner in a file."""

    rollback: int | None = None
    new_journal: bool = False
    learner: Path | None = None


def open_journal(model_folder: ModelFolder, config: ServiceConfig, start: Start) -> tuple[Journal, str | None]:
    """Return the journal, and why it does not belong to the versions, if it does not.

    Raise JournalError if it cannot be used, or does not belong to the versions and nothing says what to do about it.
    """
    if start.new_journal:
        model_folder.set_aside(*model_folder.journal_files())
    tidy = partial(queries.tidy, ids=config.limits.ids)
    cutter = Cutter(config.batches.size, config.batches.wait)
    try:
        trouble = disagreement(model_folder)
        if trouble is not None and start == Start():
            raise JournalError(f"{trouble} {ways_out(model_folder, readable(model_folder))}")
        return Journal(model_folder.journal, model_folder.mark, tidy=tidy, cutter=cutter), trouble
    except (sqlite3.Error, JournalError) as error:
        cause = error if isinstance(error, sqlite3.Error) else error.__cause__
        if cause is None:
            raise
        raise JournalError(_unusable(model_folder, cause)) from error


def _unusable(model_folder: ModelFolder, error: BaseException) -> str:
    """Return why the journal cannot be used, and if it is damaged, what can be done about that."""
    why = str(error) if is_writable(model_folder.path) else f"{error}; its folder is read-only"
    sentence = f"The journal {str(model_folder.journal)!r} cannot be used: {why}. It was left unchanged."
    if isinstance(error, sqlite3.OperationalError):  # a disk that fails; no damage
        return f"{sentence} Restart the service once it can be."
    if "newer version" in str(error):
        return sentence
    return (
        f"{sentence} Restore a backup (`evenkeel restore`), or continue without it: `evenkeel serve "
        f"{model_folder.path} --new-journal` sets it aside. Versions: {_listed(readable(model_folder))}."
    )


def current(model_folder: ModelFolder, config: ServiceConfig, journal: Journal, start: Start) -> Resumed:
    """Return what to resume from: the current version, or an earlier one that becomes the current one."""
    _require_same_learner(model_folder, config, journal, start)
    keep = config.checkpoints
    if start.rollback is None:
        try:
            resumed = resume(model_folder, journal, keep)
        except JournalError as error:
            raise JournalError(f"{error} {_other_versions(model_folder)}") from None
    else:
        number = journal.do(partial(queries.value, name="current"))
        is_usable = versions.is_readable(model_folder.version(number))  # if not, that may be why they go back
        _, counters = versions.load(model_folder, number if is_usable else start.rollback)
        counters.learned = journal.do(accounts.learned)
        learner, version = versions.go_back(model_folder, journal, counters, start.rollback, learned=number, keep=keep)
        resumed = learner, counters, version.number, None
    _clear(model_folder, journal)
    return resumed


def adopt(model_folder: ModelFolder, config: ServiceConfig, journal: Journal, number: int | None) -> Resumed:
    """Continue from a version that the journal does not know, or does not know all of. None: the newest readable."""
    number = _newest(model_folder) if number is None else number
    path = model_folder.version(number)
    if not path.exists():
        raise UnknownError(f"There is no version {number}; there are {_listed(readable(model_folder))}.")
    learner, counters = versions.load(model_folder, number)
    identity, new = new_identity(), _next_number(model_folder, journal)
    adoption = partial(
        version_rows.adopt,
        identity=identity,
        seq=counters.seq if _is_of(path, journal) else None,
        learned=counters.learned,
    )
    made_for = partial(queries.set_value, name="learner", value=json.dumps(config.determining()))
    versions.save(
        model_folder,
        journal,
        learner,
        counters,
        new,
        keep=config.checkpoints,
        asked=True,
        note=f"back to version {number}",
        back_to=new,
        also=[adoption, made_for],
        identity=identity,
    )
    _set_aside_unknown(model_folder, journal)  # even what is said to be half-written: the record may be of another time
    return learner, counters, new, None


def _is_of(version: Path, journal: Journal) -> bool:
    """Check whether a version was written with this journal."""
    carried = position_of(version)
    return carried is not None and carried.identity == journal.do(queries.position).identity


def _next_number(model_folder: ModelFolder, journal: Journal) -> int:
    """Return a number that neither a file nor the journal has."""
    return max(int(journal.do(queries.next_number)), 1 + max(model_folder.versions(), default=0))


def newest_readable(model_folder: ModelFolder, failure: str) -> Published:
    """Return the newest version that can be read, to predict from when the journal cannot be used."""
    for number in reversed(model_folder.versions()):
        try:
            return Published.of(versions.load(model_folder, number)[0], number)
        except CheckpointError:
            continue
    raise RunError(f"{failure} No version in {str(model_folder.path)!r} can be read either.")


def readable(model_folder: ModelFolder) -> list[int]:
    """Return the numbers of the versions that can be read, the oldest first."""
    return [number for number in model_folder.versions() if versions.is_readable(model_folder.version(number))]


def _newest(model_folder: ModelFolder) -> int:
    numbers = readable(model_folder)
    if not numbers:
        raise RunError(f"No version in {str(model_folder.path)!r} can be read.")
    return numbers[-1]


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _other_versions(model_folder: ModelFolder) -> str:
    """Return what can be done if the current version cannot be read."""
    numbers = readable(model_folder)
    if not numbers:
        return "Restore a backup (`evenkeel restore`)."
    return f"`evenkeel serve {model_folder.path} --rollback N` starts from another one: {_listed(numbers)}."


def _require_same_learner(model_folder: ModelFolder, config: ServiceConfig, journal: Journal, start: Start) -> None:
    """Raise SettingsError if the folder holds another learner; save a new one if it holds none."""
    before = journal.do(partial(queries.value, name="learner"))
    if before is None:
        versions.save(model_folder, journal, first_learner(config, start), Counters(), 0, keep=config.checkpoints)
        made_for = json.dumps(config.determining())
        journal.do(partial(queries.set_value, name="learner", value=made_for))
    elif (difference := other_learner(model_folder, config, before)) is not None:
        raise SettingsError(difference)


def _clear(model_folder: ModelFolder, journal: Journal) -> None:
    """Delete files that were being written or deleted, and set those aside that the journal does not know."""
    model_folder.delete_partial()
    for number in journal.do(version_rows.unfinished):
        model_folder.version(number).unlink(missing_ok=True)
        with suppress(JournalError):  # a full disk: its record is deleted by another start
            journal.do(partial(version_rows.drop, number=number))
    _set_aside_unknown(model_folder, journal)


def _set_aside_unknown(model_folder: ModelFolder, journal: Journal) -> None:
    """Set the versions aside that the journal does not keep."""
    known = {version.number for version in journal.do(version_rows.kept)}
    unknown = [number for number in model_folder.versions() if number not in known]
    model_folder.set_aside(*map(model_folder.version, unknown))


def first_learner(config: ServiceConfig, start: Start) -> Learner:
    """Return the learner of a new folder: a new one, or the one in a file."""
    return fresh(config) if start.learner is None else learner_from(start.learner, config)


def fresh(config: ServiceConfig) -> Learner:
    """Return a new learner; raise an error if its network cannot take the samples."""
    learner = make_learner(config, config.input.sample, config.classes)
    learner.logits(config.input.example)  # raises if the network cannot take such samples
    return learner
