"""A short run of `crashes`; `python -m tests.helpers.crashes --kills 100` is a long one."""

from pathlib import Path

from tests.helpers.crashes import compare, disturb

KILLS = 3


def test_nothing_acknowledged_is_lost_and_nothing_is_learned_twice(tmp_path: Path) -> None:
    load, _ = disturb(tmp_path / "model", KILLS, seed=1)
    assert load.acknowledged
    assert load.labelled
    assert compare(tmp_path / "model", load) > KILLS
