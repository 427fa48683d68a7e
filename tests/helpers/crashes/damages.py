"""Files that are torn, emptied, changed or missing when a service starts, and what is promised then."""

import random
from collections.abc import Callable
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


def tear(path: Path, rng: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def flip(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


CHANGES: list[Callable[[Path, random.Random], None]] = [remove, empty, tear, flip]


def damage(folder: ModelFolder, twin: Twin, rng: random.Random) -> str:
    """Damage one file; fail if what is promised does not hold. Return which was damaged, how, and what came of it."""
    log, newest = folder.path / "journal.sqlite-wal", folder.version(folder.versions()[-1])
    paths = {"journal": folder.journal, "log": log, "newest version": newest, "mark": folder.mark}
    name, path = rng.choice([(name, path) for name, path in paths.items() if path.exists() and path.stat().st_size])
    change = rng.choice(CHANGES)
    change(path, rng)
    outcome = see(folder, twin, new_journal=rng.random() < 0.5)
    return f"{name}, {change.__name__}: {outcome}"


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
