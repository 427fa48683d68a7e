"""The state of methods: teachers in a learner, checkpoints, growth."""

from pathlib import Path

import pytest
import torch

from evenkeel import (
    CLSER,
    ERACE,
    METHODS,
    SSIL,
    Learner,
    Method,
    Net,
    mlp,
)
from evenkeel.errors import SettingsError
from tests.helpers.methods import (
    FEATURES,
    MakeMethod,
    linear_net,
    norm_net,
    stream,
)


def nets_of(method: Method) -> dict[str, Net]:
    return {name: part for name, part in method.named_modules() if isinstance(part, Net)}


@pytest.mark.parametrize("make", [CLSER, SSIL], ids=["clser", "ss_il"])
def test_teachers_are_always_in_evaluation_mode_and_get_no_gradient(make: MakeMethod) -> None:
    net = norm_net()
    learner = Learner(net, make(), memory=8, replay=4)
    for x, y in stream(6):
        learner.learn(x, y)
        learner.predict(x)
        learner.boundary()
    teachers = nets_of(learner.method)
    assert teachers
    for teacher in teachers.values():
        assert not any(part.training for part in teacher.modules())
        assert all(weight.grad is None for weight in teacher.parameters())
    assert all(part.training for part in net.modules())


@pytest.mark.parametrize("make", [CLSER, SSIL, ERACE])
def test_a_method_with_state_belongs_to_one_learner(make: MakeMethod) -> None:
    method = make()
    Learner(linear_net(), method)
    with pytest.raises(SettingsError, match="already belongs to a learner"):
        Learner(linear_net(), method)


@pytest.mark.parametrize("name", METHODS)
def test_a_learner_saved_right_after_growing_can_be_loaded(name: str, tmp_path: Path) -> None:
    learner = Learner(mlp(features=FEATURES, classes=2), METHODS[name](), memory=8, replay=4)
    x = torch.ones(2, FEATURES)
    learner.learn(x, ["a", "b"])
    learner.grow(5)
    learner.save(tmp_path / "learner")
    assert torch.equal(Learner.load(tmp_path / "learner").logits(x), learner.logits(x))
