"""What clients exchange with a service: examples, answers, ids, and the error of a full queue."""

import hashlib
import itertools
import json
import secrets
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenkeel.errors import EvenkeelError


class FullError(EvenkeelError):
    """The queue has no room for so many examples, or the oldest has waited too long; try again after `seconds`."""

    def __init__(self, waiting: int, seconds: int, examples: int = 1, *, hours: float | None = None) -> None:
        why = "The queue is full:" if hours is None else f"The oldest example has waited for {hours:.1f} hours:"
        super().__init__(f"{why} {waiting:,} examples are waiting to be learned. Retry in {seconds} s.")
        self.seconds, self.examples = seconds, examples


@dataclass(frozen=True)
class Example:
    """A labelled sample, from a client's request to its row in the journal and to the learner."""

    x: bytes  # packed for the journal
    label: Hashable
    id: str = ""  # empty until the service has chosen one
    digest: bytes = b""  # of what is sent, if the client knows the id and so may send it again

    def named(self, id: str) -> "Example":
        """Return the example with a digest if the client chose its id, else with this id."""
        if self.id:
            return Example(self.x, self.label, self.id, digest(self.x, self.label))
        return Example(self.x, self.label, id)


def digest(x: bytes, label: Hashable) -> bytes:
    """Return a hash of a sample and its label, by which a repeated example is recognized."""
    return hashlib.blake2b(json.dumps(label).encode() + b"\0" + x, digest_size=16).digest()


@dataclass(frozen=True)
class Accepted:
    """The acknowledgement of an example."""

    id: str
    new: bool  # not sent before
    right: bool | None = None  # whether the prediction it labels was correct


@dataclass(frozen=True)
class Answer:
    """The predicted label of a sample, and the probabilities of the most likely labels."""

    label: Hashable
    probabilities: list[tuple[Hashable, float]]  # the likeliest first

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as clients get it."""
        likely = [{"label": label, "probability": probability} for label, probability in self.probabilities]
        return {"label": self.label, "probabilities": likely}


def likeliest(classes: Sequence[Hashable], probabilities: NDArray[np.float64], top: int) -> list[Answer]:
    """Return the `top` most likely labels of each row."""
    order = (-probabilities).argsort(axis=1, kind="stable")[:, :top]
    return [
        Answer(classes[places[0]], [(classes[place], row[place]) for place in places])
        for row, places in zip(probabilities.tolist(), order.tolist(), strict=True)
    ]


class Names:
    """A source of unique ids that cannot be guessed.

    They are derived from one secret: a system call for each would take longer than everything else.
    """

    def __init__(self) -> None:
        self._secret, self._numbers = secrets.token_bytes(32), itertools.count()

    def new(self, count: int) -> list[str]:
        """Return this many new ids."""
        base = hashlib.blake2b(b"%d" % next(self._numbers), key=self._secret, digest_size=16).hexdigest()
        return [base] if count == 1 else [f"{base}-{place}" for place in range(count)]
