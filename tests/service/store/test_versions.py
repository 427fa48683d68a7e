"""The files of versions."""

from pathlib import Path

import torch

import evenkeel as ek
from evenkeel.service.store.versions import scrub


def test_scrubbing_a_version_reaches_every_memory_of_its_learner(tmp_path: Path) -> None:
    path = tmp_path / "1.ek"
    learner = ek.Learner(ek.mlp(features=4, classes=2, hidden=(8,)), ek.BiC(held_out=0.5), memory=40)
    for at in range(12):
        learner.learn(
            torch.randn(4, 4, generator=torch.Generator().manual_seed(at)), ["a", "b"] * 2, key=f"client {at}"
        )
    assert learner.method.held is not None
    learner.save(path)
    keys = [f"client {at}" for at in range(12)]
    assert [scrub(path, keys[:7]), scrub(path, keys)] == [keys[:7], keys[7:]]
    assert sum(map(len, ek.Learner.load(path).memories)) == 0
    assert not scrub(path, keys)
