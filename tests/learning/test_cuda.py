"""Learners on a real GPU: what the simulated one shows, where there is one."""

from pathlib import Path

import pytest
import torch

import evenkeel as ek
from tests.helpers.small_learners import PAIRS, batches, make_learner, make_net

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU that torch can use"),
]


@pytest.mark.parametrize(("method", "adaptor"), PAIRS)
def test_a_learner_repeats_and_resumes_bit_for_bit(method: str, adaptor: str, tmp_path: Path) -> None:
    first, second = (make_learner(method, adaptor, "cuda") for _ in range(2))
    for x, y in batches([0, 1], 2):
        assert first.learn(x, y) == second.learn(x, y)
    first.save(tmp_path / "learner")
    again = ek.Learner.load(tmp_path / "learner", net=make_net(), device="cuda")
    for x, y in batches([2, 3], 2):
        assert again.learn(x, y) == second.learn(x, y)
