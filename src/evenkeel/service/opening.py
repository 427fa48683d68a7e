"""Opening the folder of a service: the learner it holds, or a new one."""

import json
import sqlite3
from functools import partial

import numpy as np

from evenkeel.config.build import make_learner
from evenkeel.config.loading import differences
from evenkeel.errors import CheckpointError, RunError, SettingsError
from evenkeel.learning.learner import Learner
from evenkeel.results.records import without_rar
from evenkeel.service.config import ServiceConfig
from evenkeel.service.store import queries, versions
from evenkeel.service.store.counters import Counters
from evenkeel.service.store.journal import Journal
from evenkeel.service.store.model_folder import ModelFolder
from evenkeel.service.worker.pipe import Published


def current(
    model_folder: ModelFolder, config: ServiceConfig, journal: Journal, rollback: int | None
) -> tuple[Published, Counters]:
    """Return the version to resume from: the current one, or an earlier one that becomes the current one."""
    _require_same_learner(model_folder, config, journal)
    number = journal.do(partial(queries.value, name="current"))
    if rollback is None:
        learner, counters = versions.load(model_folder, number)
    else:
        _, counters = versions.load(model_folder, rollback)
        counters.learned = _learned(journal, counters)
        keep = config.checkpoints.keep
        learner, version = versions.go_back(model_folder, journal, counters, rollback, learned=number, keep=keep)
        number = version.number
    _delete_orphans(model_folder, journal)
    return Published.of(learner, number), counters


def _learned(journal: Journal, counters: Counters) -> int:
    """Return how many accepted examples are not waiting: those learned since an earlier version count, though lost."""

    def count(db: sqlite3.Connection) -> int:
        accepted, withdrawn = (int(queries.value(db, name)) for name in ("accepted", "withdrawn"))
        return accepted - withdrawn - queries.waiting(db)[0] - counters.refused

    return journal.do(count)


def newest_readable(model_folder: ModelFolder, failure: str) -> Published:
    """Return the newest version that can be read, to predict from when the journal cannot be used."""
    for number in reversed(model_folder.versions()):
        try:
            return Published.of(versions.load(model_folder, number)[0], number)
        except CheckpointError:
            continue
    raise RunError(f"{failure} No version in {str(model_folder.path)!r} can be read either.")


def _require_same_learner(model_folder: ModelFolder, config: ServiceConfig, journal: Journal) -> None:
    """Raise SettingsError if the folder holds another learner; save a new one if it holds none."""
    before = journal.do(partial(queries.value, name="learner"))
    now = config.determining()
    if before is None:
        versions.save(model_folder, journal, fresh(config), Counters(), 0, keep=config.checkpoints.keep)
        journal.do(partial(queries.set_value, name="learner", value=json.dumps(now)))
        return
    changes = differences(without_rar(json.loads(before)), now)
    if changes:
        where, was, is_ = changes[0]
        raise SettingsError(
            f"{where} is {was!r} in {str(model_folder.path)!r} and {is_!r} in the config. The parts of a learner are "
            "fixed; only limits, batches and checkpoints may change. For another learner, use another folder."
        )


def _delete_orphans(model_folder: ModelFolder, journal: Journal) -> None:
    """Delete files of versions that were not recorded in the journal before the process was killed."""
    model_folder.delete_partial()
    known = {version.number for version in journal.do(queries.versions)}
    for number in model_folder.versions():
        if number not in known:
            model_folder.version(number).unlink()


def fresh(config: ServiceConfig) -> Learner:
    """Return a new learner; raise an error if its network cannot take the samples."""
    learner = make_learner(config, config.input.sample, config.classes)
    kind = np.float32 if config.input.size is None else np.uint8
    learner.logits(np.zeros((1, *config.input.sample), dtype=kind))  # raises if the network cannot take such samples
    return learner
