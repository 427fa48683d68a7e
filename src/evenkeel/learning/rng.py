"""Randomness: named generators that all come from one seed.

Each user of chance has a generator of its own, so that adding one (an adaptor, say) does not move the others: ER and
ER+CBA of one seed see the same augmentations and the same memory draws. All states are part of a checkpoint.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

GENERATORS = ("augment", "draw", "grow", "memory", "method", "net", "query")
"""augment: views of the training groups; draw: replay; grow: weights of new outputs; memory: what is kept; method: the
method's own; net: dropout and the like inside the network; query: everything the adaptor's outer step draws."""


def derive(seed: int, name: str) -> int:
    """A seed for `name`, unrelated to that of any other name.

    >>> derive(0, "draw") != derive(0, "augment") != derive(1, "augment")
    True
    """
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:4], "big")


def make_generator(seed: int, name: str) -> torch.Generator:
    return torch.Generator().manual_seed(derive(seed, name))


class Generators:
    """The generators of one learner, by name.

    >>> generators = Generators(seed=0)
    >>> before = generators.state_dict()
    >>> drawn = torch.rand(3, generator=generators["draw"])
    >>> generators.load_state_dict(before)
    >>> bool((torch.rand(3, generator=generators["draw"]) == drawn).all())
    True
    """

    def __init__(self, seed: int) -> None:
        self._generators = {name: make_generator(seed, name) for name in GENERATORS}

    def __getitem__(self, name: str) -> torch.Generator:
        return self._generators[name]

    def state_dict(self) -> dict[str, Tensor]:
        return {name: generator.get_state() for name, generator in self._generators.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        for name, generator in self._generators.items():
            generator.set_state(state[name])


def next_seed(generator: torch.Generator) -> int:
    return int(torch.randint(2**32, (), generator=generator))


@contextmanager
def global_seed(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch's global generator for code that can use no other (default initialisation, dropout), then put it back.

    torch.random.fork_rng does the same at a cost that counts in a step.
    """
    generators = [torch.default_generator]
    if device is not None and device.type == "cuda":
        generators.append(torch.cuda.default_generators[device.index or 0])
    before = [generator.get_state() for generator in generators]
    for generator in generators:
        generator.manual_seed(seed)
    try:
        yield
    finally:
        for generator, state in zip(generators, before, strict=True):
            generator.set_state(state)
