"""Write the files of this version of the library, to be kept as test data for later versions.

python -m tests.helpers.make_old_files tests/compatibility/0.1
"""

import gzip
import json
import shutil
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import torch

import evenkeel as ek
from evenkeel.config.composition import names
from evenkeel.config.loading import presets
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.run_names import run_key
from evenkeel.results.records import to_line
from evenkeel.service.service import Service
from tests.helpers.old_learners import CUT, LEARNERS, STREAM, arithmetic, digests, learn
from tests.helpers.services import examples

SMALL = ["net.width=4", "limits.train=20", "limits.test=20", "evaluation.every=4", "evaluation.alignment=5"]
RUN = ("digits-cba", [*SMALL, "method.name=derpp"])  # stopped in the middle
LEDGER = [("digits", [*SMALL, f"seed={seed}"]) for seed in (0, 1)]  # the first is finished and packed, the second not
CLINC150 = (
    "clinc150",
    ["limits.train=12", "limits.test=4", "limits.tasks=4", "evaluation.every=5", "adaptor.name=cba"],
)
SERVICE = {
    "input": {"features": 4},
    "net": {"hidden": [16]},
    "memory": {"capacity": 20},
    "batches": {"size": 4, "wait": 0.05},
}


def main(target: Path) -> None:
    torch.set_num_threads(1)
    target.mkdir(parents=True)
    expected: dict[str, Any] = {"arithmetic": arithmetic()}
    expected["checkpoints"] = _checkpoints(target / "checkpoints")
    _unfinished(target / "run", *RUN)
    _records(target / "run.jsonl.gz", *RUN)
    _ledger(target)
    _records(target / "clinc150.jsonl.gz", *CLINC150)
    expected["service"] = _service(target / "service")
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    configs = {name: ek.load_config(name).model_dump(mode="json") for name in [*presets(), *names("paper")]}
    lines = "".join(f"{json.dumps({'preset': name, 'config': config})}\n" for name, config in configs.items())
    (target / "presets.jsonl.gz").write_bytes(gzip.compress(lines.encode(), 9, mtime=0))


def _checkpoints(folder: Path) -> dict[str, Any]:
    folder.mkdir()
    expected = {}
    for name, make in LEARNERS.items():
        learner = make()
        learn(learner, STREAM[:CUT], 0)
        learner.save(folder / f"{name}.ek")
        continued = learn(learner, STREAM[CUT:], CUT)
        expected[name] = {"records": continued, "digests": digests(learner)}
    return expected


def _unfinished(folder: Path, preset: str, settings: list[str]) -> None:
    """Write a run that was killed in its third task, in the middle of a record."""
    stream = ek.run(ek.load_config(preset, settings), out=folder, save_every=0.0)
    list(islice(stream, 20))
    stream.close()  # type: ignore[attr-defined]
    with (folder / "records.jsonl").open("a") as file:
        file.write('{"kind":"step","step"')
    (folder / ".lock").unlink()


def _records(path: Path, preset: str, settings: list[str]) -> None:
    lines = "".join(to_line(record) for record in ek.run(ek.load_config(preset, settings)))
    path.write_bytes(gzip.compress(lines.encode(), 9, mtime=0))


def _ledger(target: Path) -> None:
    ledger = Ledger(target / "ledger")
    done, half = (run_key(ek.load_config(*each)) for each in LEDGER)
    for _ in ek.run(ek.load_config(*LEDGER[0]), out=ledger.folder(done)):
        pass
    ledger.note_finished(done)
    ledger.pack()
    _unfinished(ledger.folder(half), *LEDGER[1])
    _records(target / "ledger.jsonl.gz", *LEDGER[1])
    for lock in (target / "ledger").rglob("*.lock"):
        lock.unlink()


def _service(folder: Path) -> dict[str, Any]:
    """Write a service that learned something and has examples waiting: two batches cut, three examples not yet."""
    service = Service(folder, SERVICE)
    service.start()
    service.learn(examples(24, labels=("cat", "dog", "cow"), own="a")).result()
    while service.waiting:
        pass
    service.close()
    service = Service(folder)
    service.learn(examples(11, labels=("cow", "emu"), own="b", seed=1)).result()
    service.close()
    (folder / ".lock").unlink()
    twin = folder.with_name("twin")
    shutil.copytree(folder, twin)
    service = Service(twin)
    service.start()
    while service.waiting:
        pass
    service.close()
    newest = sorted((twin / "versions").glob("*.ek"))[-1]
    expected = {"version": int(newest.stem), "digests": digests(ek.Learner.load(newest))}
    shutil.rmtree(twin)
    return expected


if __name__ == "__main__":
    main(Path(sys.argv[1]))
