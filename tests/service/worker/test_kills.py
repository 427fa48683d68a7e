"""Real kills in the middle of what is rare: a damaged version is replaced, an interruption, a forget, a backup.

`test_moments` and `test_crashes` kill a service that learns.
"""

import shutil
import signal
from collections.abc import Callable
from contextlib import closing, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import httpx
import pytest

from evenkeel.errors import SettingsError
from evenkeel.learning.probes import differences, snapshot
from evenkeel.service.service import Service
from evenkeel.service.store.backup import back_up, restore
from evenkeel.service.store.check import check
from evenkeel.service.store.model_folder import ModelFolder
from tests.helpers.processes import start, wait_for
from tests.helpers.services import adds_up, examples, learner_of, report, teach
from tests.helpers.serving import VECTORS, Served

SETTINGS = (*VECTORS, "batches.size=4", "batches.wait=3600", "checkpoints.batches=1")
STORE = "evenkeel.service.store"
GIVEN = examples(24, own="e")


def cases(places: list[str]) -> list[object]:
    """Return one place at which to kill for each test run, and the others for all of them."""
    return [places[0], *(pytest.param(place, marks=pytest.mark.slow) for place in places[1:])]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a service that has learned six batches, with a version after each."""
    path = tmp_path_factory.mktemp("undisturbed") / "model"
    with closing(Service(path, None, SETTINGS)) as service:
        service.start()
        for begin in range(0, 24, 4):
            teach(service, GIVEN[begin : begin + 4])
    return path


@pytest.fixture
def folder(undisturbed: Path, tmp_path: Path) -> Path:
    """Return a copy of it, next to one that stays undisturbed."""
    for name in ("model", "undisturbed"):
        shutil.copytree(undisturbed, tmp_path / name)
    return tmp_path / "model"


def died(process: BaseProcess) -> bool:
    """Wait for the end of a process, and return whether it was killed."""
    try:
        wait_for(lambda: not process.is_alive())
    finally:
        process.kill()  # if it never came to the place
    return process.exitcode == -signal.SIGKILL


def require_equal(folder: Path, do: Callable[[Service], object] = lambda _: None, *, learned: int) -> None:
    """Fail if the service of a folder differs, to the bit, from one that was never disturbed and `do`es the same."""
    with closing(Service(folder)) as service, closing(Service(folder.with_name("undisturbed"))) as twin:
        assert service.problem is None
        for each in (service, twin):
            each.start()
            do(each)
            teach(each, examples(4, own="later", seed=9))
            assert adds_up(each)
        assert report(service).learned == report(twin).learned == learned
        assert not differences(snapshot(learner_of(service)), snapshot(learner_of(twin)))
    assert list(check(ModelFolder(folder))) == []


# A damaged version

REPLACING = [
    f"{STORE}.version_rows:resume_at",
    f"{STORE}.model_folder:ModelFolder.set_aside",
    f"{STORE}.versions:save",
    f"{STORE}.versions:_write",
    f"{STORE}.version_rows:note",
    f"{STORE}.version_rows:announce",
]


@pytest.mark.parametrize("place", cases(REPLACING))
def test_a_start_that_is_killed_while_it_replaces_a_damaged_version_is_finished_by_the_next(
    folder: Path, place: str
) -> None:
    newest = ModelFolder(folder).version(ModelFolder(folder).versions()[-1])
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    assert died(start(["serve", str(folder), "--one-process", "--port", "0"], folder.with_name("log"), kill_at=place))
    require_equal(folder, learned=28)


# Interruptions


def test_a_service_that_is_killed_while_its_versions_are_away_has_lost_nothing(folder: Path) -> None:
    waiting = examples(8, own="w", seed=3)
    sent = [{"x": list(memoryview(each.x).cast("f")), "label": each.label, "id": each.id} for each in waiting]
    with Served(folder, ()) as served:
        served.settled()  # its learner has read a version
        (folder / "versions").rename(folder / "away")
        assert served.post("/v1/learn", {"examples": sent}, 202)["accepted"] == 8
        wait_for(lambda: "No checkpoint could be written" in (served.get("/v1/status")["error"] or ""))
        assert served.post("/v1/predict", {"x": [1, 2, 3, 4]})["predictions"]
        served.kill()
    (folder / "away").rename(folder / "versions")
    require_equal(folder, lambda service: teach(service, waiting), learned=36)  # a client repeats what it sent


# Forgetting

FORGETTING = [
    f"{STORE}.versions:scrub*2",
    f"{STORE}.versions:scrub",
    f"{STORE}.queries:delete",
    f"{STORE}.forgotten:note",
    f"{STORE}.journal:truncate_log",
    f"{STORE}.predictions:Predictions.forget",
]


@pytest.mark.parametrize("place", cases(FORGETTING))
def test_a_service_that_is_killed_while_it_forgets_many_forgets_them_when_it_is_asked_again(
    folder: Path, place: str
) -> None:
    ids = [example.id for example in GIVEN[:12]]
    with Served(folder, (), kill_at=place) as served:
        with pytest.raises(httpx.TransportError):
            served.post("/v1/forget", {"ids": ids})
        assert died(served.process)
    with closing(Service(folder)) as service:
        service.start()
        answers = service.forget_all(ids).result()
        assert None not in answers.values()
        assert service.forget_all(ids).result() == answers
    for path in filter(Path.is_file, folder.rglob("*")):
        content = path.read_bytes()
        assert not any(example.x in content for example in GIVEN[:12]), path
    require_equal(folder, lambda service: service.forget_all(ids).result(), learned=28)


# Backups

COMMANDS = {
    "backup": [f"{STORE}.backup:_list", f"{STORE}.backup:_copy_database*2", f"{STORE}.backup:flush"],
    "restore": [f"{STORE}.backup:_checked", f"{STORE}.backup:_unpack", f"{STORE}.backup:flush"],
    "check": [f"{STORE}.check:_check_versions", f"{STORE}.check:_check_pages*2"],
}
FIRST, *OTHERS = [(name, place) for name, places in COMMANDS.items() for place in places]


@pytest.mark.parametrize(
    ("command", "place"), [FIRST, *(pytest.param(*each, marks=pytest.mark.slow) for each in OTHERS)]
)
def test_commands_that_are_killed_leave_nothing_or_all_and_can_be_repeated(
    folder: Path, command: str, place: str
) -> None:
    backup, again = folder.with_name("backup.tar"), folder.with_name("again")
    words = {"backup": [str(folder), str(backup)], "restore": [str(backup), str(again)], "check": [str(folder)]}
    if command == "restore":
        back_up(ModelFolder(folder), str(backup))
    assert died(start([command, *words[command]], folder.with_name("log"), kill_at=place))
    with suppress(SettingsError):  # it is complete, and so not made again
        back_up(ModelFolder(folder), str(backup))
    with suppress(SettingsError):
        restore(str(backup), again)
    assert not list(folder.parent.glob(".*.partial*"))
    require_equal(again, learned=28)
