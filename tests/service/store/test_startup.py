"""What a start costs: the queue is counted, not read."""

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from evenkeel.service.service import Service
from evenkeel.service.store import queries, schema
from evenkeel.service.store.journal import open_database
from tests.helpers.services import examples

OPEN = """
import sys, time
from pathlib import Path
from evenkeel.service.service import Service
begun = time.process_time()
service = Service(Path(sys.argv[1]))
print(service.waiting, time.process_time() - begun)
service.close()
"""


def test_what_waits_is_counted_by_indexes(tmp_path: Path) -> None:
    with closing(open_database(tmp_path / "journal.sqlite", schema.prepare, flushed=False)) as db:
        queries.accept(db, examples(70, own="e"))
        queries.cut(db, 32, partial=False)
        statements = list[str]()
        db.set_trace_callback(statements.append)
        assert [queries.count_waiting(db, after) for after in (0, 1, 2, 3)] == [70, 38, 6, 6]
        db.set_trace_callback(None)
        counts = {each for each in statements if "examples" in each}
        assert len(counts) >= 2
        for statement in counts:
            plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}"))
            assert "INDEX" in plan, plan


@pytest.mark.slow
def test_a_start_with_200_000_waiting_examples_takes_at_most_3_s_of_cpu_more(tmp_path: Path) -> None:
    for name in ("none", "many"):
        Service(tmp_path / name, {"input": {"features": 384}, "limits": {"queue": 1_000_000}}).close()
    fill(tmp_path / "many" / "journal.sqlite", 200_000)
    (none, idle), (many, busy) = map(opened_apart, (tmp_path / "none", tmp_path / "many"))
    assert (none, many) == (0, 200_000)
    assert busy - idle < 3


def fill(path: Path, count: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN")
        x = random.Random(0).randbytes(4 * 384)
        for part in range(count // 1_000):
            given = [each.named(f"{part}-{place}") for place, each in enumerate(examples(1_000))]
            queries.accept(db, [type(each)(x, each.label, each.id) for each in given])
        queries.cut(db, 32, partial=False)  # as the journal does when it accepts them
        queries.advance(db)
        db.execute("COMMIT")


def opened_apart(folder: Path) -> tuple[int, float]:
    """Return how many examples wait in a folder, and the CPU seconds that it took to open it."""
    printed = subprocess.run([sys.executable, "-c", OPEN, folder], check=True, capture_output=True, text=True).stdout
    waiting, seconds = printed.split()
    return int(waiting), float(seconds)
