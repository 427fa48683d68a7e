"""Measure what a service learns, and how long its predictions take, when it is offered ten times what it can learn.

Run: python -m benchmarks.service_overload      (three minutes on two quiet cores; --write writes service_overload.json)

The service is that of service_load.py. First more is offered than it can learn, to find its capacity; then as much as
that, and then ten times as much. What is taught comes from a process of low priority, so that it takes only what the
service leaves, from bodies that were built beforehand; when the queue is full, it sends the next one at once. The
service keeps such a client waiting, so not all that is offered is also answered. The bodies are .npy files, as a client
on the same two cores cannot send as much JSON. Compare the last two phases.
"""

import argparse
import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.service_load import (
    BATCH,
    PATIENCE,
    bounded,
    busy,
    drain,
    percentiles,
    requests,
    send_to_predict,
    served,
    status_of,
    warm_up,
)

FLOOD = 8  # connections that teach
MUCH = 10_000  # examples / s, more than a service can learn on a core


class Flood:
    """A connection that sends requests and reads little of the responses: it takes hardly more than the kernel does."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def send(self, request: bytes) -> int:
        """Send a request, and return the status of the response."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), PATIENCE)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(request)
        head, _, body = self._until(b"\r\n\r\n").partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        left = (int(length[1]) if length else 0) - len(body)
        while left > 0:
            left -= len(self._receive())
        if b"\r\nconnection: close" in head.lower():
            self._socket.close()
            self._socket = None
        return int(head[9:12])

    def _until(self, end: bytes) -> bytes:
        received = b""
        while end not in received:
            received += self._receive()
        return received

    def _receive(self) -> bytes:
        assert self._socket is not None
        content = self._socket.recv(65_536)
        if not content:
            raise RuntimeError("The service closed a connection without a response.")
        return content


def flood(port: int, seconds: float, pace: float, teach: Sequence[bytes]) -> Counter[int]:
    """Send batches at this pace, or as fast as it can, whatever the responses; return how often each status came."""
    begun = time.perf_counter()

    def one(number: int) -> Counter[int]:
        connection, place, statuses = Flood(port), number, Counter[int]()
        while (now := time.perf_counter()) < begun + seconds:
            time.sleep(max(0.0, min(begun + place * BATCH / pace, begun + seconds) - now))
            statuses[connection.send(teach[place % len(teach)])] += 1
            place += FLOOD
        return statuses

    with ThreadPoolExecutor(FLOOD) as threads:
        return sum(threads.map(one, range(FLOOD)), Counter[int]())


def only_teach(port: int, seconds: float, pace: float, body: str) -> None:
    """Teach, and print how often each status came."""
    teach, _ = requests(np.random.default_rng(1), body)
    os.nice(19)  # from now on, it takes only what the service leaves
    print("ready", flush=True)
    print(json.dumps(flood(port, seconds, pace, teach)))


def phase(port: int, pid: int, seconds: float, pace: float, *, predict: Sequence[bytes], body: str) -> dict[str, Any]:
    """Let another process teach, request predictions, and return what was measured."""
    command = [sys.executable, "-m", "benchmarks.service_overload", "--only-teach", str(port)]
    command += ["--seconds", str(seconds), "--pace", str(pace), "--body", body]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]) as teacher:
        assert teacher.stdout is not None
        try:
            teacher.stdout.readline()  # its bodies are built
            before, begun = status_of(port), time.perf_counter()
            learner = before["processes"]["learner"]
            used = busy(pid), busy(learner), busy(teacher.pid)
            times = asyncio.run(send_to_predict(port, seconds, predict))
            after, took = status_of(port), time.perf_counter() - begun
            using = busy(pid), busy(learner), busy(teacher.pid)
            statuses = json.loads(teacher.stdout.read())
        finally:
            teacher.kill()
    if statuses.keys() - {"202", "429"}:
        raise RuntimeError(f"The service answered {statuses}.")
    cores = [round((now - then) / took, 2) for then, now in zip(used, using, strict=True)]
    return {
        "offered_per_second": round(pace),
        "answered_per_second": round(BATCH * sum(statuses.values()) / seconds),
        "refused_requests": statuses.get("429", 0),
        "learned_per_second": round((after["examples"]["learned"] - before["examples"]["learned"]) / took),
        "ms": percentiles(times),
        "cores_used": dict(zip(("service", "learner", "client"), cores, strict=True)),
    }


def measure(seconds: float, factor: float, body: str, options: Sequence[str]) -> dict[str, Any]:
    """Find the capacity of a service, offer as much and then `factor` times as much; return both and ratios."""
    teach, predict = requests(np.random.default_rng(0), body)
    phases = list[dict[str, Any]]()
    with served(options) as (port, pid):
        warm_up(port, MUCH / 10, teach, predict)
        most = phase(port, pid, seconds / 3, MUCH, predict=predict, body=body)
        for pace in (most["learned_per_second"], factor * most["learned_per_second"]):
            drain(port)
            phases.append(phase(port, pid, seconds, pace, predict=predict, body=body))
    normal, flooded = phases
    return {
        "body": body,
        "to_find_the_capacity": most,
        "capacity": normal,
        f"overload_{factor:g}": flooded,
        "offered_times": round(flooded["offered_per_second"] / normal["learned_per_second"], 1),
        "ratio_of_goodput": round(flooded["learned_per_second"] / normal["learned_per_second"], 2),
        "ratio_of_p99": round(flooded["ms"]["p99"] / normal["ms"]["p99"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="Of each of the two phases that are compared.")
    parser.add_argument("--factor", type=float, default=10, help="How many times the capacity to offer.")
    parser.add_argument("--body", choices=["json", "base64", "npy"], default="npy")
    parser.add_argument("--set", action="append", default=[], help="A setting of the service: batches.size=128.")
    parser.add_argument("--write", action="store_true", help="Write service_overload.json next to this file.")
    parser.add_argument("--only-teach", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--pace", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only_teach:
        only_teach(arguments.only_teach, arguments.seconds, arguments.pace, arguments.body)
        return
    options = [word for setting in arguments.set for word in ("--set", setting)]
    with bounded(3 * arguments.seconds + 6 * PATIENCE):
        measured = measure(arguments.seconds, arguments.factor, arguments.body, options)
    print(json.dumps(measured, indent=1))
    if arguments.write:
        Path(__file__).with_suffix(".json").write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
