"""How many examples wait, and for how long: against a list of every single one."""

import random

import pytest

from evenkeel.service.worker.waiting import PRECISION, Waiting


@pytest.mark.parametrize("seed", range(20))
def test_the_count_and_the_age_are_those_of_a_list_of_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, now, queue = random.Random(seed), 0.0, Waiting()
    monkeypatch.setattr("evenkeel.service.worker.waiting.time.monotonic", lambda: now)
    waiting: list[float] = []  # when each was accepted, the oldest first
    for _ in range(300):
        now += rng.choice((0, 0.1, 0.7, 5))
        kind = rng.choice(("enter", "enter", "leave", "again", "recount"))
        if kind == "enter":
            count = rng.randrange(4)
            assert queue.reserve(5, most=1_000)
            assert queue.count == len(waiting) + 5
            queue.settle(5, count)
            waiting += [now] * count
        elif kind == "leave":
            count = rng.randrange(len(waiting) + 1)
            queue.leave(count)
            waiting = waiting[count:]
        elif kind == "again":
            queue.leave(-2)
            waiting += [now] * 2
        else:
            queue.recount(len(waiting))
            waiting = [waiting[0]] * len(waiting) if waiting else []  # all are as old as the oldest
        assert queue.count == len(waiting)
        age = now - waiting[0] if waiting else 0.0
        assert age <= queue.seconds <= age + PRECISION * bool(waiting)


def test_no_more_are_reserved_than_there_is_room_for() -> None:
    queue = Waiting()
    assert queue.reserve(3, most=5)
    assert not queue.reserve(3, most=5)
    assert queue.reserve(2, most=5)
    queue.settle(5, 4)
    assert not queue.reserve(2, most=5)
    queue.leave(4)
    assert queue.count == 0
    assert queue.seconds == 0
