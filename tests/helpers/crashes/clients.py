"""Clients that teach, predict and label until they are stopped, and remember what was acknowledged."""

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

FEATURES, CLASSES = 12, 6
PAUSE = 0.4  # seconds between requests, at most
LATER = (429, 503)  # the client is to try again


@dataclass
class Clients:
    """Two that teach and one that predicts and labels; `request` is for everyone else."""

    url: str
    seed: int
    requests: int  # of each client, at most
    stopping: threading.Event = field(default_factory=threading.Event)
    samples: dict[str, tuple[list[float], int]] = field(default_factory=dict)  # of every id ever sent
    acknowledged: set[str] = field(default_factory=set)
    labelled: set[str] = field(default_factory=set)
    predicted: int = 0
    errors: list[str] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        clients: list[tuple[Callable[..., None], int]] = [(self._teach, 0), (self._teach, 1), (self._predict, 2)]
        self._threads = [threading.Thread(target=self._with_client, args=each, daemon=True) for each in clients]
        for thread in self._threads:
            thread.start()

    def wait_for_more(self) -> None:
        """Wait until both examples and labels are acknowledged again, or there are no more to come."""
        taught, labelled = len(self.acknowledged), len(self.labelled)
        while any(thread.is_alive() for thread in self._threads):
            if len(self.acknowledged) > taught and len(self.labelled) > labelled:
                return
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop when the requests under way are answered."""
        self.stopping.set()
        for thread in self._threads:
            thread.join()
        assert not self.errors, self.errors[:3]

    @property
    def known(self) -> set[str]:
        """Return the ids of all examples that were acknowledged."""
        return self.acknowledged | self.labelled

    def bytes_of(self, id: str) -> bytes:
        """Return the sample that was sent under an id, as the service keeps it."""
        return np.array(self.samples[id][0], dtype=np.float32).tobytes()

    def request(self, method: str, path: str, body: Any = None, *, fine: tuple[int, ...] = ()) -> Any:
        """Send a request until it is answered, and return the content; None if the status is one of `fine`."""
        with httpx.Client(base_url=self.url, timeout=60, verify=False) as client:
            return self._insist(client, method, path, body, fine)

    def _with_client(self, work: "Callable[[httpx.Client, random.Random], None]", number: int) -> None:
        with httpx.Client(base_url=self.url, timeout=60, verify=False) as client:
            work(client, random.Random(self.seed * 100 + number))

    def _teach(self, client: httpx.Client, rng: random.Random) -> None:
        sent, name = 0, f"{rng.random():.12f}"[2:]
        for _ in self._turns():
            examples: list[dict[str, Any]] = []
            for _ in range(rng.randint(1, 24)):
                sent += 1
                id, (x, label) = f"{name}-{sent}", sample(rng, sent)
                self.samples[id] = x, label
                examples.append({"id": id, "x": x, "label": label})
            if self._insist(client, "POST", "/v1/learn", {"examples": examples}) is not None:
                self.acknowledged.update(each["id"] for each in examples)
            time.sleep(rng.uniform(0, PAUSE))

    def _turns(self) -> Iterator[int]:
        """Count the turns of a client until it is stopped, or has sent what it was to send."""
        return itertools.takewhile(lambda _: not self.stopping.is_set(), range(self.requests))

    def _predict(self, client: httpx.Client, rng: random.Random) -> None:
        for sent in self._turns():
            x, label = sample(rng, sent)
            answer = self._insist(client, "POST", "/v1/predict", {"x": x}, fine=(409,))  # nothing is learned yet
            if answer is None or answer["predictions"][0]["id"] is None:
                time.sleep(0.05)
                continue
            self.predicted += 1
            id = answer["predictions"][0]["id"]
            self.samples[id] = x, label
            if self._insist(client, "POST", "/v1/label", {"id": id, "label": label}) is not None:
                self.labelled.add(id)
            time.sleep(rng.uniform(0, PAUSE))

    def _insist(self, client: httpx.Client, method: str, path: str, body: Any, fine: tuple[int, ...] = ()) -> Any:
        """Send a request until there is a response, even if the load ends meanwhile; return its content."""
        while True:
            try:
                answer = client.request(method, path, json=body)
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            if answer.is_success:
                return answer.json()
            if answer.status_code not in LATER:
                if answer.status_code not in fine:
                    self.errors.append(f"{path}: {answer.status_code} {answer.text}")
                return None
            time.sleep(0.1)


def sample(rng: random.Random, step: int) -> tuple[list[float], int]:
    """Return a sample of one of two classes, which change every 500 steps: a stream that invites forgetting."""
    label = (2 * (step // 500) + rng.randrange(2)) % CLASSES
    return [rng.gauss(float(label == place % CLASSES), 0.5) for place in range(FEATURES)], label
