"""Every method lies between its bounds: on digits, over five seeds, in every scenario that it supports."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import evenkeel as ek
from evenkeel.results.groups import Estimate
from tests.helpers.cases import thinned

MARGIN = 5.0  # points of ACC above Finetune; the 95% interval of the paired difference must lie above it
SEEDS = range(5)
SCENARIOS: dict[str, dict[str, Any]] = {
    "disjoint": {"tasks": 5},
    "blurry": {"tasks": 5, "percent": 10},
    "i-blurry": {"tasks": 5, "disjoint": 50, "blur": 10, "boundaries": True},
    "gradual": {"tasks": 5, "width": 0.2},
    "offline": {"tasks": 5, "epochs": 2},
    "rotated": {"tasks": 3, "degrees": 60},
    "permuted": {"tasks": 3},
}
SETTINGS: dict[str, list[str]] = {
    "joint-5": ["method.epochs=5"],
    "gdumb": ["method.epochs=12"],
    "scr": ["optimizer.lr=0.3", "learner.replay=50"],  # contrasts need many samples
    "icarl": ["optimizer.lr=0.3"],  # its loss is a mean over classes, so its gradients are smaller
}
DOMAINS = ("rotated", "permuted")  # here the features must change, and a class needs more memory
QUICK = [
    "memory.capacity=50",
    "batches.drop_last=true",
    "evaluation.every=0",
    "evaluation.prequential=false",
    "evaluation.alignment=0",
]
SUPPORTED = [  # what is rejected for lack of boundaries is in test_run.py
    (name, scenario)
    for name, method in ek.METHODS.items()
    for scenario in SCENARIOS
    if not method.bound and not (method.needs_boundaries and scenario == "gradual")
]


@cache
def accuracies(method: str, scenario: str, samples: int = 60) -> list[float]:
    """Return the ACC of each seed, after few samples per class, so that all of this takes a minute or two."""
    accs = []
    for seed in SEEDS:
        config = ek.load_config(
            {"extends": "digits", "scenario": {"name": scenario, **SCENARIOS[scenario]}},
            [
                f"limits.train={samples}",
                f"method.name={method.partition('-')[0]}",
                f"seed={seed}",
                *QUICK,
                *SETTINGS.get(method, []),
                *(["method.epochs=30"] if method == "gdumb" and scenario in DOMAINS else []),
                *(
                    ("net.width=16", "memory.capacity=100")
                    if scenario in DOMAINS
                    else ("net.name=mlp", "net.hidden=[128]")
                ),
            ],
        )
        *_, end = ek.run(config)
        assert isinstance(end, ek.Ended)
        assert end.metrics["acc"] is not None
        accs.append(end.metrics["acc"])
    return accs


# Not all pairs: test_run.py runs them all. Here each method shows that it learns, and each scenario that one can learn
# in it. Domains take long, because a network must be convolutional there.
QUICK_CASES = [("joint", "disjoint"), *(case for case in SUPPORTED if case[1] not in DOMAINS)]
SLOW_CASES = [("joint", "rotated"), *(case for case in SUPPORTED if case[1] in DOMAINS)]


@pytest.mark.parametrize(
    ("method", "scenario"),
    [*thinned(QUICK_CASES, together=1), *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW_CASES)],
)
def test_a_method_beats_the_lower_bound(method: str, scenario: str) -> None:
    # Where a class has several domains, one class mean for all, memory alone, or one pass in any order needs more.
    samples = 120 if method in ("icarl", "scr", "gdumb", "joint") and scenario in DOMAINS else 60
    gains = np.subtract(accuracies(method, scenario, samples), accuracies("finetune", scenario, samples))
    gain = Estimate.of(gains.tolist())
    assert gain is not None
    assert gain.half is not None
    assert gain.mean - gain.half > MARGIN, f"{gain} points, over {len(gains)} seeds"


def test_more_passes_raise_the_upper_bound() -> None:
    once, often = (accuracies("joint", "disjoint"), accuracies("joint-5", "disjoint"))
    gain = Estimate.of(np.subtract(often, once).tolist())
    assert gain is not None
    assert gain.half is not None
    assert gain.mean > gain.half
