"""Files that are torn, emptied, changed or missing when a service starts, and what is promised then."""

import itertools
import random
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from evenkeel.service.service import Service
from evenkeel.service.store.journal import JournalError
from evenkeel.service.store.model_folder import ModelFolder
from tests.helpers.crashes.clients import FEATURES
from tests.helpers.crashes.twin import Twin
from tests.helpers.services import adds_up, report, settle


def remove(path: Path, _: random.Random) -> None:
    path.unlink()


def empty(path: Path, _: random.Random) -> None:
    path.write_bytes(b"")


def halve(path: Path, _: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def tear(path: Path, rng: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def flip_in_the_middle(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def flip(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


Change = Callable[[Path, random.Random], None]
CHANGES: list[Change] = [remove, empty, halve, tear, flip_in_the_middle, flip]
ALL = list(itertools.product(("journal", "log", "newest version", "mark"), CHANGES))
# A bit of a row costs an example, which then is set aside: a service that lost one no longer equals its twin.
SURVIVED = [(name, change) for name, change in ALL if name != "journal" or change not in (flip, flip_in_the_middle)]


class Damages:
    """What is damaged next: each pair of a file and a change once, in a random order, then all of them again."""

    def __init__(self, pairs: Sequence[tuple[str, Change]], rng: random.Random) -> None:
        self._pairs, self._rng = pairs, rng
        self._left: list[tuple[str, Change]] = []

    def damage(self, folder: ModelFolder) -> tuple[str, Path]:
        """Damage a file that is there and not empty; return what was done, and to which file."""
        for _ in range(2):
            for pair in self._left:
                path = file_of(folder, pair[0])
                if path.exists() and path.stat().st_size:
                    self._left.remove(pair)
                    pair[1](path, self._rng)
                    return f"{pair[0]}, {pair[1].__name__}", path
            self._left += self._rng.sample(self._pairs, len(self._pairs))
        raise AssertionError(f"There is nothing to damage in {folder.path}.")


def file_of(folder: ModelFolder, name: str) -> Path:
    """Return the path of what is called `name` here."""
    if name == "newest version":
        return folder.version(folder.versions()[-1])
    return {"journal": folder.journal, "log": folder.path / "journal.sqlite-wal", "mark": folder.mark}[name]


def see(folder: ModelFolder, twin: Twin, *, new_journal: bool) -> str:
    """Start the service of a damaged folder, and fail if it does not do what is promised."""
    before = contents(folder)
    with closing(Service(folder.path)) as service:
        if service.problem is None:
            return continued(service, twin)
        require_only_predictions(service)
        usable = "cannot be used" not in service.problem
    assert contents(folder) == before
    require_a_way_out(folder, new_journal=new_journal or not usable)
    return "noticed"


def continued(service: Service, twin: Twin) -> str:
    """Fail if a service that learns lost anything without a word; return what it says."""
    service.start()
    settle(service)
    assert adds_up(service)
    assert service.counts().result()["accepted"] == len(twin.accepted)
    folder = service.model_folder
    if report(service).refused:
        assert "is damaged" in (report(service).refusal or ""), report(service)
        return "rows set aside"
    twin.branch().follow(folder.journal).require_equal(folder.version(folder.versions()[-1]))
    return "continued" if service.notice is None else "continued from an earlier version"


def require_only_predictions(service: Service) -> None:
    """Fail if a service that noticed a loss does anything but predict."""
    assert service.published.version == service.model_folder.versions()[-1] or "checkpoint" in (service.problem or "")
    if service.published.classifier.classes:  # it may be the first version
        assert service.predict([bytes(4 * FEATURES)])[1]
    with pytest.raises(JournalError, match="nothing is learned"):
        service.save()


def require_a_way_out(folder: ModelFolder, *, new_journal: bool) -> None:
    """Fail if the service cannot continue from the newest version that it can read, or deletes another one."""
    had = {path.read_bytes() for path in folder.path.rglob("*.ek")}
    with closing(Service(folder.path)) as before:
        number = before.published.version
    with closing(Service(folder.path, rollback=number, new_journal=new_journal)) as service:
        assert service.problem is None, service.problem
        service.start()
        settle(service)
        assert adds_up(service)
    if new_journal:  # otherwise it may know that a version is to be deleted
        assert had <= {path.read_bytes() for path in folder.path.rglob("*.ek")}


def contents(folder: ModelFolder) -> dict[str, bytes]:
    """Return all files but the index of the log; an empty log is the same as none."""
    kept = [path for path in folder.path.rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    return {path.name: path.read_bytes() for path in kept if path.stat().st_size or path.suffix != ".sqlite-wal"}
