"""The bounds, and methods that cannot be combined with an adaptor."""

import re
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F
from torch.optim import SGD

import evenkeel as ek
from evenkeel.errors import SettingsError
from tests.helpers.comparison_methods import plain_learner, points, small_learner, smooth_net
from tests.helpers.methods import (
    reference_ce,
    view,
)
from tests.helpers.outer_gradient import assert_close


@pytest.mark.parametrize("method", [ek.Finetune(), ek.Joint(), ek.Joint(epochs=3)], ids=repr)
def test_bounds_are_cross_entropy_on_the_incoming_batch(method: ek.Method) -> None:
    new = view([2, 3, 3, 4, 2], seed=1)
    assert method.loss(new, []).item() == pytest.approx(reference_ce(new.adapted, new.y), rel=1e-12)


# ---- bounds, and methods without an adaptor ----


@pytest.mark.parametrize("make", [ek.Finetune, ek.Joint], ids=["finetune", "joint"])
def test_a_bound_is_plain_sgd_and_keeps_nothing(make: Callable[[], ek.Method]) -> None:
    one, twin = plain_learner(make(), net=smooth_net()), smooth_net()
    optimizer = SGD(twin.parameters(), lr=0.1)
    for place in range(6):
        first = 2 * (place // 2)
        x, y = points([first, first + 1, first, first + 1], place)
        loss = F.cross_entropy(twin(x), torch.tensor(y))
        record = one.learn(x, y)
        assert record.loss == pytest.approx(loss.item(), rel=1e-12)
        assert (record.stored, record.seen, record.replayed, len(one.memory), one.memory.nbytes) == (0, 0, 0, 0, 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        one.boundary()
    assert_close([weight.detach() for weight in one.net.parameters()], list(twin.parameters()), 1e-12)


@pytest.mark.parametrize(
    "make",
    [ek.ICaRL, ek.Finetune, ek.Joint],
    ids=["icarl", "finetune", "joint"],
)
def test_a_useless_adaptor_is_refused_with_the_reason(make: Callable[[], ek.Method]) -> None:
    method = make()
    assert method.no_adaptor
    with pytest.raises(ek.SettingsError, match=f"cannot be combined with an adaptor: {method.no_adaptor}"):
        small_learner(method, adaptor=ek.CBA())


def test_titles_and_bounds() -> None:
    assert (ek.Finetune().bound, ek.Joint().bound, ek.ER().bound) == ("lower", "upper", "")
    assert (ek.Joint().mixed_passes, ek.Joint(epochs=4).mixed_passes, ek.Finetune().mixed_passes) == (1, 4, 0)
    assert ek.Joint(epochs=4).title == "Joint, 4 passes (upper bound)"
    with pytest.raises(ek.SettingsError, match="epochs=0 must be a whole number of at least 1"):
        ek.Joint(epochs=0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ek.LUCIR(scale=0), "scale=0 must be a number above 0"),
        (lambda: ek.LUCIR(scale=float("inf")), "scale=inf"),
        (lambda: ek.LUCIR(less_forget=-1.0), "less_forget=-1.0 must be a number of at least 0"),
        (lambda: ek.LUCIR(margin=float("nan")), "margin=nan"),
        (lambda: ek.LUCIR(nearest=0), "nearest=0 must be a whole number"),
        (lambda: ek.LUCIR(epochs=-1), "epochs=-1"),
        (lambda: ek.BiC(temperature=0), "temperature=0"),
        (lambda: ek.BiC(held_out=1.0), "held_out=1.0 must be a number from 0 to below 1"),
        (lambda: ek.BiC(held_out=0), "no samples to fit its correction on"),
        (lambda: ek.SSIL(temperature=-1), "temperature=-1"),
        (lambda: ek.ERACE(task_free="no"), "task_free='no' is not one of"),  # type: ignore[arg-type]
        (lambda: ek.Joint(epochs=0), "epochs=0"),
    ],
)
def test_settings_that_make_no_sense(make: Callable[[], ek.Method], sentence: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(sentence)):
        make()
