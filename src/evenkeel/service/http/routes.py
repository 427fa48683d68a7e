"""Routes for clients, who teach and query the model, and for admins, who manage it."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Literal

import torch
from fastapi import FastAPI, Request, Response

from evenkeel.service.examples import Accepted
from evenkeel.service.http.auth import TEACHES, needs
from evenkeel.service.http.logs import hash_of, note
from evenkeel.service.http.requests import Question, Reader
from evenkeel.service.http.responses import as_json, done, errors
from evenkeel.service.http.schemas import (
    Batch,
    ForgetAnswer,
    Ids,
    LearnAnswer,
    Note,
    PredictAnswer,
    SettledAnswer,
    TruthOrTruths,
    Truths,
    VersionsAnswer,
)
from evenkeel.service.service import Service
from evenkeel.service.store.aside import SetAside
from evenkeel.service.store.forgotten import Forgotten
from evenkeel.service.store.journal import JournalError
from evenkeel.service.store.version_rows import Version

QUICK = 0.002  # seconds for which a prediction may block the event loop


def add_client_routes(app: FastAPI, service: Service) -> None:
    """Add the routes for teaching and for predicting. Those that take samples read their bodies themselves."""
    reader = Reader(service.config)
    threads = service.config.threads or torch.get_num_threads()
    predictors = ThreadPoolExecutor(2, "predictor", initializer=torch.set_num_threads, initargs=(threads,))
    teaching: dict[str, Any] = {
        "dependencies": [needs("learn"), TEACHES],
        "status_code": 202,
        "response_model": LearnAnswer,
    }
    predicting: dict[str, Any] = {"dependencies": [needs("predict")], "response_model": PredictAnswer}

    @app.post("/v1/learn", **teaching, responses=errors(409), openapi_extra=reader.described("learn"))
    async def learn(request: Request) -> Response:
        """Teach labelled examples, one or many. The response comes when they are durable."""
        accepted = await done(service.learn(await reader.examples(request)))
        return acknowledgement(request, accepted)

    @app.post("/v1/label", **teaching, responses=errors(404, 409))
    async def label(request: Request, truths: TruthOrTruths) -> Response:
        """Submit the true labels of earlier predictions. They are taught, and count towards the accuracy."""
        listed = truths.labels if isinstance(truths, Truths) else [truths]
        accepted = await done(service.tell([(each.id, each.label) for each in listed]))
        return acknowledgement(request, accepted)

    @app.post("/v1/predict", **predicting, responses=errors(409), openapi_extra=reader.described("predict"))
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

    def acknowledgement(request: Request, accepted: Sequence[Accepted]) -> Response:
        new = sum(each.new for each in accepted)
        note(request.scope, examples=new, repeated=len(accepted) - new)
        counts = {"accepted": new, "repeated": len(accepted) - new, "waiting": service.waiting}
        return as_json({**counts, "ids": [each.id for each in accepted]}, 202)


def add_admin_routes(app: FastAPI, service: Service) -> None:
    """Add the routes for admins."""
    admin = [needs("admin")]

    @app.delete("/v1/examples/{id}", dependencies=admin, response_model=Forgotten, responses=errors(404))
    async def forget(request: Request, id: str) -> Any:
        """Remove an example from journal and memory. What the weights learned from it remains."""
        note(request.scope, ids=[hash_of(id)])
        return await done(await asyncio.to_thread(service.forget, id))

    @app.post("/v1/forget", dependencies=admin, response_model=ForgetAnswer)
    async def forget_many(request: Request, ids: Ids) -> Any:
        """Remove many examples in one pass; learning continues meanwhile. Safe to repeat: the answer is the same."""
        answers = await done(await asyncio.to_thread(service.forget_all, ids.ids))  # it empties a log before it begins
        forgotten = {id: answer for id, answer in answers.items() if answer is not None}
        note(request.scope, ids=[hash_of(id) for id in forgotten])
        return {"forgotten": forgotten, "unknown": [id for id in answers if id not in forgotten]}

    @app.get("/v1/set-aside", dependencies=admin, response_model=list[SetAside])
    async def set_aside() -> Any:
        """List the examples that could not be learned, by batch."""
        return await done(service.list_aside())

    @app.post("/v1/set-aside/{command}", dependencies=admin, response_model=SettledAnswer, responses=errors(404))
    async def settle_aside(request: Request, command: Literal["retry", "drop"], batch: Batch | None = None) -> Any:
        """Learn examples that were set aside after all, or drop them: those of one batch, or all."""
        settled = await done(service.settle_aside(command, batch))
        note(request.scope, command=command, batch=batch, examples=settled)
        return {"examples": settled}

    @app.get("/v1/versions", dependencies=admin, response_model=VersionsAnswer)
    async def versions() -> Any:
        """List the versions that are kept to roll back to."""
        return {"current": service.published.version, "versions": await done(service.list_versions())}

    @app.post("/v1/checkpoint", dependencies=admin, response_model=Version)
    async def checkpoint(request: Request, body: Note | None = None) -> Any:
        """Save a version now; it is kept longer than automatic ones."""
        version = await done(service.save(body.note if body else ""))
        note(request.scope, version=version.number)
        return version

    @app.post("/v1/versions/{number:int}/rollback", dependencies=admin, response_model=Version, responses=errors(404))
    async def rollback(request: Request, number: int) -> Any:
        """Resume from an earlier version; what was learned since is lost."""
        version = await done(service.rollback(number))
        note(request.scope, back_to=number, version=version.number)
        return version
