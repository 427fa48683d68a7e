"""A short ordeal of a real service; `python -m tests.helpers.crashes --kills 200` is a long one."""

from pathlib import Path

import pytest

from tests.helpers.crashes.events import Ordeal


def test_nothing_acknowledged_is_lost_and_nothing_is_learned_twice(tmp_path: Path) -> None:
    ordeal = Ordeal(tmp_path, seed=1, requests=8)
    ordeal.run([ordeal.kill])
    counted = ordeal.finish()
    assert counted["learned"] > 0


@pytest.mark.slow
def test_whatever_happens_to_it_a_service_equals_its_twin(tmp_path: Path) -> None:
    ordeal = Ordeal(tmp_path, seed=2)
    ordeal.run(list(ordeal.events))
    ordeal.finish()
    assert ordeal.running.kills.all >= 5
    assert ordeal.twin.rollbacks
    assert ordeal.twin.forgotten
