"""Randomness: named generators, all derived from one seed.

Each consumer of random numbers has its own generator, so that adding one (an adaptor, say) does not affect the others:
ER and ER+CBA with one seed see the same augmentations and memory draws. All states are part of a checkpoint.
"""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

GENERATORS = ("augment", "draw", "grow", "memory", "method", "net", "query")
"""augment: views of the training groups; draw: replay; grow: weights of new outputs; memory: which samples are
kept; method: the method's own; net: dropout and the like inside the network; query: all draws of the adaptor's outer
step."""


def derive(seed: int, name: str) -> int:
    """Return a seed for `name`, unrelated to that of any other name.

    >>> derive(0, "draw") != derive(0, "augment") != derive(1, "augment")
    True
    """
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:4], "big")


def make_generator(seed: int, name: str) -> torch.Generator:
    """Return a new generator for `name`."""
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
    """Draw a seed from the generator."""
    return int(torch.randint(2**32, (), generator=generator))


def sample_without_replacement(population: int, count: int, generator: torch.Generator) -> Tensor:
    """Return (min(count, population),) different numbers below `population`, in random order."""
    if population <= 50 * count:
        return torch.randperm(population, generator=generator)[:count]
    # The population is much larger than the sample: draw until enough are different instead of shuffling it all.
    chosen: dict[int, None] = {}
    while len(chosen) < count:
        chosen.update(dict.fromkeys(torch.randint(population, (count,), generator=generator).tolist()))
    return torch.tensor(list(chosen)[:count], dtype=torch.int64)


class global_seed:  # noqa: N801 - used like a function
    """Seed torch's global generator for code that can use no other (default initialisation, dropout), then restore it.

    torch.random.fork_rng does the same, but is too slow to call in every step; so is a generator function.
    """

    def __init__(self, seed: int, device: torch.device | None = None) -> None:
        self._seed = seed
        self._generators = [torch.default_generator]
        if device is not None and device.type == "cuda":
            self._generators.append(torch.cuda.default_generators[device.index or 0])

    def __enter__(self) -> None:
        self._before = [generator.get_state() for generator in self._generators]
        for generator in self._generators:
            generator.manual_seed(self._seed)

    def __exit__(self, *_: object) -> None:
        for generator, state in zip(self._generators, self._before, strict=True):
            generator.set_state(state)
