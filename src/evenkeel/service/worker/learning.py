"""The learner and its counters, and everything that changes them: what a checkpoint holds."""

from collections.abc import Callable
from functools import partial
from typing import Any

from evenkeel.errors import EvenkeelError
from evenkeel.service.config import ServiceConfig
from evenkeel.service.samples import unpack
from evenkeel.service.store import accounts, aside, queries, versions
from evenkeel.service.store.journal import Operation
from evenkeel.service.store.model_folder import ModelFolder
from evenkeel.service.store.queries import RECENT, CutBatch
from evenkeel.service.store.version_rows import Version
from evenkeel.service.store.versions import Writes

TESTED = 4  # under load, one batch in so many is predicted before it is learned


class Learning:
    """A learner that learns batches of the journal in order. `number` is that of the last one: the version.

    Examples that cannot be learned are set aside in the journal together with the next checkpoint: a crash before that
    repeats both. `refused` counts them, and those that are not in the journal yet.
    """

    def __init__(self, model_folder: ModelFolder, config: ServiceConfig, journal: Writes, number: int) -> None:
        self.number = self.saved = number
        self.learner, self.counters = versions.load(model_folder, number)
        self.refused = int(journal.do(accounts.refused))
        self.unsaved = 0  # batches
        self.refusal: str | None = None  # why the last refused examples could not be learned
        self._model_folder, self._config, self._journal = model_folder, config, journal
        self._unlearnable: dict[int, str] = {}  # batches that made the learner fail, and how
        self._aside = aside.Reasons({}, {})  # not in the journal yet

    def learn(self, batch: CutBatch) -> None:
        """Learn a batch, or refuse it. After any other error than these, the learner must be reloaded."""
        for seq, id in batch.damaged:
            self._refuse(f"Example {id!r} was not learned: its row in the journal is damaged.")
            self._aside.rows[seq] = self.refusal or ""
            self.refused += 1
        if batch.number in self._unlearnable:
            self._refuse_batch(batch, self._unlearnable[batch.number])
        elif batch.examples:
            self._teach(batch)
        self.number, self.counters.seq = batch.number, max(self.counters.seq, batch.last)
        self.unsaved += 1

    def _teach(self, batch: CutBatch) -> None:
        labels = [example.label for example in batch.examples]
        x = unpack([example.x for example in batch.examples], self._config.input)
        try:
            if self._is_tested(batch):
                self.counters.test(self.learner, x, labels)
            self.learner.learn(x, labels, key=[example.id for example in batch.examples])
        except EvenkeelError as error:  # a value is not finite; a replay after a crash refuses it too
            self._refuse_batch(batch, str(error))
        else:
            self.counters.count(labels)

    def _is_tested(self, batch: CutBatch) -> bool:
        """Check whether to predict a batch before it is learned, which takes time from learning.

        Full batches mean load, and a sample of them will do. A replay counts the same: the clock does not matter.
        """
        is_full = len(batch.examples) >= self._config.batches.size
        return not is_full or self.counters.tested < RECENT or batch.number % TESTED == 0

    def _refuse_batch(self, batch: CutBatch, why: str) -> None:
        self._refuse(f"Batch {batch.number} was not learned: {why}")
        self._aside.batches[batch.number] = self.refusal or ""
        self.refused += len(batch.examples)

    def _refuse(self, why: str) -> None:
        self.refusal = why

    @property
    def skipped(self) -> bool:
        """Check whether the last batch was skipped because it made the learner fail: then a checkpoint is due."""
        return self.number in self._unlearnable and self.unsaved > 0

    def reload(self) -> None:
        """Return to the last checkpoint, from which the journal leads on."""
        self.learner, self.counters = versions.load(self._model_folder, self.saved)
        self.refused = int(self._journal.do(accounts.refused))
        self.number, self.unsaved, self._aside = self.saved, 0, aside.Reasons({}, {})

    def skip(self, number: int, error: Exception) -> None:
        """Refuse the batch with this number when it comes again."""
        self._unlearnable[number] = f"{type(error).__name__}: {error}"

    def save(
        self,
        *,
        asked: bool = False,
        note: str = "",
        also: "tuple[Operation[Any], ...]" = (),
        spared: int | None = None,
    ) -> Version:
        """Write a checkpoint of what has been learned so far, together with what `also` does to the journal.

        `spared`: an older version that is kept, whatever the limits say.
        """
        version = versions.save(
            self._model_folder,
            self._journal,
            self.learner,
            self.counters,
            self.number,
            keep=self._config.checkpoints,
            asked=asked,
            note=note,
            spared=spared,
            also=[partial(aside.set_aside, reasons=self._aside), *also],
        )
        self._was_saved()
        return version

    def rollback(self, number: int) -> Version:
        """Resume from an earlier version. What was learned since then is lost; what waits is learned."""
        versions.require_known(self._journal, number)
        if self.unsaved:
            self.save(spared=number)  # so that what was refused is set aside
        learner, version = versions.go_back(
            self._model_folder,
            self._journal,
            self.counters,
            number,
            learned=self.number,
            keep=self._config.checkpoints,
        )
        self.learner, self.number = learner, version.number
        self._was_saved()
        return version

    def _was_saved(self) -> None:
        self.saved, self.unsaved, self._aside = self.number, 0, aside.Reasons({}, {})
        self._unlearnable.clear()

    def retry(self, batch: int | None = None) -> int:
        """Let examples that were set aside wait to be learned again, those of one batch or all; return how many."""
        return self._settle_aside(batch, aside.retry)

    def drop(self, batch: int | None = None) -> int:
        """Withdraw examples that were set aside, those of one batch or all; return how many."""
        return self._settle_aside(batch, aside.drop)

    def set_aside(self) -> None:
        """Write a checkpoint if examples were refused since the last one, so that they are set aside in the journal."""
        if self._aside.batches or self._aside.rows:
            self.save()

    def _settle_aside(self, batch: int | None, settle: Callable[..., int]) -> int:
        self.set_aside()
        count = int(self._journal.do(partial(settle, batch=batch)))
        if not count:
            raise queries.UnknownError("Nothing is set aside" + (f" of batch {batch}." if batch is not None else "."))
        self.refused -= count
        return count
