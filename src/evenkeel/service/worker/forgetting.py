"""Forgetting: one pass over journal, memory and all versions for any number of ids, in steps between batches."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from evenkeel.errors import CheckpointError
from evenkeel.service.store import forgotten, queries, version_rows, versions
from evenkeel.service.store.forgotten import Forgotten
from evenkeel.service.store.model_folder import ModelFolder
from evenkeel.service.worker.learning import Learning
from evenkeel.service.worker.pipe import WorkerPipe


class Forgetting:
    """Requests to forget. What was removed from memory counts until no file holds it, even if a request fails."""

    def __init__(self, model_folder: ModelFolder, pipe: WorkerPipe, learning: Learning) -> None:
        self._model_folder, self._pipe, self._learning = model_folder, pipe, learning
        self.withdrawn = 0  # examples that waited, by the last request that was begun
        self._removed = Counter[str]()  # samples removed from memory, but perhaps not from all files

    def steps(self, ids: Sequence[str], predictions: Sequence[str]) -> "Iterator[dict[str, Forgotten | None]]":
        """Forget ids in steps; each yields nothing yet but the last, which yields what was removed for each id.

        `predictions`: those of the ids for which a prediction was removed already.
        """
        self._learning.set_aside()
        held: dict[str, queries.Held] = self._pipe.do(partial(queries.find, ids=ids))
        before: dict[str, Forgotten] = self._pipe.do(partial(forgotten.find, ids=[id for id in ids if id not in held]))
        waited = {id for id, each in held.items() if each.waits(self._learning.number)}
        older = Counter[str]()

        def answers() -> dict[str, Forgotten]:
            known = {*held, *predictions, *older, *self._removed}
            new = {id: Forgotten(id in waited, self._removed[id], older[id], id in predictions) for id in known}
            return {id: new[id].together(before.get(id)) for id in ids if id in known}

        self._forget_current(ids, held, len(waited), answers)
        self.withdrawn = len(waited)
        for path in self._older_files():
            yield {}
            older.update(self._scrub(path, ids))
        yield {}
        self._pipe.do(partial(forgotten.note, answers=answers()))
        self._pipe.scrub()
        done = answers()
        for id in ids:
            del self._removed[id]
        yield {id: done.get(id, before.get(id)) for id in ids}

    def _forget_current(
        self,
        ids: Sequence[str],
        held: dict[str, queries.Held],
        waited: int,
        answers: Callable[[], dict[str, Forgotten]],
    ) -> None:
        """Remove ids from memory and from the journal, together with a checkpoint that lacks them.

        The answers so far are noted at the same time: whoever repeats a request after a kill gets them.
        """
        learning = self._learning
        removed = {id: learning.learner.forget(id) for id in ids}
        self._removed |= Counter(removed)  # the larger count of each, without zeros
        refused = sum(each.aside for each in held.values())
        delete = partial(queries.delete, ids=list(held), withdrawn=refused + waited)
        note = partial(forgotten.note, answers=answers())
        if len(held) > waited or learning.unsaved or self._removed:
            learning.save(also=(delete, note))
            learning.refused -= refused
        else:
            self._pipe.do(partial(versions.together, operations=[delete, note]))

    def _older_files(self) -> list[Path]:
        """Return the files of all versions but the current one, also of those that were set aside."""
        folder, current = self._model_folder, self._learning.number
        kept = [folder.version(number) for number in folder.versions() if number != current]
        return kept + sorted(folder.aside.glob("*.ek"))

    def _scrub(self, path: Path, ids: Sequence[str]) -> list[str]:
        """Remove ids from an older version, and return those it held. An unreadable version is deleted."""
        if not path.exists():  # it was retired meanwhile
            return []
        try:
            return versions.scrub(path, ids)
        except CheckpointError:
            if path.parent != self._model_folder.aside:
                self._pipe.do(partial(version_rows.drop, number=int(path.stem)))
            path.unlink(missing_ok=True)
            return []
