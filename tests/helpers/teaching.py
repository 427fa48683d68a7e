"""Samples in files, for the commands that teach, query and score a model, and the settings of models for them."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from tests.helpers.services import examples

IMAGES = [
    "--set",
    "input.size=[8, 8]",
    "--set",
    "input.channels=1",
    "--set",
    "batches.wait=0.05",
    "--set",
    "batches.size=4",
]
VECTORS = ["--set", "input.features=4", "--set", "net.hidden=[16]", "--set", "batches.wait=0.05"]


def pictures(folder: Path, count: int) -> None:
    """Write dark and light images, `count` of each, into folders by label."""
    rng = np.random.default_rng(0)
    for name, brightness in (("dark", 40), ("light", 210)):
        (folder / name).mkdir(parents=True)
        for place in range(count):
            pixels = rng.normal(brightness, 10, (10, 12)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{place}.png")


def lines(count: int, *, seed: int = 0, labelled: bool = True) -> list[str]:
    """Return examples as lines of JSON."""
    rows = []
    for each in examples(count, seed=seed, own="e"):
        x = np.frombuffer(each.x, dtype=np.float32).tolist()
        rows.append(json.dumps({"x": x, "label": each.label, "id": each.id} if labelled else {"x": x}))
    return rows
