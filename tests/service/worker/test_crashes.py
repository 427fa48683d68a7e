"""A short run of `crashes`; `python -m tests.helpers.crashes --kills 100` is a long one."""

from pathlib import Path

import pytest

from tests.helpers.crashes import compare, disturb


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_nothing_acknowledged_is_lost_and_nothing_is_learned_twice(kills: int, tmp_path: Path) -> None:
    load, _ = disturb(tmp_path / "model", kills, seed=1, pause=0.5)
    assert load.acknowledged
    assert load.labelled
    assert compare(tmp_path / "model", load) > kills
