"""Measure how fast a service learns, and how long its predictions take meanwhile.

Run: python benchmarks/service_load.py --seconds 60      (make bench also writes service_load.json)

A real server in a process of its own (an MLP on 384 features, with the service's defaults: the keel) and one client
process share two cores. The client teaches `--teach` examples / s in batches of 32, and requests 200 predictions / s at
times fixed in advance: a response time counts from the moment the request was due, so that a stalling server cannot
hide it.
"""

import argparse
import asyncio
import base64
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

import numpy as np

FEATURES, CLASSES, BATCH, RATE, TEACHERS, PREDICTORS = 384, 10, 32, 200, 2, 16
PATIENCE = 30.0  # seconds after which nothing is waited for any more: a benchmark ends, however busy the machine is


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
        if b"\r\nconnection: close" in head.lower():
            writer.close()
            self._streams = None
        return int(head.split(b" ", 2)[1]), body


def request(path: str, content: bytes, kind: str = "application/json") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


def requests(generator: np.random.Generator, body: str = "json") -> tuple[list[bytes], list[bytes]]:
    """Return requests to teach batches and to predict single vectors. Numbers have six digits, as clients send them.

    body: "json"; "base64", which is JSON with 32-bit floats as base64; or "npy" for files of them.
    """
    means = generator.normal(size=(CLASSES, FEATURES))
    teach, predict = [], []
    for _ in range(200):
        labels = generator.integers(0, CLASSES, BATCH)
        x = (means[labels] + generator.normal(size=(BATCH, FEATURES))).round(6)
        if body == "npy":
            teach.append(to_teach_npy(x, labels))
            predict.append(request("/v1/predict", as_npy(x[0]), "application/x-npy"))
        else:
            rows = [as_base64(row) if body == "base64" else row.tolist() for row in x]
            teach.append(to_teach(rows, labels))
            predict.append(request("/v1/predict", json.dumps({"x": rows[0]}).encode()))
    return teach, predict


def to_teach(rows: Sequence[object], labels: np.ndarray) -> bytes:
    examples = [{"x": row, "label": label} for row, label in zip(rows, labels.tolist(), strict=True)]
    return request("/v1/learn", json.dumps({"examples": examples}).encode())


def as_base64(x: np.ndarray) -> str:
    return base64.b64encode(x.astype("<f4").tobytes()).decode()


def to_teach_npy(x: np.ndarray, labels: np.ndarray) -> bytes:
    """Return a form with a file of vectors and a field for each label, which is text then."""
    begin, field = b'--cut\r\ncontent-disposition: form-data; name="', b'"; filename="x.npy"'
    parts = [begin + b"x" + field + b"\r\n\r\n" + as_npy(x)]
    parts += [begin + b'label"\r\n\r\n%d' % label for label in labels.tolist()]
    return request("/v1/learn", b"\r\n".join([*parts, b"--cut--\r\n"]), "multipart/form-data; boundary=cut")


def as_npy(x: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, x.astype(np.float32))
    return file.getvalue()


async def send_to_learn(port: int, seconds: float, pace: float, teach: Sequence[bytes], teachers: int) -> list[int]:
    """Send batches at this pace, however they are answered; return the statuses."""
    begun, end, statuses = time.perf_counter(), time.perf_counter() + seconds, list[int]()

    async def teacher(number: int) -> None:
        connection, place = Connection(port), number
        while time.perf_counter() < end:
            await asyncio.sleep(max(0.0, begun + place * BATCH / pace - time.perf_counter()))
            status, body = await connection.send(teach[place % len(teach)])
            place += teachers
            statuses.append(status)
            if status not in (202, 429):
                raise RuntimeError(body.decode())

    async with asyncio.timeout(seconds + PATIENCE):
        await asyncio.gather(*map(teacher, range(teachers)))
    return statuses


async def send_to_predict(port: int, seconds: float, predict: Sequence[bytes]) -> list[float]:
    """Request predictions at times fixed in advance; return the response times in ms.

    After the last of these times no more are sent: those that were due count with the time they have waited by then.
    """
    begun, times = time.perf_counter(), list[float]()

    async def predictor(number: int) -> None:
        connection = Connection(port)
        for place in range(number, int(seconds * RATE), PREDICTORS):
            due = begun + place / RATE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            late = time.perf_counter() > begun + seconds
            status, body = (200, b"") if late else await connection.send(predict[place % len(predict)])
            if status == 200:
                times.append(1000 * (time.perf_counter() - due))
            elif status != 409:  # nothing has been learned yet
                raise RuntimeError(body.decode())

    async with asyncio.timeout(seconds + PATIENCE):
        await asyncio.gather(*map(predictor, range(PREDICTORS)))
    return times


async def load(
    port: int, seconds: float, pace: float, teach: Sequence[bytes], predict: Sequence[bytes]
) -> tuple[list[float], int]:
    """Send both kinds of requests; return the response times of predictions, and how often the queue was full."""
    statuses, times = await asyncio.gather(
        send_to_learn(port, seconds, pace, teach, TEACHERS), send_to_predict(port, seconds, predict)
    )
    return times, statuses.count(429)


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


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the main thread if this takes longer: a busy machine yields no figures."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"This took more than {seconds:g} s: the machine is too busy to measure anything.")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(round(seconds))
    try:
        yield
    finally:
        signal.alarm(0)


@contextmanager
def served(options: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Start a service; yield its port and its process id."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        settings = ["--set", f"input.features={FEATURES}"]
        command = [sys.executable, "-m", "evenkeel", "serve", f"{folder}/model", "--port", "0", *settings, *options]
        with log.open("wb") as file:
            server = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, "OMP_NUM_THREADS": "1"})
        try:
            deadline = time.monotonic() + 3 * PATIENCE
            while not (match := re.search(r"http://127.0.0.1:(\d+)", log.read_text())):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"It did not start: {log.read_text()}")
                time.sleep(0.1)
            yield int(match[1]), server.pid
        finally:
            server.kill()
            server.wait()


def status_of(port: int) -> Any:
    with urlopen(f"http://127.0.0.1:{port}/v1/status", timeout=PATIENCE) as response:
        return json.load(response)


def warm_up(port: int, pace: float, teach: Sequence[bytes], predict: Sequence[bytes]) -> None:
    """Put a service under load for a moment, and wait until the queue is empty, or it takes too long."""
    asyncio.run(load(port, 5, pace, teach, predict))
    drain(port)


def drain(port: int) -> None:
    """Wait until the queue is empty, or it takes too long."""
    deadline = time.monotonic() + PATIENCE
    while status_of(port)["queue"]["waiting"] and time.monotonic() < deadline:
        time.sleep(0.1)


def measure(seconds: float, pace: float, options: Sequence[str] = ()) -> dict[str, object]:
    """Start a service, put it under load, and return what was measured."""
    teach, predict = requests(np.random.default_rng(0))
    with served(options) as (port, pid):
        warm_up(port, pace, teach, predict)
        begun, before, times, full = time.perf_counter(), status_of(port), list[float](), 0
        learner = before["processes"]["learner"]
        processes = {"service": pid, "learner": learner, "client": os.getpid()}
        used = {name: busy(process) for name, process in processes.items()} | {"other machines": stolen()}
        memory, parts = [(resident(pid), resident(learner))], max(1, round(seconds / 60))
        for _ in range(parts):
            part, refused = asyncio.run(load(port, seconds / parts, pace, teach, predict))
            times, full = times + part, full + refused
            memory.append((resident(pid), resident(learner)))
        after, took = status_of(port), time.perf_counter() - begun
        now = {name: busy(process) for name, process in processes.items()} | {"other machines": stolen()}
    learned = after["examples"]["learned"] - before["examples"]["learned"]
    return {
        "seconds": round(took),
        "offered_per_second": round(pace),
        "learned_per_second": round(learned / took),
        "waiting_at_the_end": after["queue"]["waiting"],
        "batches_of": BATCH,
        "told_to_come_later": full,
        "predictions_per_second": round(len(times) / took),
        "ms": percentiles(times),
        "slowest_ms": round(max(times), 1),
        "resident_MB": {
            "service": [round(service) for service, _ in memory],
            "learner": [round(learner) for _, learner in memory],
        },
        "cores_used": {name: round((now[name] - used[name]) / took, 2) for name in used},
        "accuracy_before_learning": after["accuracy"]["before_learning"]["recent"],
    }


def percentiles(times: Sequence[float]) -> dict[str, float]:
    return {f"p{share}": round(float(np.percentile(times, share)), 1) for share in (50, 95, 99, 99.9)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--teach", type=float, default=2400, help="Examples to offer, per second.")
    parser.add_argument("--one-process", action="store_true", help="Learn in the process that answers.")
    parser.add_argument("--write", action="store_true", help="Write service_load.json next to this file.")
    parser.add_argument("--set", action="append", default=[], help="A setting of the service: batches.size=128.")
    arguments = parser.parse_args()
    options = ["--one-process"] if arguments.one_process else []
    options += [word for setting in arguments.set for word in ("--set", setting)]
    with bounded(arguments.seconds + 120):
        measured = measure(arguments.seconds, arguments.teach, options)
    print(json.dumps(measured, indent=1))
    if arguments.write:
        Path(__file__).with_suffix(".json").write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
