"""Made-up runs: records with the shape of real ones, made from a few numbers, for tests of code that reads them.

Old tasks fade, the newest is predicted too often, and CBA softens both.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenkeel.results.metrics import class_recall
from evenkeel.results.records import Aligned, Anytime, Ended, Record, Session, Started, Stepped, to_line
from evenkeel.results.records import Tested as Test  # under its own name, pytest would take it for a test
from evenkeel.results.run_files import RECORDS, USAGE, Results

DIGEST = "5f1c" * 16


def make_run(
    name: str = "ER",
    *,
    seed: int = 0,
    adaptor: bool | str = False,
    skill: float = 0.0,
    tasks: int = 5,
    classes: int = 10,
    steps: int = 40,
    finished: bool = True,
    stop: int | None = None,
    data: str = "digits",
    scenario: str = "disjoint",
    domains: bool = False,
    diagnostics: bool = True,
    class_names: Sequence[str] | None = None,
    folder: Path | None = None,
    **config: Any,
) -> Results:
    """Return a run of `tasks` tasks of `steps` steps each; `stop`: the step at which it was killed.

    adaptor: its name; True is CBA.
    """
    adapted = bool(adaptor)
    rng = np.random.default_rng([seed, len(name), adapted, tasks])
    each = classes if domains else classes // tasks
    owned = [list(range(classes)) if domains else list(range(k * each, (k + 1) * each)) for k in range(tasks)]
    names = list(class_names or (f"class {index}" for index in range(classes)))
    every = max(1, steps // 8)
    settings = {
        "name": name,
        "seed": seed,
        "data": {"name": data, "root": None},
        "scenario": {"name": scenario, "tasks": tasks},
        "method": {"name": name.partition(" + ")[0]},
        "adaptor": {"name": "cba" if adaptor is True else adaptor, "lr": 0.001, "hidden": [256]} if adapted else None,
        "memory": {"capacity": 200, "policy": "reservoir"},
        "evaluation": {"every": every, "prequential": diagnostics},
    } | config
    start = Started(
        config=settings,
        versions={"evenkeel": "0.1.0", "python": "3.12.0", "torch": "2.7.0", "numpy": "2.2.0"},
        threads=1,
        data={"name": data, "digest": DIGEST, "train": 1437, "test": 360, "classes": names},
        tasks=[{"name": f"task {k}", "classes": owned[k], "samples": steps * 10, "steps": steps} for k in range(tasks)],
        steps=steps * tasks,
        stream="a0b1" * 8,
        boundaries=False,
    )
    records: list[Record] = [start]
    fade = 0.18 if adapted else 0.3

    def accuracy(task: int, progress: float) -> list[float]:
        now = task + progress
        best = 88 + skill - 4 * adapted
        scores = [best * min(1.0, now - k) ** 0.4 * np.exp(-fade * max(0.0, now - k - 1)) for k in range(task + 1)]
        return [float(np.clip(v + rng.normal(0, 2), 0, 100)) for v in scores] + [0.0] * (tasks - task - 1)

    def predicted(task: int) -> list[float]:
        pull = 1.0 + (0.5 if adapted else 2.0) * (np.arange(tasks) == task) + rng.uniform(0, 0.1, tasks)
        weights = np.where(np.arange(tasks) <= task, pull, 0.0)
        return [] if domains else [float(share) for share in 100 * weights / weights.sum()]

    def confusion(task: int) -> list[list[int]]:
        counts = rng.poisson(0.3, (classes, classes)) + np.diag(rng.integers(15, 25, classes))
        counts[:, owned[task]] += rng.poisson(1 if adapted else 4, (classes, len(owned[task])))
        return [[int(count) for count in row] for row in counts]

    def tested(step: int, task: int) -> Test:
        shown = max(task, 0)
        scores = accuracy(shown, 1.0) if task >= 0 else [float(v) for v in rng.uniform(0, 100 / classes, tasks)]
        seen = {label for group in owned[: task + 1] for label in group}
        memory = [min(step * 10, 200) // len(seen) if label in seen else 0 for label in range(classes)]
        share = predicted(shown) if task >= 0 else []
        masked = [float(min(100.0, v + 20)) for v in scores]
        table = confusion(shown)
        return Test(step, task, scores, scores, masked, share, table, class_recall(table).tolist(), memory)

    records.append(tested(0, -1))
    for step in range(1, steps * tasks + 1):
        task, within = divmod(step - 1, steps)
        if diagnostics and step % 4 == 1:
            cosine = float(np.clip((0.3 if adapted else 0.05) + rng.normal(0, 0.15), -1, 1))
            records.append(Aligned(step, task, cosine, 1.5, 1.2))
        loss = 2.3 * float(np.exp(-2 * within / steps)) + float(rng.uniform(0, 0.2))
        correct = int(rng.binomial(10, min(0.9, within / steps))) if diagnostics else None
        stored, known = min(200, step * 10), (task + 1) * each
        records.append(Stepped(step, task, 10, loss, 0.5 if adapted else None, 10, stored, known, correct))
        if step % every == 0:
            records.append(Anytime(step, task, accuracy(task, (within + 1) / steps), predicted(task)))
        if (within + 1) == steps:
            records.append(tested(step, task))
    if finished and stop is None:
        records.append(Ended(steps * tasks, {}))
    kept = records if stop is None else [record for record in records if record.step <= stop]
    command = f"evenkeel run {name} --seed {seed}"
    return _kept(kept, Session(command, "2026-01-02T03:04:05+00:00", 0, kept[-1].step, 20.0, 5.0, 300_000_000), folder)


def _kept(records: Sequence[Record], usage: Session, folder: Path | None) -> Results:
    """Return the run, as read back from its folder if there is one."""
    if folder is not None:
        folder.mkdir(parents=True)
        (folder / RECORDS).write_text("".join(map(to_line, records)))
        (folder / USAGE).write_text(json.dumps(asdict(usage)) + "\n")
        return Results.read(folder)
    return replace(Results.of(records), sessions=[usage])


def make_runs(seeds: int = 5, methods: Sequence[str] = ("ER", "DER++"), **settings: Any) -> list[Results]:
    """Return runs of each method without and with CBA, over this many seeds."""
    return [
        make_run(f"{method} + CBA" if adaptor else method, seed=seed, adaptor=adaptor, skill=4 * place, **settings)
        for place, method in enumerate(methods)
        for adaptor in (False, True)
        for seed in range(seeds)
    ]
