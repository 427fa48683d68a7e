"""Backups are consistent, complete or absent, and restore to the same bits; checks find what is wrong."""

import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import DataError, SettingsError
from evenkeel.learning.probes import differences, snapshot
from evenkeel.service.service import Service
from evenkeel.service.store import backup, seal
from evenkeel.service.store.agreement import disagreement
from evenkeel.service.store.backup import back_up, restore
from evenkeel.service.store.check import check
from evenkeel.service.store.model_folder import ModelFolder
from tests.helpers.commands import call
from tests.helpers.services import Open, adds_up, examples, learner_of, report, settle, teach
from tests.helpers.serving import VECTORS

BATCHES = ("batches.size=4", "batches.wait=3600")


@pytest.fixture
def running(opened: Open) -> Service:
    """Return a service with three versions, and two examples that wait."""
    service = opened(*BATCHES)
    for seed in range(2):
        teach(service, examples(8, own=f"{seed}-", seed=seed))
    service.learn(examples(2, own="w", seed=5)).result()
    return service


@pytest.mark.parametrize("target", ["copies/monday", "monday.tar", "memory://monday.tar"])
def test_a_backup_of_a_running_service_continues_with_the_same_bits(
    opened: Open, running: Service, tmp_path: Path, target: str
) -> None:
    place = target if "://" in target else str(tmp_path / target)
    facts = back_up(running.model_folder, place)
    assert facts["waiting"] == 2
    teach(running, examples(6, own="later-", seed=7))
    restore(place, tmp_path / "again")
    assert list(check(ModelFolder(tmp_path / "again"))) == []
    again = opened(folder="again")
    assert again.problem is None
    assert again.waiting == 2
    teach(again, examples(6, own="later-", seed=7))
    assert not differences(snapshot(learner_of(running)), snapshot(learner_of(again)))
    assert report(again).learned + again.waiting == 24
    assert adds_up(again)


def test_what_a_service_commits_while_its_journal_is_checked_does_not_count(
    running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    checksum, commits = seal._checksum, list[int]()

    def after_a_commit(db: sqlite3.Connection) -> int:
        """Compute the checksum after a commit that comes between the reading of it and of what it is of."""
        monkeypatch.setattr(seal, "_checksum", checksum)
        commits.append(running.waiting)
        running.learn(examples(1, own="meanwhile", seed=9)).result()
        return checksum(db)

    monkeypatch.setattr(seal, "_checksum", after_a_commit)
    assert disagreement(running.model_folder) is None
    assert commits == [2]
    assert running.waiting == 3


def test_backups_made_while_it_learns_and_retires_versions_are_consistent(opened: Open, tmp_path: Path) -> None:
    service = opened(*BATCHES, "checkpoints.batches=1", "checkpoints.keep=1")
    stop = threading.Event()

    def keep_teaching() -> None:
        seed = 0
        while not stop.is_set():
            seed += 1
            service.learn(examples(4, seed=seed)).result()
            settle(service)

    teacher = threading.Thread(target=keep_teaching)
    teacher.start()
    try:
        for number in range(5):
            back_up(service.model_folder, str(tmp_path / f"backup-{number}"))
    finally:
        stop.set()
        teacher.join()
    for number in range(5):
        restore(str(tmp_path / f"backup-{number}"), tmp_path / f"again-{number}")
        assert list(check(ModelFolder(tmp_path / f"again-{number}"))) == []


class KilledError(BaseException):
    """A kill, seen from inside."""


def killed_at(moment: int, work: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Do some work that is killed when it calls a function of the module `backup` for this many times."""
    calls, delete = 0, backup._delete

    def die(frame: Any, event: str, _: Any) -> None:
        nonlocal calls
        if event == "call" and frame.f_code.co_filename == backup.__file__:
            calls += 1
            if calls == moment:
                raise KilledError

    with monkeypatch.context() as without_cleaning:
        # A killed process cleans nothing up.
        without_cleaning.setattr(backup, "_delete", lambda *paths: delete(*paths) if calls < moment else None)
        sys.setprofile(die)
        try:
            work()
        except KilledError:
            return True
        finally:
            sys.setprofile(None)
    return False


@pytest.mark.parametrize("name", ["copy", "copy.tar"])
def test_a_backup_that_is_killed_is_absent_or_complete_and_can_be_repeated(
    running: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder, target = running.model_folder, tmp_path / name
    moments = [1, 3, 5, 8, 13, 21]
    for moment in moments:
        if killed_at(moment, lambda: back_up(folder, str(target)), monkeypatch):
            assert not target.exists()
    back_up(folder, str(target))
    for moment in (1, 2, 3, 4, 5, 6, 8):
        if killed_at(moment, lambda: restore(str(target), tmp_path / "again"), monkeypatch):
            assert not (tmp_path / "again").exists()
    restore(str(target), tmp_path / "again")
    assert list(check(ModelFolder(tmp_path / "again"))) == []
    assert not list(tmp_path.glob(".*.partial*"))


def test_what_exists_is_never_overwritten(running: Service, tmp_path: Path) -> None:
    folder, target = running.model_folder, tmp_path / "copy"
    back_up(folder, str(target))
    with pytest.raises(SettingsError, match=r"exists\. Choose a new name"):
        back_up(folder, str(target))
    with pytest.raises(SettingsError, match=r"exists\. Choose a new name"):
        restore(str(target), folder.path)
    with pytest.raises(SettingsError, match=r"a folder or a \.tar file, not \.gz"):
        back_up(folder, str(tmp_path / "copy.tar.gz"))
    (tmp_path / "empty").mkdir()  # a place that was made for it
    restore(str(target), tmp_path / "empty")
    assert list(check(ModelFolder(tmp_path / "empty"))) == []


def change(backup: Path) -> None:
    (backup / "service.toml").write_text("seed = 1")


def lose_versions(backup: Path) -> None:
    shutil.rmtree(backup / "versions")


def lose_the_list(backup: Path) -> None:
    (backup / "backup.json").unlink()


def replace_the_list(backup: Path) -> None:
    (backup / "backup.json").write_text("[1, 2]")


def lose_all(backup: Path) -> None:
    shutil.rmtree(backup)


DAMAGED: dict[Callable[[Path], None], str] = {
    change: r"is damaged: 'service\.toml'",
    lose_versions: r"is incomplete: it lacks 'versions/",
    lose_the_list: "is not a backup: it has no list",
    replace_the_list: "is not a backup: it has no list",
    lose_all: "There is no backup",
}


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("form", ["folder", "tar"])
def test_what_is_damaged_is_never_restored_and_named_as_it_was_given(
    whole: Path, tmp_path: Path, damage: Callable[[Path], None], form: str
) -> None:
    source = tmp_path / "copy"
    shutil.copytree(whole, source)
    damage(source)
    if form == "tar" and source.exists():
        source = Path(shutil.make_archive(str(tmp_path / "packed"), "tar", source))
    with pytest.raises(DataError, match=DAMAGED[damage]) as raised:
        restore(str(source), tmp_path / "again")
    assert str(source) in str(raised.value)
    assert "partial" not in str(raised.value)
    assert not (tmp_path / "again").exists()
    assert not list(tmp_path.glob(".*.partial*"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a backup."""
    folder = tmp_path_factory.mktemp("whole")
    with closing(Service(folder / "model", None, VECTORS)) as service:
        service.start()
        teach(service, examples(8))
        back_up(service.model_folder, str(folder / "backup"))
    return folder / "backup"


def test_copies_are_for_their_owner_even_if_the_original_is_not(whole: Path, tmp_path: Path) -> None:
    restore(str(whole), tmp_path / "model")
    for path in (tmp_path / "model").rglob("*"):
        path.chmod(0o777)
    back_up(ModelFolder(tmp_path / "model"), str(tmp_path / "copy"))
    assert not any(path.stat().st_mode & 0o077 for path in (tmp_path / "copy").rglob("*"))
    for path in (tmp_path / "copy").rglob("*"):
        path.chmod(0o755)
    restore(str(tmp_path / "copy"), tmp_path / "again")
    assert not any(path.stat().st_mode & 0o077 for path in (tmp_path / "again").rglob("*"))


@pytest.mark.parametrize("name", [".", "link"])
def test_an_empty_folder_takes_a_backup_by_any_name(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty-too").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    target = tmp_path / "empty"
    if name == "link":
        target = tmp_path / "empty-too"
        Path("link").symlink_to(target)
    restore(str(whole), Path(name))
    assert list(check(ModelFolder(target))) == []


def test_a_mount_point_is_refused_with_a_way_out(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "volume").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda self: self == tmp_path / "volume")
    with pytest.raises(SettingsError, match=r"is a mount point.* Choose a folder inside it"):
        restore(str(whole), tmp_path / "volume")
    restore(str(whole), tmp_path / "volume" / "model")


def test_only_what_a_backup_lists_is_restored(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    (tmp_path / "copy" / "keys.json").write_text("[]")
    restore(str(tmp_path / "copy"), tmp_path / "again")
    assert sorted(each.name for each in (tmp_path / "again").rglob("*") if each.is_file()) == sorted(
        each.name for each in whole.rglob("*") if each.is_file() and each.name != "backup.json"
    )


def empty_the_journal(folder: ModelFolder) -> None:
    folder.journal.write_bytes(b"")


def go_back_in_time(folder: ModelFolder) -> None:
    """Replace the journal by an older copy, which is what a torn log amounts to."""
    with closing(sqlite3.connect(folder.journal)) as db, db:
        db.execute("DELETE FROM meta WHERE name = 'seal'")
        db.execute("UPDATE meta SET value = value - 1 WHERE name = 'position'")


def fill_with_noise(folder: ModelFolder) -> None:
    folder.journal.write_bytes(b"\xff" * 4096)


def never_start(folder: ModelFolder) -> None:
    for path in (*folder.path.rglob("*.ek"), *folder.journal_files()):
        path.unlink(missing_ok=True)


def spoil_predictions(folder: ModelFolder) -> None:
    folder.predictions.write_bytes(b"\xff" * 4096)


LOST: dict[Callable[[ModelFolder], None], str] = {
    empty_the_journal: "cannot be backed up.*is empty",
    go_back_in_time: "cannot be backed up.*is incomplete",
    fill_with_noise: "cannot be backed up.*cannot be read",
    never_start: "cannot be backed up.*no journal yet",
    spoil_predictions: "predictions.sqlite' cannot be copied",
}


@pytest.mark.parametrize("lose", LOST)
def test_a_folder_that_has_lost_something_is_not_backed_up_as_if_it_had_not(
    whole: Path, tmp_path: Path, lose: Callable[[ModelFolder], None]
) -> None:
    restore(str(whole), tmp_path / "model")
    folder = ModelFolder(tmp_path / "model")
    lose(folder)
    with pytest.raises(DataError, match=LOST[lose]):
        back_up(folder, str(tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()


# Checks


def flip_a_sample(folder: ModelFolder) -> None:
    with closing(sqlite3.connect(folder.journal)) as db, db:
        db.execute("UPDATE examples SET x = zeroblob(length(x)) WHERE id = 'w1'")


def cut_a_version(folder: ModelFolder) -> None:
    folder.version(folder.versions()[0]).write_bytes(b"PK")


def lose_an_example(folder: ModelFolder) -> None:
    with closing(sqlite3.connect(folder.journal)) as db, db:
        db.execute("DELETE FROM examples WHERE id = 'w1'")


def lose_the_journal(folder: ModelFolder) -> None:
    folder.journal.unlink()


def damage_a_page(folder: ModelFolder) -> None:
    content = bytearray(folder.predictions.read_bytes())
    content[:100] = b"\xff" * 100
    folder.predictions.write_bytes(content)


def change_the_learner(folder: ModelFolder) -> None:
    path = folder.path / "service.toml"
    path.write_text(path.read_text().replace("features = 4", "features = 5"))


WRONG: dict[str, tuple[Callable[[ModelFolder], None], str]] = {
    "row": (flip_a_sample, "The row of example 'w1' in the journal is damaged"),
    "version": (cut_a_version, "is not a complete checkpoint"),
    "sum": (lose_an_example, "18 examples were accepted, but 17 are accounted for"),
    "journal": (lose_the_journal, "is missing"),
    "page": (damage_a_page, "predictions.sqlite cannot be read"),
    "config": (change_the_learner, "input.features is 4 in"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_check_names_what_is_wrong_and_exits_with_an_error(
    running: Service, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    damage, expected = WRONG[case]
    running.close()
    path = str(running.model_folder.path)
    assert call(capsys, "check", path)[0] == 0
    damage(running.model_folder)
    code, shown, _ = call(capsys, "check", path)
    assert code == 1
    assert expected in shown


def test_a_check_of_a_running_service_is_refused(running: Service, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, errors = call(capsys, "check", str(running.model_folder.path))
    assert code == 1
    assert "Another service or command is using" in errors
