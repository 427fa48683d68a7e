"""Kill a service again and again while clients teach, predict and label; then compare it with an undisturbed twin.

    python -m tests.helpers.crashes --kills 100

A client that gets no response repeats its request, as clients do. In the end the journal shows in which batches the
examples were learned, and a learner that was never killed learns the same batches.
"""

import argparse
import json
import os
import random
import signal
import socket
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPException
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import httpx
import numpy as np
import torch

from evenkeel.config.build import make_learner
from evenkeel.learning.contract import differences, snapshot
from evenkeel.learning.learner import Learner
from evenkeel.service.http.server import listen, run
from evenkeel.service.service import Service
from evenkeel.service.store.keys import Keyring
from evenkeel.service.store.model_folder import ModelFolder
from tests.helpers.processes import LONG, fork_server, wait_for

FEATURES, CLASSES, BATCH = 12, 6, 16
SETTINGS = [f"input.features={FEATURES}", "net.hidden=[32]", "memory.capacity=100", f"batches.size={BATCH}"]
SETTINGS += ["batches.wait=0.05", "checkpoints.batches=40", "checkpoints.seconds=2", "limits.queue=2000"]


@dataclass
class Load:
    """Clients that send requests until they are stopped, and remember what was acknowledged."""

    url: str
    seed: int
    pause: float  # seconds between requests of a client, at most
    stopping: threading.Event = field(default_factory=threading.Event)
    samples: dict[str, tuple[list[float], int]] = field(default_factory=dict)  # of every id ever sent
    acknowledged: set[str] = field(default_factory=set)
    predicted: int = 0
    labelled: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    def start(self) -> list[threading.Thread]:
        clients: list[tuple[Callable[..., None], int]] = [(self._teach, 0), (self._teach, 1), (self._predict, 2)]
        threads = [threading.Thread(target=self._with_client, args=each, daemon=True) for each in clients]
        for thread in threads:
            thread.start()
        return threads

    def _with_client(self, work: "Callable[[httpx.Client, int], None]", number: int) -> None:
        with httpx.Client(base_url=self.url, timeout=30) as client:
            work(client, number)

    def _teach(self, client: httpx.Client, number: int) -> None:
        rng, sent = random.Random(self.seed * 100 + number), 0
        while not self.stopping.is_set():
            examples: list[dict[str, Any]] = []
            for _ in range(rng.randint(1, 40)):
                sent += 1
                id, (x, label) = f"client-{number}-{sent}", sample(rng, sent)
                self.samples[id] = x, label
                examples.append({"id": id, "x": x, "label": label})
            if self._insist(client, "/v1/learn", {"examples": examples}) is not None:
                self.acknowledged.update(each["id"] for each in examples)
            time.sleep(rng.uniform(0, self.pause))

    def _predict(self, client: httpx.Client, number: int) -> None:
        rng, sent = random.Random(self.seed * 100 + number), 0
        while not self.stopping.is_set():
            sent += 1
            x, label = sample(rng, sent)
            answer = self._insist(client, "/v1/predict", {"x": x})
            if answer is None or answer["predictions"][0]["id"] is None:
                continue
            self.predicted += 1
            id = answer["predictions"][0]["id"]
            self.samples[id] = x, label
            if self._insist(client, "/v1/label", {"id": id, "label": label}) is not None:
                self.labelled.add(id)
            time.sleep(rng.uniform(0, self.pause))

    def _insist(self, client: httpx.Client, path: str, body: dict[str, Any]) -> Any:
        """Send a request until there is a response, even if the load ends meanwhile; return its content."""
        while True:
            try:
                answer = client.post(path, json=body)
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            if answer.is_success:
                return answer.json()
            if answer.status_code == 429 or (answer.status_code == 409 and path == "/v1/predict"):
                time.sleep(0.1)
                continue
            self.errors.append(f"{path}: {answer.status_code} {answer.text}")
            return None


def sample(rng: random.Random, step: int) -> tuple[list[float], int]:
    """Return a sample of one of two classes, which change every 500 steps: a stream that invites forgetting."""
    label = (2 * (step // 500) + rng.randrange(2)) % CLASSES
    return [rng.gauss(float(label == place % CLASSES), 0.5) for place in range(FEATURES)], label


def serve(folder: str, port: int) -> None:
    """Do what `evenkeel serve` does."""
    with listen("127.0.0.1", port) as listening:
        service = Service(Path(folder), None, SETTINGS, apart=True)
        run(service, listening, Keyring(service.model_folder.keys, open_without=True))


def fetch(url: str, path: str) -> Any:
    """Return the content of a response; None if there is no response, or it is an error."""
    try:
        with urlopen(url + path, timeout=LONG) as answer:  # cheaper than a new client of httpx each time
            return json.load(answer)
    except (OSError, HTTPException):  # an HTTPError is an OSError
        return None


@dataclass
class Kills:
    """How often each process was killed."""

    service: int = 0
    early: int = 0  # of the service, before it had caught up
    learner: int = 0


def disturb(folder: Path, kills: int, seed: int, pause: float = 0.02) -> tuple[Load, Kills]:
    """Put a service under load, kill it or its learning process this many times, and return load and kills."""
    processes = fork_server()
    rng, count = random.Random(seed), Kills()
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    load = Load(f"http://127.0.0.1:{port}", seed, pause)
    threads: list[threading.Thread] = []
    service = processes.Process(target=serve, args=(str(folder), port))
    service.start()
    while count.service + count.learner < kills:
        threads = threads or load.start()
        if rng.random() < 0.3:  # at any moment of the start, and of the recovery above all
            time.sleep(rng.uniform(0, 4))
            count.early += fetch(load.url, "/readyz") is None
        else:
            wait_ready(load.url, service)
            time.sleep(rng.uniform(0, 1))
        learner = (fetch(load.url, "/v1/status") or {}).get("processes", {}).get("learner")
        if learner is not None and rng.random() < 0.3:
            os.kill(learner, signal.SIGKILL)
            count.learner += 1
        else:
            service.kill()
            service.join()
            count.service += 1
            service = processes.Process(target=serve, args=(str(folder), port))
            service.start()
    wait_ready(load.url, service)
    known = len(load.acknowledged), len(load.labelled)
    wait_for(lambda: len(load.acknowledged) > known[0] and len(load.labelled) > known[1])
    load.stopping.set()
    for thread in threads:
        thread.join()
    status = settled(load.url)
    service.terminate()
    service.join()
    assert not load.errors, load.errors[:3]
    examples = status["examples"]
    assert examples["accepted"] == examples["learned"] + examples["refused"], examples
    assert examples["accepted"] == len(load.acknowledged) + len(load.labelled), examples
    assert status["accuracy"]["answered"]["labelled"] == len(load.labelled)
    return load, count


def wait_ready(url: str, service: BaseProcess) -> None:
    """Wait until the service is ready; fail if it has ended."""
    while fetch(url, "/readyz") is None:
        assert service.is_alive(), "It did not start again."
        time.sleep(0.02)


def settled(url: str) -> Any:
    """Wait until nothing is waiting any more, and return the status."""
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        status = fetch(url, "/v1/status")
        if status is not None and status["state"] == "idle":
            return status
        time.sleep(0.05)
    raise TimeoutError(str(status))


def compare(folder: Path, load: Load) -> int:
    """Have a twin learn the same batches, fail if anything differs, and return the number of batches."""
    model_folder = ModelFolder(folder)
    with closing(sqlite3.connect(model_folder.journal)) as db:
        rows = db.execute("SELECT batch, id FROM examples ORDER BY batch, seq").fetchall()
    known = [id for _, id in rows]
    assert len(known) == len(set(known))
    assert set(known) == load.acknowledged | load.labelled  # nothing lost, nothing unknown
    config = model_folder.read()
    torch.set_num_threads(config.threads or 1)
    twin = make_learner(config, config.input.sample, config.classes)
    batches: dict[int, list[str]] = {}
    for batch, id in rows:
        batches.setdefault(batch, []).append(id)
    for ids in batches.values():
        x = np.array([load.samples[id][0] for id in ids], dtype=np.float32)
        twin.learn(x, [load.samples[id][1] for id in ids], key=ids)
    served = Learner.load(model_folder.version(model_folder.versions()[-1]))
    assert not differences(snapshot(served), snapshot(twin))
    return len(batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begun, model_folder = time.monotonic(), Path(folder) / "model"
        load, kills = disturb(model_folder, arguments.kills, arguments.seed)
        batches = compare(model_folder, load)
    print(
        f"{arguments.kills} kills ({kills.service} of the service, {kills.early} of them before it had caught up, "
        f"{kills.learner} of its learner) in {time.monotonic() - begun:.0f} s: "
        f"{len(load.acknowledged):,} examples and {len(load.labelled):,} late labels acknowledged, {load.predicted:,} "
        f"predictions; all learned, none twice, in {batches:,} batches; weights equal to the twin's, bit for bit."
    )


if __name__ == "__main__":
    main()
