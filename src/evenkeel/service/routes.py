"""The routes by which clients teach and ask, and admins look after the model."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import torch
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from evenkeel.service.answers import answers, done
from evenkeel.service.journal import JournalError
from evenkeel.service.reading import Reader
from evenkeel.service.schemas import ForgetAnswer, LearnAnswer, Note, PredictAnswer, VersionAnswer, VersionsAnswer
from evenkeel.service.service import Accepted, Answer, Service

May = Callable[[str], list[Any]]  # dependencies that let only bearers of a scope pass


def client_routes(service: Service, may: May) -> APIRouter:
    router, reader = APIRouter(), Reader(service.config)
    threads = service.config.threads or torch.get_num_threads()
    askers = ThreadPoolExecutor(2, "asker", initializer=torch.set_num_threads, initargs=(threads,))

    @router.post("/v1/learn", dependencies=may("learn"), **reader.documented("learn", LearnAnswer, 202))
    async def learn(request: Request) -> Response:
        """Teach labelled examples, one or many. The answer comes when they are durable."""
        accepted = await done(service.learn(await reader.examples(request)))
        return taught(accepted)

    @router.post("/v1/label", dependencies=may("learn"), **reader.documented("label", LearnAnswer, 202))
    async def label(request: Request) -> Response:
        """Tell the true labels of predictions that were made before; they are taught, and the answers counted."""
        accepted = await done(service.tell(await reader.truths(request)))
        return taught(accepted)

    @router.post("/v1/predict", dependencies=may("predict"), **reader.documented("predict", PredictAnswer, 200))
    async def predict(request: Request) -> Response:
        """Labels with probabilities, from the newest snapshot."""
        asked = await reader.question(request)
        loop = asyncio.get_running_loop()
        version, given = await loop.run_in_executor(askers, service.predict, asked.samples, asked.top)
        ids: Sequence[str | None] = [None] * len(given)
        if asked.keep:
            with suppress(JournalError):  # the answer is good all the same
                kept = await done(service.remember(asked.samples, version, given))
                ids = kept
        return JSONResponse({"version": version, "predictions": list(map(_told, given, ids))})

    def taught(accepted: Sequence[Accepted]) -> Response:
        new = sum(each.new for each in accepted)
        counts = {"accepted": new, "repeated": len(accepted) - new, "waiting": service.waiting}
        return JSONResponse({**counts, "ids": [each.id for each in accepted]}, 202)

    return router


def admin_routes(service: Service, may: May) -> APIRouter:
    router = APIRouter()

    @router.delete("/v1/examples/{id}", dependencies=may("admin"), **answers(ForgetAnswer, 404))
    async def forget(id: str) -> Response:
        """Remove an example from journal and memory. What the weights learned from it stays."""
        forgotten = await done(service.forget(id))
        return JSONResponse(asdict(forgotten))

    @router.get("/v1/versions", dependencies=may("admin"), **answers(VersionsAnswer))
    async def versions() -> Response:
        """The versions that are kept to go back to."""
        kept = await done(service.list_versions())
        return JSONResponse({"current": service.published.version, "versions": [asdict(each) for each in kept]})

    @router.post("/v1/checkpoint", dependencies=may("admin"), **answers(VersionAnswer))
    async def checkpoint(note: Note | None = None) -> Response:
        """Save a version now; it is kept longer than those made by themselves."""
        saved = await done(service.save(note.note if note else ""))
        return JSONResponse(asdict(saved))

    @router.post("/v1/versions/{number}/rollback", dependencies=may("admin"), **answers(VersionAnswer, 404))
    async def rollback(number: int) -> Response:
        """Go on from an earlier version; what was learned since is gone."""
        saved = await done(service.rollback(number))
        return JSONResponse(asdict(saved))

    return router


def _told(answer: Answer, id: str | None) -> dict[str, Any]:
    likely = [{"label": label, "probability": probability} for label, probability in answer.probabilities]
    return {"id": id, "label": answer.label, "probabilities": likely}
