"""Counters and the list of versions have a checksum: no change of them goes unnoticed."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from evenkeel.service.store.agreement import disagreement
from evenkeel.service.store.model_folder import ModelFolder
from evenkeel.service.store.seal import OPEN
from tests.helpers.commands import call
from tests.helpers.services import Open, adds_up, examples, teach


@pytest.fixture
def folder(opened: Open) -> ModelFolder:
    """Return the folder of a service that learned, rolled back and forgot."""
    service = opened("batches.size=4")
    teach(service, examples(8, own="e"))
    service.rollback(0).result()
    service.forget("e1").result()
    service.close()
    return service.model_folder


def changes(folder: ModelFolder) -> list[str]:
    """Return statements that change each value in the small tables, one at a time."""
    with closing(sqlite3.connect(folder.journal)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM meta") if name not in OPEN]
        columns = [row[1] for row in db.execute("PRAGMA table_info(versions)")]
    values = [f"UPDATE meta SET value = value || '1' WHERE name = '{name}'" for name in names]
    cells = [f"UPDATE versions SET {column} = coalesce({column}, 0) + 77 WHERE number = 0" for column in columns]
    return [*values, *cells, "DELETE FROM versions WHERE number = 0"]


def test_a_change_of_any_counter_or_version_is_noticed(folder: ModelFolder, tmp_path: Path) -> None:
    assert disagreement(folder) is None
    statements = changes(folder)
    assert len(statements) > 15
    for place, statement in enumerate(statements):
        copy = ModelFolder(tmp_path / str(place))
        shutil.copytree(folder.path, copy.path)
        with closing(sqlite3.connect(copy.journal)) as db, db:
            assert db.execute(statement).rowcount == 1, statement
        with pytest.raises(sqlite3.DatabaseError, match="fail their checksum"):
            disagreement(copy)


def test_a_journal_with_changed_counters_is_not_used_and_the_way_out_is_named(
    opened: Open, folder: ModelFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(folder.journal)) as db, db:
        db.execute("UPDATE meta SET value = replace(value, '\"seed\":', '\"seed\"') WHERE name = 'learner'")
    code, shown, _ = call(capsys, "check", str(folder.path))
    assert code == 1
    assert "its counters or its list of versions fail their checksum" in shown
    service = opened()
    assert "fail their checksum. It was left unchanged." in (service.problem or "")
    assert f"evenkeel serve {folder.path} --new-journal" in (service.problem or "")
    assert service.published.version == folder.versions()[-1]
    service.close()
    again = opened(new_journal=True)
    teach(again, examples(8, seed=1))
    assert adds_up(again)
