"""Saving and resuming is bit-identical to never having stopped."""

import multiprocessing
import os
import time
from contextlib import suppress
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import evenkeel as ek
from evenkeel.learning.probes import differences, snapshot
from tests.helpers.cases import thinned
from tests.helpers.moments import Moments
from tests.helpers.processes import fork_server, run_python
from tests.helpers.streams import ADAPTORS, METHODS, images, learn_all, learner, pairs

STREAM = images(batches=8)
BOUNDARY = 6  # batches before the end of a task is reported
# After the first batch (memory almost empty), in mid-task, just before and just after growth, after the boundary.
CUTS = (1, 3, 4, 5, 7)


@pytest.mark.parametrize(("method", "adaptor", "cut"), thinned((*pair, cut) for pair in pairs() for cut in CUTS))
def test_resume_equals_never_stopped(method: str, adaptor: str, cut: int, tmp_path: Path) -> None:
    straight = learner(METHODS[method](), ADAPTORS[adaptor](), outputs=3)  # grows at the first batch of the second task
    learn_part(straight, 0, cut)
    saved = snapshot(straight)
    straight.save(tmp_path / "learner")
    assert differences(saved, snapshot(straight)) == []  # saving alone changes nothing
    second = ek.Learner.load(tmp_path / "learner")
    assert differences(saved, snapshot(second)) == []
    assert learn_part(second, cut, 8) == learn_part(straight, cut, 8)
    assert differences(snapshot(straight), snapshot(second)) == []
    assert np.array_equal(second.predict_proba(STREAM[0][0]), straight.predict_proba(STREAM[0][0]))


def learn_part(one: ek.Learner, begin: int, end: int) -> list[ek.StepRecord]:
    """Learn some batches of the stream; report the boundary, if it is among them."""
    records = []
    for place, (x, y) in enumerate(STREAM[begin:end], begin + 1):
        records.append(one.learn(x, y))
        if place == BOUNDARY:
            one.boundary()
    return records


def test_growth_happens_where_the_test_above_says() -> None:
    one = learner(ek.ER(), outputs=3)
    learn_part(one, 0, 4)
    assert one.net.outputs == 3
    learn_part(one, 4, 5)
    assert one.net.outputs == 4


CONTINUE = """
import evenkeel as ek
from tests.helpers.streams import images, learn_all
learner = ek.Learner.load("learner")
print(learn_all(learner, images()[5:]))
learner.save("learner")
"""


@pytest.mark.parametrize(
    ("method", "repeats"),
    [("er", 3), *(pytest.param(name, 1, marks=pytest.mark.slow) for name in ("er", "derpp", "clser"))],
)
def test_resume_in_a_new_process(method: str, repeats: int, tmp_path: Path) -> None:
    """Three updates for each batch are never a multiple of CBA's two, so batches end within its cycle."""
    stream = images()
    straight, stopped = (learner(METHODS[method](), ADAPTORS["cba"](), repeats=repeats) for _ in range(2))
    learn_all(straight, stream[:5])
    records = learn_all(straight, stream[5:])
    learn_all(stopped, stream[:5])
    stopped.save(tmp_path / "learner")
    log = tmp_path / "log"
    assert run_python(CONTINUE, tmp_path, log) == 0, log.read_text()
    assert log.read_text().strip() == str(records)
    assert differences(snapshot(straight), snapshot(ek.Learner.load(tmp_path / "learner"))) == []


def save_forever(path: Path, saved: Connection) -> None:
    torch.set_num_threads(1)
    one = learner(ek.DERpp(), ek.CBA(hidden=(512,)), memory=2000)
    for x, y in cycle(images(batches=2, size=300)):
        one.learn(x, y)
        one.save(path)
        saved.send(one.step)


@pytest.mark.parametrize("delay", [0.0, *(pytest.param(wait, marks=pytest.mark.slow) for wait in (0.003, 0.007, 0.02))])
def test_kill_during_a_save_loses_nothing(delay: float, tmp_path: Path) -> None:
    ours, theirs = multiprocessing.Pipe()
    writer = fork_server().Process(target=save_forever, args=(tmp_path / "learner", theirs))
    writer.start()
    theirs.close()
    saved = ours.recv()
    time.sleep(delay)
    writer.kill()
    with suppress(EOFError):
        while True:
            saved = ours.recv()
    writer.join()
    assert ek.Learner.load(tmp_path / "learner").step >= saved


def test_whatever_a_kill_leaves_is_the_old_checkpoint_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = learner(ek.DERpp(), ADAPTORS["cba"]())
    learn_all(one, images()[:2])
    (tmp_path / "whole").mkdir()
    one.save(tmp_path / "whole" / "learner")
    states = {one.step: snapshot(one)}
    learn_all(one, images()[2:3])
    states[one.step] = snapshot(one)
    moments = Moments(tmp_path / "whole", tmp_path / "killed")
    with monkeypatch.context() as patch:
        moments.watch(patch)
        one.save(tmp_path / "whole" / "learner")
    steps = []
    for folder, _ in moments.left:
        left = ek.Learner.load(folder / "learner")
        assert differences(snapshot(left), states[left.step]) == []
        steps.append(left.step)
    assert steps == sorted(steps)
    assert set(steps) == {2, 3}


def test_a_failed_save_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = learner(ek.ER())
    learn_all(one, images()[:2])
    one.save(tmp_path / "learner")

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    learn_all(one, images()[2:3])
    with pytest.raises(OSError, match="No space left"):
        one.save(tmp_path / "learner")
    assert ek.Learner.load(tmp_path / "learner").step == 2
    assert [path.name for path in tmp_path.iterdir()] == ["learner"]


class Own(nn.Module):
    """A user's network: dropout (torch's global generator), a frozen layer, a frozen batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3))
        self.fc = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.fc(nn.functional.dropout(self.body(x), 0.2, self.training))
        return out


def own_learner() -> ek.Learner:
    torch.manual_seed(0)
    net = ek.Net.split(Own(), head="fc")
    groups: list[dict[str, Any]] = [
        {"params": net.head.parameters(), "lr": 0.1},
        {"params": [net.backbone.get_parameter("body.1.weight")]},
    ]
    net.backbone.get_parameter("body.1.bias").requires_grad_(False)
    optimizer = torch.optim.SGD(groups, lr=0.02, momentum=0.5)
    one = ek.Learner(net, ek.DERpp(), adaptor=ek.CBA(every=2), memory=10, replay=6, optimizer=optimizer)
    net.backbone.get_submodule("body.2").eval()
    return one


def test_resume_with_a_network_of_ones_own(tmp_path: Path) -> None:
    stream = images()
    straight, stopped = own_learner(), own_learner()
    learn_all(straight, stream[:5])
    torch.rand(7)  # the global generator may be used by others in between
    records = learn_all(straight, stream[5:])
    learn_all(stopped, stream[:5])
    stopped.save(tmp_path / "learner")
    with pytest.raises(ek.CheckpointError, match=r"net is your own class Net.*Pass net="):
        ek.Learner.load(tmp_path / "learner")
    torch.manual_seed(99)
    second = ek.Learner.load(tmp_path / "learner", net=ek.Net.split(Own(), head="fc"))
    assert learn_all(second, stream[5:]) == records
    assert differences(snapshot(straight), snapshot(second)) == []
    assert not second.net.backbone.get_submodule("body.2").training


@pytest.mark.parametrize(("method", "adaptor"), pairs("none", "cba"))
def test_saved_just_after_room_was_made(method: str, adaptor: str, tmp_path: Path) -> None:
    stream = images(batches=6)
    one = learner(METHODS[method](), ADAPTORS[adaptor](), outputs=2)
    learn_all(one, stream[:2])
    one.grow(7)
    one.save(tmp_path / "learner")
    again = ek.Learner.load(tmp_path / "learner")
    assert learn_all(one, stream[2:]) == learn_all(again, stream[2:])
    assert differences(snapshot(one), snapshot(again)) == []


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_other_optimizers_resume_too(optimizer: type[torch.optim.Optimizer], tmp_path: Path) -> None:
    stream = images()
    ones = [ek.Learner(ek.convnet(classes=2, width=4), ek.ER(), memory=10, optimizer=optimizer) for _ in range(2)]
    for one in ones:
        learn_all(one, stream[:7])  # past the growth
    ones[1].save(tmp_path / "learner")
    ones[1] = ek.Learner.load(tmp_path / "learner")
    assert learn_all(ones[0], stream[7:]) == learn_all(ones[1], stream[7:])
    assert differences(*map(snapshot, ones)) == []


def test_memory_in_bytes_and_by_class_resumes(tmp_path: Path) -> None:
    stream = images()
    ones = [learner(ek.DERpp(), memory=ek.Memory("1KB", policy="balanced"), outputs=2) for _ in range(2)]
    for one in ones:
        learn_all(one, stream[:5])
    ones[1].save(tmp_path / "learner")
    ones[1] = ek.Learner.load(tmp_path / "learner")
    assert learn_all(ones[0], stream[5:]) == learn_all(ones[1], stream[5:])
    assert differences(*map(snapshot, ones)) == []
