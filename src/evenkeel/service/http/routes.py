"""The routes by which clients teach and ask, and admins look after the model."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import torch
from fastapi import APIRouter, Request, Response

from evenkeel.service.examples import Accepted
from evenkeel.service.http.auth import RouterFor
from evenkeel.service.http.requests import Question, Reader, read_json
from evenkeel.service.http.responses import answers, as_json, done
from evenkeel.service.http.schemas import ForgetAnswer, LearnAnswer, Note, PredictAnswer, VersionAnswer, VersionsAnswer
from evenkeel.service.service import Service
from evenkeel.service.store.journal import JournalError

QUICK = 0.002  # seconds for which the loop may be held up by a prediction


def client_routes(service: Service, router_for: RouterFor) -> list[APIRouter]:
    teaching, asking, reader = router_for("learn"), router_for("predict"), Reader(service.config)
    threads = service.config.threads or torch.get_num_threads()
    askers = ThreadPoolExecutor(2, "asker", initializer=torch.set_num_threads, initargs=(threads,))

    @teaching.post("/v1/learn", **reader.documented("learn", LearnAnswer, 202))
    async def learn(request: Request) -> Response:
        """Teach labelled examples, one or many. The answer comes when they are durable."""
        accepted = await done(service.learn(await reader.examples(request)))
        return taught(accepted)

    @teaching.post("/v1/label", **reader.documented("label", LearnAnswer, 202))
    async def label(request: Request) -> Response:
        """Tell the true labels of predictions that were made before; they are taught, and the answers counted."""
        accepted = await done(service.tell(await reader.truths(request)))
        return taught(accepted)

    @asking.post("/v1/predict", **reader.documented("predict", PredictAnswer, 200))
    async def predict(request: Request) -> Response:
        """Labels with probabilities, from the newest snapshot."""
        asked = await reader.question(request)
        if len(asked.samples) * service.seconds_a_sample < QUICK:  # handing it to another thread would take longer
            return as_json(answered(asked))
        return as_json(await asyncio.get_running_loop().run_in_executor(askers, answered, asked))

    def answered(asked: Question) -> dict[str, Any]:
        version, given = service.predict(asked.samples, asked.top)
        ids: Sequence[str | None] = [None] * len(given)
        if asked.keep and service.config.limits.predictions:
            with suppress(JournalError):  # the answer is good all the same
                ids = service.remember(asked.samples, version, given)
        predictions = [{"id": id, **each.as_dict()} for id, each in zip(ids, given, strict=True)]
        return {"version": version, "predictions": predictions}

    def taught(accepted: Sequence[Accepted]) -> Response:
        new = sum(each.new for each in accepted)
        counts = {"accepted": new, "repeated": len(accepted) - new, "waiting": service.waiting}
        return as_json({**counts, "ids": [each.id for each in accepted]}, 202)

    return [teaching, asking]


def admin_routes(service: Service, router_for: RouterFor) -> list[APIRouter]:
    router = router_for("admin")
    note = {"requestBody": {"content": {"application/json": {"schema": Note.model_json_schema()}}}}

    @router.delete("/v1/examples/{id}", **answers(ForgetAnswer, 404))
    async def forget(request: Request, id: str) -> Response:  # noqa: ARG001
        """Remove an example from journal and memory. What the weights learned from it stays."""
        forgotten = await done(service.forget(id))
        return as_json(asdict(forgotten))

    @router.get("/v1/versions", **answers(VersionsAnswer))
    async def versions(request: Request) -> Response:  # noqa: ARG001
        """The versions that are kept to go back to."""
        kept = await done(service.list_versions())
        return as_json({"current": service.published.version, "versions": [asdict(each) for each in kept]})

    @router.post("/v1/checkpoint", openapi_extra=note, **answers(VersionAnswer, 415))
    async def checkpoint(request: Request) -> Response:
        """Save a version now; it is kept longer than those made by themselves."""
        given = Note.model_validate_json(await read_json(request)) if await request.body() else Note()
        saved = await done(service.save(given.note))
        return as_json(asdict(saved))

    @router.post("/v1/versions/{number:int}/rollback", **answers(VersionAnswer, 404))
    async def rollback(request: Request, number: int) -> Response:  # noqa: ARG001
        """Go on from an earlier version; what was learned since is gone."""
        saved = await done(service.rollback(number))
        return as_json(asdict(saved))

    return [router]
