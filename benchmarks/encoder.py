"""Measure what storing an encoder's outputs saves, against storing images and encoding them again at every replay.

Run: python benchmarks/encoder.py [--write]      (two minutes; --write keeps the numbers in encoder.json)

The encoder is a frozen ResNet-18 (width 64, CIFAR-style, random weights), the trained part a linear layer with ReLU and
a head. 32 new and 32 replayed images of 32 x 32 pixels, without and with three repeats. Both ways in turn, in CPU
seconds of one thread, so that other work on the machine matters little; the ratio is that of the medians.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

import evenkeel as ek

STEPS, WARM_UP, BATCH, CLASSES = 5, 1, 32, 10


class Again(nn.Module):
    """The frozen encoder as a part of the backbone: it runs for each view of a sample."""

    def __init__(self, encoder: nn.Module, body: nn.Module) -> None:
        super().__init__()
        self.encoder, self.body = encoder.eval().requires_grad_(False), body

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            features = self.encoder(x)
        out: Tensor = self.body(features)
        return out


def learner(*, stores_features: bool, repeats: int) -> ek.Learner:
    encoder = ek.resnet18(classes=CLASSES).backbone
    body, head = nn.Sequential(nn.Linear(512, 256), nn.ReLU()), nn.Linear(256, CLASSES)
    net = ek.Net(body, head, encoder=encoder) if stores_features else ek.Net(Again(encoder, body), head)
    return ek.Learner(net, ek.ER(), memory=200, replay=BATCH, repeats=repeats)


def seconds(one: ek.Learner, x: Tensor, y: list[int]) -> float:
    begun = time.process_time()
    one.learn(x, y)
    return time.process_time() - begun


def measure(repeats: int) -> dict[str, float]:
    """Return the seconds of a step both ways, and their ratio."""
    both = {name: learner(stores_features=name == "features", repeats=repeats) for name in ("images", "features")}
    taken: dict[str, list[float]] = {name: [] for name in both}
    generator = torch.Generator().manual_seed(0)
    for step in range(WARM_UP + STEPS):
        x = torch.randint(256, (BATCH, 3, 32, 32), dtype=torch.uint8, generator=generator)
        y = torch.randint(CLASSES, (BATCH,), generator=generator).tolist()
        for name, one in both.items():
            spent = seconds(one, x, y)
            if step >= WARM_UP:
                taken[name].append(spent)
    medians = {name: median(each) for name, each in taken.items()}
    return {
        **{name: round(each, 4) for name, each in medians.items()},
        "ratio": medians["images"] / medians["features"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    torch.set_num_threads(1)
    results = {f"repeats {repeats}": measure(repeats) for repeats in (1, 3)}
    for name, each in results.items():
        print(f"{name}: {each['images']:.3f} s a step with images, {each['features']:.3f} s with features,", end=" ")
        print(f"{each['ratio']:.2f} times as many steps a second")
    if write:
        Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
