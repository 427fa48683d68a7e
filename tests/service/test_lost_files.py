"""Journals and versions that are lost, torn or damaged: what can be used is used, and nothing is deleted."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from evenkeel.learning.learner import Learner
from evenkeel.learning.probes import differences, snapshot
from evenkeel.service.service import Service
from evenkeel.service.store.journal import JournalError
from evenkeel.service.store.model_folder import ModelFolder
from tests.helpers.processes import wait_for
from tests.helpers.services import Open, adds_up, examples, learner_of, report, rows, settle, teach
from tests.helpers.serving import VECTORS

BATCHES = ("batches.size=4", "batches.wait=3600")


def log_of(folder: ModelFolder) -> Path:
    return folder.path / "journal.sqlite-wal"


def remove(folder: ModelFolder) -> None:
    for path in folder.path.glob("journal.sqlite*"):
        path.unlink()


def empty(folder: ModelFolder) -> None:
    folder.journal.write_bytes(b"")


def cut_log(folder: ModelFolder) -> None:
    content = log_of(folder).read_bytes()
    log_of(folder).write_bytes(content[: len(content) // 2])


def flip_in_log(folder: ModelFolder) -> None:
    content = bytearray(log_of(folder).read_bytes())
    content[len(content) // 2] ^= 1
    log_of(folder).write_bytes(content)


def drop_log(folder: ModelFolder) -> None:
    log_of(folder).unlink()


def drop_log_and_mark(folder: ModelFolder) -> None:
    drop_log(folder)
    folder.mark.unlink()


DAMAGES: dict[str, Callable[[ModelFolder], None]] = {
    each.__name__: each for each in (remove, empty, cut_log, flip_in_log, drop_log, drop_log_and_mark)
}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what a kill leaves of a service: 3 versions, 4 examples learned since, 2 waiting."""
    folder = tmp_path_factory.mktemp("left")
    with closing(Service(folder / "model", None, [*VECTORS, *BATCHES])) as service:
        service.start()
        for seed in range(2):
            teach(service, examples(8, own=f"{seed}-", seed=seed))
        service.learn(examples(6, own="late-", seed=7)).result()
        wait_for(lambda: service.waiting <= 2)
        return shutil.copytree(service.model_folder.path, folder / "killed")


@pytest.fixture
def killed(left: Path, tmp_path: Path) -> ModelFolder:
    """Return a copy of that folder."""
    return ModelFolder(shutil.copytree(left, tmp_path / "killed"))


def contents(folder: ModelFolder) -> dict[str, bytes]:
    """Return all files but the index of the log; an empty log is the same as none."""
    kept = [path for path in folder.path.rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    return {path.name: path.read_bytes() for path in kept if path.stat().st_size or path.suffix != ".sqlite-wal"}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_journal_that_lost_anything_is_noticed_and_nothing_is_touched(
    opened: Open, killed: ModelFolder, damage: str
) -> None:
    DAMAGES[damage](killed)
    before, newest = contents(killed), killed.versions()[-1]
    service = opened(folder="killed")
    assert service.published.version == newest
    assert service.predict([examples(1)[0].x])[1][0].label in ("cat", "dog")
    problem = service.problem or ""
    assert "--rollback N" in problem
    assert "--new-journal" in problem
    assert f"Versions: {', '.join(map(str, killed.versions()))}." in problem
    with pytest.raises(JournalError, match="nothing is learned"):
        service.learn(examples(1))
    service.close()
    assert contents(killed) == before


@pytest.mark.parametrize("way", ["rollback", "new journal"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_each_way_out_learns_again_without_deleting_or_repeating_anything(
    opened: Open, killed: ModelFolder, damage: str, way: str
) -> None:
    DAMAGES[damage](killed)
    newest = killed.versions()[-1]
    then = snapshot(Learner.load(killed.version(newest)))
    had = {killed.version(number).read_bytes() for number in killed.versions()}
    how = {"rollback": newest} if way == "rollback" else {"new_journal": True}
    service = opened(folder="killed", start=False, **how)
    assert service.problem is None
    assert not differences(then, snapshot(learner_of(service)))
    left = service.waiting
    assert left <= 6  # never what the version holds already
    service.start()
    teach(service, examples(12, own="new-", seed=9))
    assert report(service).learned + service.waiting == 16 + left + 12
    assert adds_up(service)
    service.close()
    assert had <= {path.read_bytes() for path in killed.path.rglob("*.ek")}
    assert opened(folder="killed").problem is None


def test_a_version_that_the_journal_does_not_know_is_set_aside(opened: Open) -> None:
    service = opened()
    teach(service, examples(8))
    service.close()
    folder = service.model_folder
    shutil.copy(folder.version(folder.versions()[-1]), folder.version(777))
    unknown = folder.version(777).read_bytes()
    again = opened()
    assert again.problem is None
    assert (folder.aside / folder.version(777).name).read_bytes() == unknown
    assert 777 not in folder.versions()


def test_a_version_that_was_set_aside_is_scrubbed_by_a_forget_too(opened: Open) -> None:
    service = opened()
    teach(service, examples(8, own="e"))
    payload = examples(8)[3].x
    service.model_folder.aside.mkdir()
    aside = service.model_folder.aside / "000000000777.ek"
    shutil.copy(service.model_folder.version(service.model_folder.versions()[-1]), aside)
    assert payload in aside.read_bytes()
    assert service.forget("e3").result().versions == 1
    assert payload not in aside.read_bytes()


# Rows


def test_a_flipped_byte_in_a_row_is_found_named_and_set_aside(opened: Open) -> None:
    service = opened("batches.size=4", start=False)
    given = examples(8, own="e")
    service.learn(given).result()
    service.close()
    path = service.model_folder.journal
    content = path.read_bytes()
    assert content.count(given[2].x) == 1
    path.write_bytes(content.replace(given[2].x, bytes([given[2].x[0] ^ 1]) + given[2].x[1:]))
    again = opened()
    settle(again)
    assert "'e2'" in (report(again).refusal or "")
    assert (report(again).learned, report(again).refused) == (7, 1)
    assert [(each.batch, each.examples) for each in again.list_aside().result()] == [(1, 1)]
    assert adds_up(again)
    assert again.settle_aside("drop").result() == 1
    settle(again)
    assert report(again).refused == 0
    assert adds_up(again)


@pytest.mark.parametrize("column", ["id", "own", "digest", "label", "x", "batch", "seq"])
def test_the_checksum_covers_every_column(opened: Open, column: str) -> None:
    service = opened("batches.size=4", start=False)
    service.learn(examples(4, own="e")).result()
    service.close()
    changed = {"own": "0", "batch": "batch + 64", "seq": "77"}.get(column, "'[1]'")
    with closing(sqlite3.connect(service.model_folder.journal)) as db, db:
        db.execute(f"UPDATE examples SET {column} = {changed} WHERE id = 'e3'")
    again = opened()
    settle(again)
    assert (report(again).learned, report(again).refused) == (3, 1)


# Versions


def test_a_damaged_newest_version_is_replaced_by_the_one_before_and_the_journal(opened: Open) -> None:
    twin, service = opened(*BATCHES, folder="twin"), opened(*BATCHES)
    for seed in range(3):
        for each in (twin, service):
            teach(each, examples(8, own=f"{seed}-", seed=seed))
    service.close()
    folder = service.model_folder
    newest = folder.version(folder.versions()[-1])
    newest.write_bytes(newest.read_bytes()[:-200])
    again = opened()
    assert "not a complete checkpoint" in (again.notice or "")
    assert again.problem is None
    settle(again)
    teach(again, examples(8, own="more-", seed=9))
    teach(twin, examples(8, own="more-", seed=9))
    assert not differences(snapshot(learner_of(again)), snapshot(learner_of(twin)))
    assert report(again).learned == 32
    assert adds_up(again)
    assert [path.name for path in folder.aside.iterdir()] == [newest.name]


def test_a_damaged_copy_of_a_rollback_is_replaced_by_what_it_is_a_copy_of(opened: Open) -> None:
    service = opened(*BATCHES)
    teach(service, examples(8))
    number = service.save().result().number
    then = snapshot(learner_of(service))
    teach(service, examples(8, seed=1))
    copy = service.rollback(number).result()
    service.close()
    service.model_folder.version(copy.number).write_bytes(b"")
    again = opened()
    assert again.published.version == copy.number
    assert not differences(then, snapshot(learner_of(again)))
    assert report(again).learned == 16
    assert adds_up(again)


def test_what_a_rollback_copied_stays_until_there_is_another_version(opened: Open) -> None:
    """Though it is the oldest, and one too many: until then, the copy is the only other file with this state."""
    service = opened(*BATCHES, "checkpoints.keep=2")
    for seed in range(2):
        teach(service, examples(8, seed=seed))
    oldest = service.list_versions().result()[0].number
    service.learn(examples(8, seed=2)).result()
    wait_for(lambda: not service.waiting)  # learned, and in no checkpoint yet: the rollback writes one more
    copy = service.rollback(oldest).result()
    service.close()
    service.model_folder.version(copy.number).write_bytes(b"")
    again = opened()
    assert (again.problem, again.published.version) == (None, copy.number)
    assert f"resumed from version {oldest}" in (again.notice or "")
    teach(again, examples(8, seed=3))
    teach(again, examples(8, seed=4))
    assert oldest not in again.model_folder.versions()
    assert adds_up(again)


def test_with_no_version_that_leads_on_it_predicts_and_names_the_way_out(opened: Open) -> None:
    service = opened(*BATCHES)
    first = teach(service, examples(8)) and service.model_folder.versions()[-1]
    for seed in range(1, 4):
        teach(service, examples(8, seed=seed))
    wait_for(lambda: len(rows(service, "SELECT * FROM examples WHERE x IS NOT NULL")) <= 8)
    service.close()
    for number in service.model_folder.versions()[-2:]:
        service.model_folder.version(number).write_bytes(b"")
    again = opened()
    assert again.published.version < service.published.version
    assert "--rollback N" in (again.problem or "")
    with pytest.raises(JournalError, match="nothing is learned"):  # then the id is null, as whenever it only predicts
        again.remember([examples(1)[0].x], *again.predict([examples(1)[0].x]))
    again.close()
    back = opened(rollback=first)
    teach(back, examples(8, seed=5))
    assert adds_up(back)


def test_two_versions_stay_though_the_config_wants_one(opened: Open) -> None:
    service = opened(*BATCHES, "checkpoints.keep=1")
    for seed in range(4):
        teach(service, examples(4, seed=seed))
    assert len(service.model_folder.versions()) == 2
