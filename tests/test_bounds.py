"""Every method lies between its bounds: on digits, over five seeds, in every scenario that it supports."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import evenkeel as ek
from evenkeel.summary import Estimate

MARGIN = 5.0  # points of ACC above Finetune that the 95% interval of the paired difference must clear
SEEDS = range(5)
SCENARIOS: dict[str, dict[str, Any]] = {
    "disjoint": {"tasks": 5},
    "blurry": {"tasks": 5, "percent": 10},
    "i-blurry": {"tasks": 5, "disjoint": 50, "blur": 10},
    "gradual": {"tasks": 5, "width": 0.2},
    "offline": {"tasks": 5, "epochs": 2},
    "rotated": {"tasks": 3, "degrees": 60},
    "permuted": {"tasks": 3},
}
SETTINGS: dict[str, list[str]] = {
    "rar": ["method.repeats=2"],  # the default of ten takes five times as long and shows nothing more
    "icarl": ["optimizer.lr=0.3"],  # its loss is a mean over classes, so its gradients are smaller
    # Several domains of each class: fewer samples of each would be too few for a class mean (iCaRL) to tell anything.
    "rotated": ["limits.train=120", "memory.capacity=100"],
    "permuted": ["limits.train=120", "memory.capacity=100"],
}
QUICK = [
    "limits.train=60",
    "memory.capacity=50",
    "net.width=16",
    "batches.drop_last=true",
    "evaluation.every=0",
    "evaluation.prequential=false",
    "evaluation.alignment=0",
]
METHODS = [name for name, method in ek.METHODS.items() if not method.bound]


@cache
def accuracies(method: str, scenario: str) -> list[float]:
    """ACC of each seed, after few samples, so that all of this takes a minute or two."""
    found = []
    for seed in SEEDS:
        config = ek.load_config(
            {"extends": "digits", "scenario": {"name": scenario, **SCENARIOS[scenario]}},
            [f"method.name={method}", f"seed={seed}", *QUICK, *SETTINGS.get(method, []), *SETTINGS.get(scenario, [])],
        )
        *_, end = ek.run(config)
        assert isinstance(end, ek.Ended)
        assert end.metrics["acc"] is not None
        found.append(end.metrics["acc"])
    return found


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_beats_the_lower_bound(method: str, scenario: str) -> None:
    if ek.METHODS[method].needs_boundaries and scenario in ("gradual", "i-blurry"):
        pytest.skip("needs to be told of boundaries, of which this stream has none: see test_experiment.py")
    gains = np.subtract(accuracies(method, scenario), accuracies("finetune", scenario))
    gain = Estimate.of(gains.tolist())
    assert gain is not None
    assert gain.half is not None
    assert gain.mean - gain.half > MARGIN, f"{gain} over {accuracies('finetune', scenario)}"
