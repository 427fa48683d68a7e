"""A journal of version 0.1 is taken over; a journal of this version is refused by older ones."""

import io
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from evenkeel.service.store import queries, schema
from tests.helpers.services import Open, adds_up, examples, teach

ROOT = Path(__file__).parents[3]
OLD = ROOT / "tests" / "compatibility" / "0.1" / "service"
BEFORE = "87b9d8b"  # a commit that knows nothing of marks, checksums and lines

KILLING = """
import os, shutil, sqlite3, sys
from pathlib import Path
from evenkeel.service.store import queries, schema

old, folder = Path(sys.argv[1]), Path(sys.argv[2])
statements, before = 0, 0
while True:
    statements += 1
    journal = folder / f"{statements}.sqlite"
    shutil.copy(old, journal)
    child = os.fork()
    if child == 0:
        executed = 0
        def die(_):
            global executed
            executed += 1
            if executed == statements:
                os.kill(os.getpid(), 9)
        db = sqlite3.connect(journal, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.set_trace_callback(die)
        schema.prepare(db)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    db = sqlite3.connect(journal, isolation_level=None)
    (number,) = db.execute("PRAGMA user_version").fetchone()
    assert number in (0, 1, schema.NEWEST), number
    before += number < schema.NEWEST
    schema.prepare(db)
    held = queries.batches(db, after=0, most=100)
    assert not any(batch.damaged for batch in held)
    assert sum(len(batch.examples) for batch in held) == 8
    assert queries.position(db).identity
    db.close()
    if status == 0:
        break
print(statements, before)
"""


def test_a_take_over_can_be_killed_at_any_moment(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLING, str(OLD / "journal.sqlite"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    statements, before = map(int, done.stdout.split())
    assert statements > before > 20


def test_what_an_older_version_does_first_is_refused_with_a_sentence(opened: Open) -> None:
    service = opened()
    teach(service, examples(8))
    service.close()
    with closing(sqlite3.connect(service.model_folder.journal)) as db:
        with pytest.raises(sqlite3.Error, match="written by a newer version of evenkeel; upgrade evenkeel to use it"):
            db.executescript(schema.FIRST)
        assert queries.value(db, "batch") == 1
    again = opened()
    teach(again, examples(8, seed=1))
    assert adds_up(again)


def test_a_journal_of_a_later_version_is_refused_with_a_sentence(opened: Open) -> None:
    service = opened()
    service.close()
    with closing(sqlite3.connect(service.model_folder.journal)) as db:
        db.execute(f"PRAGMA user_version = {schema.NEWEST + 1}")
    assert "written by a newer version of evenkeel; upgrade evenkeel" in (opened().problem or "")


@pytest.mark.slow
def test_an_older_program_refuses_the_folder_with_a_sentence_and_changes_nothing(opened: Open, tmp_path: Path) -> None:
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", BEFORE, "src"], capture_output=True, check=False)
    if archive.returncode:
        pytest.skip("The history of the repository is not here.")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(tmp_path / "old", filter="data")
    service = opened("adaptor.name=cba")  # the parts that the older program has, too
    teach(service, examples(8))
    service.close()
    versions = {path.name: path.read_bytes() for path in service.model_folder.path.glob("versions/*")}
    program = "import sys; from pathlib import Path; from evenkeel.service.service import Service; "
    program += "one = Service(Path(sys.argv[1])); print(one.problem); one.close()"
    old = subprocess.run(
        [sys.executable, "-c", program, str(service.model_folder.path)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "old" / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "written by a newer version of evenkeel; upgrade evenkeel to use it" in old.stdout + old.stderr
    assert versions == {path.name: path.read_bytes() for path in service.model_folder.path.glob("versions/*")}
    again = opened()
    teach(again, examples(8, seed=1))
    assert adds_up(again)


def test_a_folder_of_version_0_1_is_taken_over_with_all_that_waits(opened: Open, tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "model")
    service = opened(start=False)
    assert service.problem is None
    assert service.waiting == 11
    assert service.model_folder.mark.exists()
