"""From which version to resume: the current one, or if it is damaged, one from which the journal leads there again."""

from functools import partial

from evenkeel.errors import CheckpointError
from evenkeel.learning.learner import Learner
from evenkeel.service.config import Checkpoints
from evenkeel.service.store import accounts, version_rows, versions
from evenkeel.service.store.counters import Counters
from evenkeel.service.store.journal import Journal, JournalError
from evenkeel.service.store.model_folder import ModelFolder

Resumed = tuple[Learner, Counters, int, str | None]


def resume(model_folder: ModelFolder, journal: Journal, keep: Checkpoints) -> Resumed:
    """Return learner, counters and number to resume from, and a sentence about versions that are damaged, if any.

    Damaged versions are set aside. What was learned after the one that is left waits to be learned again.
    """
    damaged: dict[int, str] = {}
    for file, number in journal.do(version_rows.ancestors):
        try:
            learner, counters = versions.load(model_folder, file)
        except CheckpointError as error:
            damaged[file] = str(error)
            continue
        if not damaged:
            if counters.is_older:
                journal.do(partial(accounts.withdraw_rest, counted=counters.learned))
            return learner, counters, number, None
        model_folder.set_aside(*map(model_folder.version, damaged))
        journal.do(partial(version_rows.resume_at, number=number, damaged=list(damaged)))
        counters.learned = journal.do(accounts.learned)
        versions.save(model_folder, journal, learner, counters, number, keep=keep)
        first = next(iter(damaged.values()))
        return learner, counters, number, f"{first} It was set aside; learning resumed from version {file}."
    trouble = next(iter(damaged.values()), "The current version is missing.")
    raise JournalError(f"{trouble} No older version is left from which the journal leads on.")
