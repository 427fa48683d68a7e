"""How the learning rate of CBA in the preset digits-cba was chosen: on held-out training samples, not the test data.

Run: .venv/bin/python examples/choose_rate.py      (about three minutes)

A quarter of the training samples serves as test data, with seeds that no reported run uses.
"""

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import train_test_split

import evenkeel as ek
from evenkeel.results.groups import Estimate
from evenkeel.results.measures import MEASURES

SEEDS = range(100, 105)
QUIET = ["evaluation.every=5", "evaluation.alignment=0", "evaluation.prequential=false"]
SHOWN = ("acc", "fm", "learning_within")


def main() -> None:
    train = ek.SOURCES["digits"](None, progress=lambda *_: None).train
    x, x_held, y, y_held = train_test_split(
        np.array(train.x), train.y, test_size=0.25, random_state=1, stratify=train.y
    )
    held_out = ek.DataSet.of(x, y, x_held, y_held, name="digits, training samples only")
    choices = {"no adaptor": ["adaptor.name=none"]} | {
        f"every={every}, lr={lr}": [f"adaptor.every={every}", f"adaptor.lr={lr}"]
        for every in (1, 5)
        for lr in (0.001, 0.003, 0.01)
    }
    table = Table("method", "adaptor", *(MEASURES[name].title for name in SHOWN))
    for method in ("er", "derpp"):
        for label, choice in choices.items():
            ends = []
            for seed in SEEDS:
                config = ek.load_config("digits-cba", [f"method.name={method}", f"seed={seed}", *QUIET, *choice])
                *_, end = ek.run(config, data=held_out)
                assert isinstance(end, ek.Ended)
                ends.append([float(end.metrics[name] or 0) for name in SHOWN])
            table.add_row(method, label, *(str(Estimate.of(column)) for column in zip(*ends, strict=True)))
    Console().print(table)


if __name__ == "__main__":
    main()
