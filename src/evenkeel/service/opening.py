"""How a folder is opened: the learner it holds, or a new one."""

import json
import sqlite3
from functools import partial

import numpy as np

from evenkeel.errors import CheckpointError, RunError, SettingsError
from evenkeel.experiment.folder import differences
from evenkeel.experiment.making import make_learner
from evenkeel.learner import Learner
from evenkeel.service import records, versions
from evenkeel.service.channel import Published
from evenkeel.service.config import ServiceConfig
from evenkeel.service.home import Home
from evenkeel.service.journal import Journal
from evenkeel.service.tally import Tally


def current(home: Home, config: ServiceConfig, journal: Journal, rollback: int | None) -> tuple[Published, Tally]:
    """The version to go on from, or an earlier one that is made the current one."""
    _require_same_learner(home, config, journal)
    number = journal.do(partial(records.value, name="current"))
    if rollback is None:
        learner, tally = versions.load(home, number)
    else:
        _, tally = versions.load(home, rollback)
        tally.learned = _learned(journal, tally)
        keep = config.checkpoints.keep
        learner, made = versions.go_back(home, journal, tally, rollback, learned=number, keep=keep)
        number = made.number
    _delete_orphans(home, journal)
    return Published.of(learner, number), tally


def _learned(journal: Journal, tally: Tally) -> int:
    """All that was accepted and does not wait: what was learned since an earlier version was learned, and is gone."""

    def count(db: sqlite3.Connection) -> int:
        accepted, withdrawn = (int(records.value(db, name)) for name in ("accepted", "withdrawn"))
        return accepted - withdrawn - records.waiting(db)[0] - tally.refused

    return journal.do(count)


def newest_readable(home: Home, failure: str) -> Published:
    """What can answer where the journal is of no use."""
    for number in reversed(home.versions()):
        try:
            return Published.of(versions.load(home, number)[0], number)
        except CheckpointError:
            continue
    raise RunError(f"{failure} No version in {str(home.path)!r} can be read either.")


def _require_same_learner(home: Home, config: ServiceConfig, journal: Journal) -> None:
    """A new one is made where there is none."""
    before = journal.do(partial(records.value, name="learner"))
    now = config.determining()
    if before is None:
        versions.save(home, journal, fresh(config), Tally(), 0, keep=config.checkpoints.keep)
        journal.do(partial(records.set_value, name="learner", value=json.dumps(now)))
        return
    found = differences(json.loads(before), now)
    if found:
        where, was, is_ = found[0]
        raise SettingsError(
            f"{where} is {was!r} in {str(home.path)!r} and {is_!r} in the config. A learner keeps what it is made of; "
            "only limits, batches and checkpoints may change. For another, make another folder."
        )


def _delete_orphans(home: Home, journal: Journal) -> None:
    """Files of versions that were not noted any more when the process was killed."""
    home.delete_partial()
    known = {version.number for version in journal.do(records.versions)}
    for number in home.versions():
        if number not in known:
            home.version(number).unlink()


def fresh(config: ServiceConfig) -> Learner:
    learner = make_learner(config, config.input.sample, config.classes)
    kind = np.float32 if config.input.size is None else np.uint8
    learner.logits(np.zeros((1, *config.input.sample), dtype=kind))  # whether its net can take such samples at all
    return learner
