"""Every way of giving data, a network, a method and an encoder, in a run, in one that resumes, in a grid and served."""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import evenkeel as ek
from evenkeel.data.dataset import DataSet
from evenkeel.experiment.run_folder import MODEL
from evenkeel.grids.execution import Execution
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.schedule import Grid
from evenkeel.results.run_files import RECORDS
from evenkeel.service.examples import Example
from evenkeel.service.service import Service
from tests.helpers.cases import covering, thinned
from tests.helpers.data_files import encoded, write_parquet
from tests.helpers.own_parts import SMALL, own_module
from tests.helpers.services import settle

__all__ = ["own_module"]

LABELS = [f"class {row % 4}" for row in range(24)]
X = (np.random.default_rng(0).normal(size=(24, 3)) + np.arange(24)[:, None] % 4).astype(np.float32)
ROWS = [
    {"a": float(x[0]), "b": float(x[1]), "c": float(x[2]), "kind": label} for x, label in zip(X, LABELS, strict=True)
]
SAID = [{"text": f"words of {label}, number {place % 3}", "kind": label} for place, label in enumerate(LABELS)]


@dataclass
class Given:
    """What a person gives: tables of a config, objects of Python, and what names own parts to a service."""

    tables: dict[str, Any] = field(default_factory=dict)
    objects: dict[str, Any] = field(default_factory=dict)
    named: list[str] = field(default_factory=list)


# ---- data ----


def csv_file(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    with Path(name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return {"name": "csv", "path": name}


def lines_file() -> dict[str, Any]:
    lines = [json.dumps({"x": x.tolist(), "label": label}) for x, label in zip(X, LABELS, strict=True)]
    Path("a.jsonl").write_text("\n".join(lines))
    return {"name": "jsonl", "path": "a.jsonl"}


def parquet_file() -> dict[str, Any]:
    write_parquet(Path("a.parquet"), {name: [row[name] for row in ROWS] for name in ROWS[0]})
    return {"name": "parquet", "path": "a.parquet"}


def arrays_file() -> dict[str, Any]:
    np.savez("a.npz", x_train=X, y_train=LABELS, x_test=X, y_test=LABELS)
    return {"name": "npz", "path": "a.npz"}


def image_folder() -> dict[str, Any]:
    for place, label in enumerate(LABELS):
        file = Path("photos") / label / f"{place}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encoded(np.full((1, 4, 4), 10 * place, np.uint8)))
    return {"name": "folder", "path": "photos"}


def torch_set() -> DataSet:
    places = torch.tensor([int(label[-1]) for label in LABELS])
    return DataSet.of(torch.utils.data.TensorDataset(torch.from_numpy(X), places))


DATA: dict[str, Callable[[str], Any]] = {
    "own source": lambda module: {"name": f"{module}:patterns"},
    "csv": lambda _: csv_file("a.csv", ROWS),
    "json lines": lambda _: lines_file(),
    "parquet": lambda _: parquet_file(),
    "npz": lambda _: arrays_file(),
    "folder": lambda _: image_folder(),
    "texts": lambda _: csv_file("texts.csv", SAID),
    "object": lambda _: torch_set(),
}

# ---- networks, with encoders or without ----


def built(module: str, way: str) -> ek.Net:
    net: ek.Net = getattr(import_module(module), way)(classes=4, features=3)
    return net


def named_encoder(module: str, data: str) -> Any:
    return {"name": "mlp", "hidden": [4], "encoder": {"name": f"{module}:{'words' if data == 'texts' else 'encoder'}"}}


NETS: dict[str, Callable[[str, str], Any]] = {
    "ours": lambda *_: {"name": "mlp", "hidden": [4]},
    "own": lambda module, _: {"name": f"{module}:build"},
    "own behind an encoder": lambda module, data: {"name": f"{module}:{'of_texts' if data == 'texts' else 'fronted'}"},
    "encoder by name": named_encoder,
    "object": lambda module, _: built(module, "build"),
    "object behind an encoder": lambda module, _: built(module, "fronted"),
}

# ---- methods ----


def registered(module: str) -> dict[str, Any]:
    ek.METHODS["mine"] = import_module(module).Cautious
    return {"name": "mine"}


def by_entry_point(module: str) -> dict[str, Any]:
    about = Path("careful-1.0.dist-info")
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: careful\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[evenkeel.methods]\ncareful = {module}:Cautious\n")
    return {"name": "careful", "share": 0.25}


METHODS: dict[str, Callable[[str], Any]] = {
    "ours": lambda _: {"name": "derpp"},
    "own": lambda module: {"name": f"{module}:Cautious", "share": 0.25},
    "registered": registered,
    "entry point": by_entry_point,
    "object": lambda module: import_module(module).Cautious(share=0.3),
}


def given(module: str, data: str, net: str, method: str) -> Given:
    """Return what somebody gives who chose these three ways."""
    parts = {"data": DATA[data](module), "net": NETS[net](module, data), "method": METHODS[method](module)}
    here = Given({kind: part for kind, part in parts.items() if isinstance(part, dict)})
    here.objects = {kind: part for kind, part in parts.items() if kind not in here.tables}
    of_object = {"object": "build", "object behind an encoder": "fronted"}
    net_table = here.tables.get("net", {"name": f"{module}:{of_object.get(net)}"})
    here.named = [
        f"net={_toml(net_table)}",
        f"method={_toml(here.tables.get('method', {'name': f'{module}:Cautious'}))}",
    ]
    return here


def _toml(table: dict[str, Any]) -> str:
    values = {key: _toml(value) if isinstance(value, dict) else json.dumps(value) for key, value in table.items()}
    return "{" + ", ".join(f"{key} = {value}" for key, value in values.items()) + "}"


def fits(data: str, net: str) -> bool:
    """Return whether a network takes such samples: texts need an encoder, and objects were made for three numbers."""
    if data == "texts":
        return net in ("encoder by name", "own behind an encoder")
    return not (net.startswith("object") and data in ("own source", "folder"))


WAYS = [case for case in product(DATA, NETS, METHODS) if fits(*case[:2])]
BY_NAME = [case for case in WAYS if not any(way.startswith("object") for way in case)]


@pytest.fixture(autouse=True)
def _on_the_path(own_module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_module
    monkeypatch.syspath_prepend(tmp_path)


def ran(here: Given, out: str) -> Path:
    [*ek.run({**SMALL, **here.tables}, out=out, **here.objects)]
    return Path(out)


def resumes(here: Given) -> None:
    whole = ran(here, "whole")
    for record in ek.run({**SMALL, **here.tables}, out="cut", save_every=0, **here.objects):
        if isinstance(record, ek.Stepped) and record.step == 2:
            break
    assert (ran(here, "cut") / RECORDS).read_bytes() == (whole / RECORDS).read_bytes()


def is_served(here: Given) -> None:
    """Serve the learner of a run: it predicts what the run's would, and learns."""
    run = ran(here, "run")
    table = dict(here.tables.get("data", {}))
    data = here.objects.get("data") or ek.load_data(table.pop("name"), **table)
    samples = [row.tobytes().rstrip(b"\0") if data.test.sample == () else row.tobytes() for row in data.test.x]
    service = Service(Path("model"), None, [*here.named, "batches.size=1"], learner=run / MODEL)
    try:
        service.start()
        _, answers = service.predict(samples)
        own = {kind: here.objects.get(kind) for kind in ("net", "method")}
        learner = ek.Learner.load(run / MODEL, **{kind: part for kind, part in own.items() if part is not None})
        assert [answer.label for answer in answers] == learner.predict(data.test.x).tolist()
        service.learn([Example(samples[0], data.test.labels[0])]).result()
        settle(service)
        assert service.supervisor is not None
        assert service.supervisor.report.learned == 1
    finally:
        service.close()


ACTIONS: dict[str, Callable[[Given], object]] = {"resume": resumes, "service": is_served}


@pytest.mark.parametrize(
    ("data", "net", "method", "action"), thinned((*way, action) for way in WAYS for action in ACTIONS)
)
def test_a_run_takes_it_and_what_it_made_resumes_or_is_served(
    own_module: str, data: str, net: str, method: str, action: str
) -> None:
    ACTIONS[action](given(own_module, data, net, method))


@pytest.mark.parametrize("together", [1, pytest.param(2, marks=pytest.mark.slow)], ids=["each way", "each pair"])
def test_a_grid_with_two_workers_takes_it(own_module: str, tmp_path: Path, together: int) -> None:
    cases = [case for case in BY_NAME if case in covering(BY_NAME, together)]
    chosen = [
        ek.load_config({**SMALL, **given(own_module, *case).tables, "seed": place}) for place, case in enumerate(cases)
    ]
    grid = Grid(Ledger(tmp_path / "ledger"), chosen, Execution(workers=2)).finish()
    assert (len(grid.finished), grid.failed) == (len(cases), {})
    for config in chosen:
        alone = [record for record in ek.run(config) if isinstance(record, ek.Ended)]
        (same,) = [run for run in grid.results() if run.seed == config.seed]
        assert same.ended is not None
        assert same.ended.metrics == alone[0].metrics
