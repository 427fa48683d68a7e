"""Batches of a data set that a thread reads ahead: the same ones, one at a time; a user's own stream never is."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import evenkeel as ek
from evenkeel.data.dataset import Split
from evenkeel.data.scenarios import disjoint
from evenkeel.data.stream import OpenStream, PlannedStream

CLASSES = ["a", "b", "c", "d"]
Y = np.repeat(np.arange(4), 5)
SPLIT = Split(np.arange(20 * 3, dtype=np.float32).reshape(20, 3), Y)
PLAN = disjoint(torch.from_numpy(Y), tasks=[[0, 1], [2, 3]], seed=0)


def planned(*, ahead: bool) -> PlannedStream:
    return PlannedStream(SPLIT, PLAN, CLASSES, batch=3, drop_last=False, ahead=ahead)


def other_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("reading ahead")]


@pytest.mark.parametrize("start", [0, 3])
def test_batches_read_ahead_are_the_same(start: int) -> None:
    streams = [planned(ahead=ahead) for ahead in (True, False)]
    for one, other in zip(*(stream.batches(start) for stream in streams), strict=True):
        assert torch.equal(one.x, other.x)
        assert (one.labels, one.task, one.place, one.ends_task) == (
            other.labels,
            other.task,
            other.place,
            other.ends_task,
        )
        assert streams[0].seen == streams[1].seen  # what was only read does not count
    assert not other_threads()


def test_one_thread_reads_one_batch_ahead_and_ends_with_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, str]] = []
    inputs = PlannedStream._inputs

    def spied(stream: PlannedStream, step: int) -> torch.Tensor:
        read.append((step, threading.current_thread().name))
        return inputs(stream, step)

    monkeypatch.setattr(PlannedStream, "_inputs", spied)
    batches = planned(ahead=True).batches()
    for step in range(3):
        next(batches)
        assert len(read) <= step + 2
    assert len({name for _, name in read}) == 1
    assert read[0][1].startswith("reading ahead")
    batches.close()  # type: ignore[attr-defined]
    assert not other_threads()


def test_an_error_of_the_thread_is_raised_at_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlannedStream, "_inputs", lambda _stream, step: 1 // (1 - step))
    batches = planned(ahead=True).batches()
    next(batches)
    with pytest.raises(ZeroDivisionError):
        next(batches)


def test_a_stream_of_the_users_own_is_read_where_it_is_learned() -> None:
    readers = set[str]()

    def own() -> Iterator[tuple[Any, ...]]:
        for label in range(4):
            readers.add(threading.current_thread().name)
            yield np.ones((2, 3)), [label] * 2

    assert len(list(OpenStream(own()).batches())) == 4
    assert readers == {threading.current_thread().name}


def test_runs_on_the_cpu_read_nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set[bool]()
    create = PlannedStream.__init__

    def spied(stream: PlannedStream, *arguments: Any, ahead: bool, **settings: Any) -> None:
        seen.add(ahead)
        create(stream, *arguments, ahead=ahead, **settings)

    monkeypatch.setattr(PlannedStream, "__init__", spied)
    next(iter(ek.run(ek.load_config("digits", ["device=cpu", "limits.train=2"]))))
    assert seen == {False}
