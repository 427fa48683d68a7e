"""Measure the CPU time that a prediction costs a service.

Run: python -m benchmarks.prediction_cost      (half a minute; --write writes prediction_cost.json)

A real server in a process of its own (an MLP on 384 features, with the service's defaults: the keel) that has learned a
little and is idle. One client requests single predictions one after another, in several forms, in turns. CPU time is
that of the serving process: parsing, predicting, keeping the sample for a later label, answering, logging.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.service_load import PATIENCE, Connection, bounded, busy, request, requests, served, status_of

ROUNDS, REQUESTS = 10, 200


def bodies() -> tuple[list[bytes], dict[str, list[bytes]]]:
    """Return requests to teach, and requests for predictions by their form."""
    teach, predict = requests(np.random.default_rng(0))
    _, npy = requests(np.random.default_rng(0), "npy")
    not_kept = [
        request("/v1/predict", json.dumps({**json.loads(each.partition(b"\r\n\r\n")[2]), "keep": False}).encode())
        for each in predict
    ]
    return teach[:20], {"json": predict, "npy": npy, "json, not kept": not_kept}


async def send_all(port: int, sent: Sequence[bytes]) -> None:
    connection = Connection(port)
    async with asyncio.timeout(PATIENCE):
        for each in sent:
            status, body = await connection.send(each)
            if status not in (200, 202):
                raise RuntimeError(body.decode())


def learned(port: int, batches: int) -> None:
    """Wait until a service has learned so many batches."""
    deadline = time.monotonic() + PATIENCE
    while status_of(port)["version"] < batches:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{batches} batches were not learned in {PATIENCE:g} s.")
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--write", action="store_true", help="Write prediction_cost.json next to this file.")
    arguments = parser.parse_args()
    teach, forms = bodies()
    times: dict[str, list[float]] = {name: [] for name in forms}
    with bounded(10 * arguments.rounds + 60), served([]) as (port, pid):
        asyncio.run(send_all(port, teach))
        learned(port, len(teach))
        for _ in range(arguments.rounds):
            for name, sent in forms.items():
                before = busy(pid)
                asyncio.run(send_all(port, sent[:REQUESTS]))
                times[name].append(1000 * (busy(pid) - before) / REQUESTS)
    measured = {
        name: {"cpu_ms": round(median(each), 2), "from": round(min(each), 2), "to": round(max(each), 2)}
        for name, each in times.items()
    }
    print(json.dumps(measured, indent=1))
    if arguments.write:
        Path(__file__).with_suffix(".json").write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
