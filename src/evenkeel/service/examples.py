"""What clients exchange with a service: examples, answers, ids, and the errors of a full queue or an empty model."""

import hashlib
import itertools
import secrets
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenkeel.errors import EvenkeelError, InputError


class FullError(EvenkeelError):
    """The queue is full; there may be room after `seconds`."""

    def __init__(self, waiting: int, seconds: int) -> None:
        super().__init__(f"The queue is full: {waiting:,} examples are waiting to be learned. Retry in {seconds} s.")
        self.seconds = seconds


class NothingLearnedError(InputError):
    """There is no label to predict yet."""


@dataclass(frozen=True)
class Given:
    """An example as a client sent it, with its sample packed for the journal."""

    x: bytes
    label: Hashable
    id: str | None = None


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
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :top]
    return [
        Answer(classes[places[0]], [(classes[place], float(row[place])) for place in places])
        for row, places in zip(probabilities, order.tolist(), strict=True)
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
