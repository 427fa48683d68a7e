"""Measure what it costs to have FastAPI parse the bodies of /v1/learn, /v1/predict and /v1/label.

Run: python benchmarks/body_cost.py      (half a minute)

FastAPI turns a body into Python objects, which pydantic checks; `Reader` has pydantic parse the bytes. Both are called
in turn, in one process without a network, up to the samples being packed for the journal. The ratios of the medians
decide which routes read their bodies themselves.
"""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Request, Response
from pydantic import Field, TypeAdapter

from evenkeel.service import samples
from evenkeel.service.http.app import make_app
from evenkeel.service.http.auth import needs
from evenkeel.service.http.requests import Reader
from evenkeel.service.http.schemas import Body, Number, TruthOrTruths, Truths
from evenkeel.service.service import Service
from evenkeel.service.store.keys import Keyring

FEATURES, ROUNDS = 384, 1_000
Vector = Annotated[list[Number], Field(min_length=FEATURES, max_length=FEATURES)]


class Sample(Body):
    x: Vector
    top: int = 5
    keep: bool = True


class Labelled(Body):
    x: Vector
    label: str | int
    id: str | None = None


class ManyLabelled(Body):
    examples: Annotated[list[Labelled], Field(min_length=1, max_length=1_000)]


def add_routes(app: FastAPI, service: Service) -> None:
    """Add two routes for each kind of body: one that reads it itself, and a plain one."""
    reader, limits, done = Reader(service.config), service.config.limits, Response()
    truths: TypeAdapter[Any] = TypeAdapter(Truths)

    def add(path: str, endpoint: Callable[..., Any]) -> None:
        app.post(path, dependencies=[needs("admin")])(endpoint)

    async def learn(request: Request) -> Response:
        await reader.examples(request)
        return done

    async def learn_plain(body: ManyLabelled | Labelled) -> Response:
        many = body.examples if isinstance(body, ManyLabelled) else [body]
        samples.vectors([each.x for each in many], service.config.input, limits.magnitude)
        return done

    async def predict(request: Request) -> Response:
        await reader.question(request)
        return done

    async def predict_plain(body: Sample) -> Response:
        samples.vectors([body.x], service.config.input, limits.magnitude)
        return done

    async def label(request: Request) -> Response:
        truths.validate_json(await request.body())
        return done

    async def label_plain(body: TruthOrTruths) -> Response:  # noqa: ARG001
        return done

    for endpoint in (learn, learn_plain, predict, predict_plain, label, label_plain):
        add(f"/{endpoint.__name__}", endpoint)


async def call(app: FastAPI, path: str, body: bytes) -> float:
    """Send a request to the app, and return the seconds it took."""
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    headers.append((b"content-length", str(len(body)).encode()))
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    begun = time.perf_counter()
    await app({**scope, "headers": headers}, receive, send)
    took = time.perf_counter() - begun
    assert sent[0]["status"] == 200, sent
    return took


async def measure(app: FastAPI) -> None:
    generator = np.random.default_rng(0)

    def row() -> list[float]:
        return [float(each) for each in generator.normal(size=FEATURES).round(6)]

    bodies: dict[str, Any] = {
        "learn": {"examples": [{"x": row(), "label": place % 10} for place in range(32)]},
        "predict": {"x": row()},
        "label": {"labels": [{"id": f"{number:032x}", "label": 1} for number in range(32)]},
    }
    for name, content in bodies.items():
        body = json.dumps(content).encode()
        times = [[await call(app, path, body) for path in (f"/{name}", f"/{name}_plain")] for _ in range(ROUNDS)]
        own, plain = 1e6 * np.median(times, axis=0)
        print(f"{name}: {len(body):,} bytes: own {own:,.0f} us, plain {plain:,.0f} us, ratio {plain / own:.2f}")


def main() -> None:
    with TemporaryDirectory() as folder:
        service = Service(Path(folder) / "model", {"input": {"features": FEATURES}})
        app = make_app(service, Keyring(service.model_folder.keys, open_without=True))
        add_routes(app, service)
        asyncio.run(measure(app))
        service.close()


if __name__ == "__main__":
    main()
