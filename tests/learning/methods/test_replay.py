"""ER and DER++ against a slow reference."""

from collections.abc import Sequence

import pytest
import torch

from evenkeel import (
    CLSER,
    ER,
    ERACE,
    SSIL,
    DERpp,
    Method,
)
from evenkeel.learning.types import View
from tests.helpers.methods import (
    NEW,
    OLD,
    OUTPUTS,
    random,
    reference_ce,
    reference_mse,
    view,
)


def reference_query(old: Sequence[View]) -> float:
    return sum(reference_ce(one.logits, one.y) for one in old) / len(old)


@pytest.mark.parametrize("draws", [0, 1, 2])
def test_er_is_the_sum_of_mean_cross_entropies_of_adapted_logits(draws: int) -> None:
    old = OLD[:draws]
    expected = reference_ce(NEW.adapted, NEW.y) + sum(reference_ce(one.adapted, one.y) for one in old)
    assert ER().loss(NEW, old).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("method", [ER(), CLSER(), ERACE(), SSIL()], ids=lambda method: type(method).__name__)
def test_the_outer_objective_is_the_mean_cross_entropy_of_plain_logits(method: Method) -> None:
    for old in (OLD, OLD[:1]):
        assert method.query_loss(old).item() == pytest.approx(reference_query(old), rel=1e-12)


@pytest.mark.parametrize("with_adaptor", [True, False], ids=["adaptor-columns", "plain-columns"])
def test_derpp(with_adaptor: bool) -> None:
    stored = {"logits": random(3, OUTPUTS, seed=50)}
    if with_adaptor:
        stored["adapted"] = random(3, OUTPUTS, seed=51)
    dark, labelled = view([0, 1, 1], 2, stored), view([5, 0], seed=3)
    target = stored["adapted"] if with_adaptor else stored["logits"]
    method = DERpp(alpha=0.3, beta=0.7)
    expected = (
        reference_ce(NEW.adapted, NEW.y)
        + 0.3 * reference_mse(dark.comparable, target)
        + 0.7 * reference_ce(labelled.adapted, labelled.y)
    )
    assert method.loss(NEW, [dark, labelled]).item() == pytest.approx(expected, rel=1e-12)
    assert method.loss(NEW, []).item() == pytest.approx(reference_ce(NEW.adapted, NEW.y), rel=1e-12)

    query = reference_mse(dark.logits, stored["logits"]) + reference_ce(labelled.logits, labelled.y)  # weights 1 and 1
    assert method.query_loss([dark, labelled]).item() == pytest.approx(query, rel=1e-12)


def test_derpp_remembers_adapted_logits_only_with_an_adaptor() -> None:
    plain = view([0, 1], seed=1, corrected=False)
    assert {name: id(column) for name, column in DERpp().remember(plain).items()} == {"logits": id(plain.logits)}
    both = DERpp().remember(NEW)
    assert set(both) == set(DERpp.logit_columns) == {"logits", "adapted"}
    assert torch.equal(both["logits"], NEW.logits)
    assert torch.equal(both["adapted"], NEW.comparable)
