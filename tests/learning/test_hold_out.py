"""A user's own method that holds samples out of training, in a memory of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import evenkeel as ek
from evenkeel.learning.probes import differences, snapshot


class Thirds(ek.Method):
    """ER on all samples but those whose first value is a multiple of three."""

    def split_memory(self, memory: ek.Memory) -> None:
        self.held = memory.split(0.5)

    def hold_out(self, x: Tensor, y: Tensor, memory: ek.Memory, generator: torch.Generator) -> Tensor:
        return x[:, 0] % 3 == 0

    def loss(self, new: ek.View, old: Sequence[ek.View]) -> Tensor:
        return ek.cross_entropy(new) + sum((ek.cross_entropy(view) for view in old), torch.zeros(()))

    def get_extra_state(self) -> dict[str, Any] | None:
        return None if self.held is None else self.held.state_dict()

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        if self.held is not None:
            self.held.load_state_dict(state)


class Homeless(Thirds):
    """It forgot to take a part of the memory."""

    def split_memory(self, memory: ek.Memory) -> None:
        pass

    def get_extra_state(self) -> None:
        return None


def learner(method: ek.Method) -> ek.Learner:
    return ek.Learner(ek.mlp(features=2, classes=1, hidden=(4,)), method, memory=20, replay=4)


def batch(first: int) -> tuple[Tensor, list[str]]:
    return torch.stack([torch.arange(first, first + 6.0), torch.ones(6)], dim=1), ["a", "b"] * 3


def numbers(memory: ek.Memory | None) -> list[int]:
    return sorted(memory.column("x")[:, 0].int().tolist()) if memory is not None and len(memory) else []


def test_its_samples_go_to_one_of_two_memories() -> None:
    one = learner(Thirds())
    records = [one.learn(*batch(first), key=str(first)) for first in (0, 6)]
    assert numbers(one.method.held) == [0, 3, 6, 9]
    assert numbers(one.memory) == [1, 2, 4, 5, 7, 8, 10, 11]
    assert [(record.samples, record.stored, record.seen) for record in records] == [(6, 6, 6), (6, 12, 12)]
    assert one.forget("6") == 6
    assert [numbers(memory) for memory in one.memories] == [[1, 2, 4, 5], [0, 3]]


def test_it_meets_the_contract_and_resumes_with_its_samples(tmp_path: Any) -> None:
    assert "resume_is_exact" in ek.check_method(Thirds)
    one = learner(Thirds())
    one.learn(*batch(0))
    one.save(tmp_path / "one")
    other = ek.Learner.load(tmp_path / "one", method=Thirds())
    assert numbers(other.method.held) == [0, 3]
    assert one.learn(*batch(6)) == other.learn(*batch(6))
    assert not differences(snapshot(one), snapshot(other))


def test_without_a_memory_for_them_no_sample_can_be_held_out() -> None:
    with pytest.raises(ek.MethodError, match="no `held` for its samples; create it in `split_memory`"):
        learner(Homeless())
