"""Measure how fast a service learns, and how long its predictions take meanwhile.

Run: python benchmarks/service_load.py --seconds 60      (make bench also writes service_load.json)

A real server in a process of its own (an MLP on 384 features, ER with CBA, the service's defaults) and one client
process share two cores. The client teaches `--teach` examples / s in batches of 32, and requests 200 predictions / s at
times fixed in advance: a response time counts from the moment the request was due, so that a stalling server cannot
hide it.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

import numpy as np

FEATURES, CLASSES, BATCH, RATE, TEACHERS, PREDICTORS = 384, 10, 32, 200, 2, 16


class Connection:
    """A minimal HTTP connection: the client must not use up the cores on which it measures."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        body = await reader.readexactly(int(length[1]) if length else 0)
        return int(head.split(b" ", 2)[1]), body


def request(path: str, body: object) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


def requests(generator: np.random.Generator) -> tuple[list[bytes], list[bytes]]:
    """Return requests to teach batches and to predict single vectors. Numbers have six digits, as clients send them."""
    means = generator.normal(size=(CLASSES, FEATURES))
    teach, predict = [], []
    for _ in range(200):
        labels = generator.integers(0, CLASSES, BATCH)
        x = (means[labels] + generator.normal(size=(BATCH, FEATURES))).round(6)
        rows = [{"x": row.tolist(), "label": int(label)} for row, label in zip(x, labels, strict=True)]
        teach.append(request("/v1/learn", {"examples": rows}))
        predict.append(request("/v1/predict", {"x": x[0].tolist()}))
    return teach, predict


async def load(
    port: int, seconds: float, pace: float, teach: Sequence[bytes], predict: Sequence[bytes]
) -> tuple[list[float], int]:
    """Send requests; return the response times of predictions in ms, and how often the queue was full."""
    begun, end, full = time.perf_counter(), time.perf_counter() + seconds, 0
    times: list[float] = []

    async def teacher(number: int) -> None:
        nonlocal full
        connection, place = Connection(port), number
        while time.perf_counter() < end:
            await asyncio.sleep(max(0.0, begun + place * BATCH / pace - time.perf_counter()))
            status, body = await connection.send(teach[place % len(teach)])
            place += TEACHERS
            if status == 429:
                full += 1
            elif status != 202:
                raise RuntimeError(body.decode())

    async def predictor(number: int) -> None:
        connection = Connection(port)
        for place in range(number, int(seconds * RATE), PREDICTORS):
            due = begun + place / RATE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            status, body = await connection.send(predict[place % len(predict)])
            if status == 200:
                times.append(1000 * (time.perf_counter() - due))
            elif status != 409:  # nothing has been learned yet
                raise RuntimeError(body.decode())

    await asyncio.gather(*map(teacher, range(TEACHERS)), *map(predictor, range(PREDICTORS)))
    return times, full


def resident(process: int | None) -> float:
    """Return the resident memory of a process, in MB."""
    if process is None:  # the learner has none of its own
        return 0.0
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(match[1]) / 1000 if match else 0.0


def busy(process: int | None) -> float:
    """Return the CPU seconds a process has used so far."""
    if process is None:
        return 0.0
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stolen() -> float:
    """Return the CPU seconds of our cores that the host has given to other machines so far."""
    return int(Path("/proc/stat").read_text().split(None, 9)[8]) / os.sysconf("SC_CLK_TCK")


def measure(seconds: float, pace: float, options: Sequence[str] = ()) -> dict[str, object]:
    """Start a service, put it under load, and return what was measured."""
    teach, predict = requests(np.random.default_rng(0))
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        settings = ["--set", f"input.features={FEATURES}"]
        command = [sys.executable, "-m", "evenkeel", "serve", f"{folder}/model", "--port", "0", *settings, *options]
        with log.open("wb") as file:
            server = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, "OMP_NUM_THREADS": "1"})
        try:
            while not (match := re.search(r"http://127.0.0.1:(\d+)", log.read_text())):
                time.sleep(0.1)
            port = int(match[1])

            def status() -> dict[str, object]:
                with urlopen(f"http://127.0.0.1:{port}/v1/status") as response:
                    content: dict[str, object] = json.load(response)
                    return content

            asyncio.run(load(port, 5, pace, teach, predict))  # to warm up
            while status()["queue"]["waiting"]:  # type: ignore[index]
                time.sleep(0.1)
            begun, before, times, full = time.perf_counter(), status(), list[float](), 0
            learner = before["processes"]["learner"]  # type: ignore[index]
            processes = {"service": server.pid, "learner": learner, "client": os.getpid()}
            used = {name: busy(process) for name, process in processes.items()} | {"other machines": stolen()}
            memory, parts = [(resident(server.pid), resident(learner))], max(1, round(seconds / 60))
            for _ in range(parts):
                part, refused = asyncio.run(load(port, seconds / parts, pace, teach, predict))
                times, full = times + part, full + refused
                memory.append((resident(server.pid), resident(learner)))
            after, took = status(), time.perf_counter() - begun
            now = {name: busy(process) for name, process in processes.items()} | {"other machines": stolen()}
        finally:
            server.kill()
    learned = after["examples"]["learned"] - before["examples"]["learned"]  # type: ignore[index]
    return {
        "seconds": round(took),
        "offered_per_second": round(pace),
        "learned_per_second": round(learned / took),
        "waiting_at_the_end": after["queue"]["waiting"],  # type: ignore[index]
        "batches_of": BATCH,
        "told_to_come_later": full,
        "predictions_per_second": round(len(times) / took),
        "ms": {f"p{share}": round(float(np.percentile(times, share)), 1) for share in (50, 95, 99, 99.9)},
        "slowest_ms": round(max(times), 1),
        "resident_MB": {
            "service": [round(service) for service, _ in memory],
            "learner": [round(learner) for _, learner in memory],
        },
        "cores_used": {name: round((now[name] - used[name]) / took, 2) for name in used},
        "accuracy_before_learning": after["accuracy"]["before_learning"]["recent"],  # type: ignore[index]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--teach", type=float, default=2400, help="Examples to offer, per second.")
    parser.add_argument("--one-process", action="store_true", help="Learn in the process that answers.")
    parser.add_argument("--write", action="store_true", help="Write service_load.json next to this file.")
    arguments = parser.parse_args()
    measured = measure(arguments.seconds, arguments.teach, ["--one-process"] if arguments.one_process else [])
    print(json.dumps(measured, indent=1))
    if arguments.write:
        Path(__file__).with_suffix(".json").write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
