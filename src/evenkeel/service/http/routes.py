"""Routes for clients, who teach and query the model, and for admins, who manage it."""

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

QUICK = 0.002  # seconds for which a prediction may block the event loop


def client_routes(service: Service, router_for: RouterFor) -> list[APIRouter]:
    """Return the routers for teaching and for predicting."""
    teaching, predicting, reader = router_for("learn"), router_for("predict"), Reader(service.config)
    threads = service.config.threads or torch.get_num_threads()
    predictors = ThreadPoolExecutor(2, "predictor", initializer=torch.set_num_threads, initargs=(threads,))

    @teaching.post("/v1/learn", **reader.documented("learn", LearnAnswer, 202))
    async def learn(request: Request) -> Response:
        """Teach labelled examples, one or many. The response comes when they are durable."""
        accepted = await done(service.learn(await reader.examples(request)))
        return acknowledgement(accepted)

    @teaching.post("/v1/label", **reader.documented("label", LearnAnswer, 202))
    async def label(request: Request) -> Response:
        """Submit the true labels of earlier predictions. They are taught, and count towards the accuracy."""
        accepted = await done(service.tell(await reader.truths(request)))
        return acknowledgement(accepted)

    @predicting.post("/v1/predict", **reader.documented("predict", PredictAnswer, 200))
    async def predict(request: Request) -> Response:
        """Predict labels with probabilities, from the newest snapshot."""
        question = await reader.question(request)
        if len(question.samples) * service.seconds_a_sample < QUICK:  # handing it to another thread would take longer
            return as_json(answer(question))
        return as_json(await asyncio.get_running_loop().run_in_executor(predictors, answer, question))

    def answer(question: Question) -> dict[str, Any]:
        version, predicted = service.predict(question.samples, question.top)
        ids: Sequence[str | None] = [None] * len(predicted)
        if question.keep and service.config.limits.predictions:
            with suppress(JournalError):  # the prediction is valid even if it cannot be kept
                ids = service.remember(question.samples, version, predicted)
        predictions = [{"id": id, **each.as_dict()} for id, each in zip(ids, predicted, strict=True)]
        return {"version": version, "predictions": predictions}

    def acknowledgement(accepted: Sequence[Accepted]) -> Response:
        new = sum(each.new for each in accepted)
        counts = {"accepted": new, "repeated": len(accepted) - new, "waiting": service.waiting}
        return as_json({**counts, "ids": [each.id for each in accepted]}, 202)

    return [teaching, predicting]


def admin_routes(service: Service, router_for: RouterFor) -> list[APIRouter]:
    """Return the router for admins."""
    router = router_for("admin")
    note = {"requestBody": {"content": {"application/json": {"schema": Note.model_json_schema()}}}}

    @router.delete("/v1/examples/{id}", **answers(ForgetAnswer, 404))
    async def forget(request: Request, id: str) -> Response:  # noqa: ARG001
        """Remove an example from journal and memory. What the weights learned from it remains."""
        forgotten = await done(service.forget(id))
        return as_json(asdict(forgotten))

    @router.get("/v1/versions", **answers(VersionsAnswer))
    async def versions(request: Request) -> Response:  # noqa: ARG001
        """List the versions that are kept to roll back to."""
        kept = await done(service.list_versions())
        return as_json({"current": service.published.version, "versions": [asdict(each) for each in kept]})

    @router.post("/v1/checkpoint", openapi_extra=note, **answers(VersionAnswer, 415))
    async def checkpoint(request: Request) -> Response:
        """Save a version now; it is kept longer than automatic ones."""
        body = Note.model_validate_json(await read_json(request)) if await request.body() else Note()
        saved = await done(service.save(body.note))
        return as_json(asdict(saved))

    @router.post("/v1/versions/{number:int}/rollback", **answers(VersionAnswer, 404))
    async def rollback(request: Request, number: int) -> Response:  # noqa: ARG001
        """Resume from an earlier version; what was learned since is lost."""
        saved = await done(service.rollback(number))
        return as_json(asdict(saved))

    return [router]
