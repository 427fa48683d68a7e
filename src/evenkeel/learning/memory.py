"""The memory: columns of tensors, a policy that decides which samples stay, draws without replacement.

Every sample gets a random priority when it arrives, and the memory keeps the highest. That is an exact reservoir:
each set of `capacity` samples of the stream is equally likely, however the stream is split into batches. The highest
priority ever rejected is a bar that later samples must pass, even after removals have made room.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from evenkeel.errors import CheckpointError, InputError, SettingsError, fraction, one_of, whole_number
from evenkeel.learning.hashing import hash_key, hash_samples
from evenkeel.learning.registry import call_text
from evenkeel.learning.rng import next_seed
from evenkeel.learning.types import Draw

POLICIES = ("reservoir", "balanced")
OWN_COLUMNS = ("x", "y", "key", "priority")
_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


class Memory:
    """A bounded store of samples.

    `capacity` is a number of samples or an amount of bytes ("8MB"). `policy`: "reservoir" keeps a uniform sample of the
    stream; "balanced" gives every class an equal share (what a rare class cannot fill goes to the others) and keeps a
    uniform sample of each class. `held_out`: this share of the capacity is a separate balanced memory, `held`, for
    samples that are never trained on.

    >>> memory = Memory(2)
    >>> generator = torch.Generator().manual_seed(0)
    >>> memory.insert({"x": torch.arange(5.), "y": torch.tensor([0, 0, 1, 1, 1])}, generator)
    >>> len(memory), memory.seen, memory.draw(10, generator)["x"].shape
    (2, 5, torch.Size([2]))
    """

    def __init__(self, capacity: int | str, *, policy: str = "reservoir", held_out: float = 0.0) -> None:
        one_of("policy", policy, POLICIES)
        self.capacity = capacity
        self.policy = policy
        self.held_out = fraction("held_out", held_out)
        self._bytes = parse_bytes(capacity) if isinstance(capacity, str) else None
        # The number of slots of a memory in bytes is known only with the first sample.
        self.slots = 0 if isinstance(capacity, str) else whole_number("memory", capacity, at_least=1)
        self.held: Memory | None = self._split_held_out() if held_out else None
        self.to_network: Callable[[Tensor], Tensor] = torch.clone  # stored samples to network input; set by a learner
        self.version = 0  # increases with each change
        self._salt: int | None = None  # of the hash that chooses the samples to hold out
        self._spared = torch.zeros(0, dtype=torch.int64)  # hashes of samples not held out because their class was new
        self.seen = 0
        self._filled = 0
        self._columns: dict[str, Tensor] = {}
        self._bars = torch.full((1,), -1.0, dtype=torch.float64)  # (groups,) highest priority rejected

    def __repr__(self) -> str:
        return call_text(self)

    def __len__(self) -> int:
        """Return the number of samples to train on; those held out are not counted."""
        return self._filled

    @property
    def parts(self) -> "list[Memory]":
        """Return this memory and, if there is one, its held-out part."""
        return [self] if self.held is None else [self, self.held]

    @property
    def nbytes(self) -> int:
        """Return the bytes of the columns, filled or not."""
        return sum(column.nbytes for part in self.parts for column in part._columns.values())

    def column(self, name: str) -> Tensor:
        """Return (len(self), ...) a view of the filled rows of column `name`."""
        return self._columns[name][: self._filled]

    def samples(self, rows: Tensor | slice = slice(None)) -> Draw:
        """Return stored samples as network input, without augmentation."""
        return Draw(self.to_network(self.column("x")[rows].clone()), self.column("y")[rows])

    @property
    def extra_columns(self) -> set[str] | None:
        """Return the columns that a method stores in addition to ours; None before the first sample."""
        return self._columns.keys() - set(OWN_COLUMNS) if self._columns else None

    def require_room(self, x: Tensor) -> None:
        """Raise InputError if a sample like those of `x` is larger than the memory, or than one of its parts."""
        needed = x[:1].nbytes + 3 * 8  # with its output, key and priority
        if any(part._bytes is not None and needed > part._bytes for part in self.parts):
            share = f", of which it holds out {self.held_out}," if self.held_out else ""
            raise InputError(f"memory={self.capacity!r}{share} cannot hold one sample, which takes {needed:,} bytes.")

    def insert(self, rows: Mapping[str, Tensor], generator: torch.Generator) -> None:
        """Offer a batch of rows. `rows["y"]` holds their outputs, `rows["key"]`, if given, the keys for `remove`."""
        y = rows["y"]
        priority = torch.rand(len(y), dtype=torch.float64, generator=generator)
        offered = {"key": torch.zeros_like(y)} | dict(rows) | {"priority": priority.to(y.device)}
        if not self._columns:
            self._allocate(offered)
        self.version += 1
        self.seen += len(y)
        group = self._group(y)
        self._widen_bars(group)
        fresh = (offered["priority"] > self._bars.to(y.device)[group]).nonzero().flatten()
        wanted = self._filled + len(fresh)
        slots = torch.arange(self._filled, wanted, device=y.device)
        if wanted > self.slots:
            pool_priority = torch.cat([self.column("priority"), offered["priority"][fresh]])
            pool_group = torch.cat([self._group(self.column("y")), group[fresh]])
            kept = torch.ones(wanted, dtype=torch.bool, device=y.device)
            kept[self._reject(pool_group, pool_priority, wanted - self.slots)] = False
            fresh = fresh[kept[self._filled :]]
            holes = (~kept[: self._filled]).nonzero().flatten()
            slots = torch.cat([holes, torch.arange(self._filled, self.slots, device=y.device)])
        for name, column in self._columns.items():
            column[slots] = offered[name][fresh]
        self._filled = min(self.slots, wanted)

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Return `count` different rows, drawn uniformly; all rows, in random order, if there are fewer."""
        picked = sample_without_replacement(self._filled, count, generator)
        return {
            name: column[picked.to(column.device)]
            for name, column in self._columns.items()
            if name not in ("key", "priority")
        }

    def choose_held_out(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        """Return (samples,) which of an incoming batch to hold out: at random, but none of a class not trained on yet.

        The choice is a hash of the sample with a salt drawn once, so that a sample that returns in another pass over
        the data is on the same side again. Samples spared because their class was new are remembered as such.
        """
        if self.held is None:
            return torch.zeros_like(y, dtype=torch.bool)
        if self._salt is None:
            self._salt = next_seed(generator)
        hashes = hash_samples(x, self._salt)
        chosen = ((hashes & (2**52 - 1)) < self.held_out * 2**52) & ~torch.isin(hashes, self._spared.to(hashes.device))
        trained = torch.zeros_like(chosen)
        for part in self.parts:
            if len(part):
                trained |= torch.isin(y, part.column("y"))
        self._spared = torch.cat([self._spared, hashes[chosen & ~trained].cpu()])
        return chosen & trained

    def prefer(self, rows: Tensor) -> None:
        """Make these rows of one class leave memory in reverse order, the last first.

        They exchange their priorities, so nothing changes for later samples.
        """
        self.version += 1
        priority = self._columns["priority"]
        priority[rows] = priority[rows].sort(descending=True).values

    def remove(self, key: object) -> int:
        """Delete every sample stored under `key`, overwriting its bytes, and return how many there were."""
        held_out = 0 if self.held is None else self.held.remove(key)
        if not self._columns:
            return held_out
        gone = self.column("key") == hash_key(key)
        if len(self) == self.slots and bool(gone.any()):
            self._raise_bars()
        self._delete(gone.nonzero().flatten())
        return held_out + int(gone.sum())

    def widen(self, name: str, width: int) -> None:
        """Widen a column of logits. For classes unknown when it was stored, a sample gets the lowest of its logits."""
        if name not in self._columns:
            return
        old = self._columns[name]
        new = old.new_zeros(self.slots, width)
        new[: self._filled, : old.shape[1]] = old[: self._filled]
        new[: self._filled, old.shape[1] :] = old[: self._filled].min(dim=1, keepdim=True).values
        self._columns[name] = new
        if self._bytes is not None:
            self._shrink(max(1, self._bytes // self._row_bytes()))

    def state_dict(self) -> dict[str, Any]:
        columns = {name: self.column(name).clone() for name in self._columns}
        held = None if self.held is None else self.held.state_dict()  # an empty memory is false
        choice = {"held": held, "salt": self._salt, "spared": self._spared.clone()} if held is not None else {}
        return {"columns": columns, "bars": self._bars.clone(), "seen": self.seen, "slots": self.slots, **choice}

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device | None = None) -> None:
        columns: Mapping[str, Tensor] = {name: column.to(device) for name, column in state["columns"].items()}
        if self._bytes is None and self.slots != state["slots"]:
            raise CheckpointError(
                f"The memory has {self.slots} slots, but that of the checkpoint has {state['slots']}."
            )
        self.seen, self.slots, self._bars = int(state["seen"]), int(state["slots"]), state["bars"].clone()
        self._filled = len(columns["y"]) if columns else 0
        self._columns = {name: self._empty(column) for name, column in columns.items()}
        for name, column in columns.items():
            self._columns[name][: self._filled] = column
        self.version += 1
        if self.held is not None:
            self.held.load_state_dict(state["held"], device)
            self._salt, self._spared = state["salt"], state["spared"].clone()

    def _split_held_out(self) -> "Memory":
        """Split off the held-out part with its share of the slots or bytes."""
        if self._bytes is not None:
            taken = max(1, int(self._bytes * self.held_out))
            self._bytes -= taken
            return Memory(f"{taken}B", policy="balanced")
        taken = max(1, round(self.slots * self.held_out))
        if taken >= self.slots:
            raise SettingsError(
                f"memory={self.capacity}: held_out={self.held_out} of it leaves no sample to train on; make it larger."
            )
        self.slots -= taken
        return Memory(taken, policy="balanced")

    def _allocate(self, rows: Mapping[str, Tensor]) -> None:
        if self._bytes is not None:
            self.slots = max(1, self._bytes // sum(column[:1].nbytes for column in rows.values()))
        self._columns = {name: self._empty(column) for name, column in rows.items()}

    def _empty(self, like: Tensor) -> Tensor:
        return like.new_empty((self.slots, *like.shape[1:]))

    def _row_bytes(self) -> int:
        return sum(column.nbytes for column in self._columns.values()) // self.slots

    def _group(self, y: Tensor) -> Tensor:
        """Return the group in which a row competes: one for all rows, or one per class."""
        return y if self.policy == "balanced" else torch.zeros_like(y)

    def _widen_bars(self, group: Tensor) -> None:
        missing = int(group.max()) + 1 - len(self._bars)
        if missing > 0:
            self._bars = torch.cat([self._bars, torch.full((missing,), -1.0, dtype=torch.float64)])

    def _raise_bars(self) -> None:
        """Raise the bars to the lowest kept priority, before samples leave a full memory.

        Later samples are then as likely to be kept as earlier ones, up to one part in the number of samples seen.
        """
        group, priority = self._group(self.column("y")).cpu(), self.column("priority").cpu()
        lowest = torch.full_like(self._bars, torch.inf).scatter_reduce_(0, group, priority, "amin")
        competing = (self._bars >= 0) & lowest.isfinite()
        self._bars[competing] = lowest[competing]

    def _reject(self, group: Tensor, priority: Tensor, count: int) -> Tensor:
        """Return (count,) the rows that must go, and raise the bars accordingly."""
        if self.policy == "reservoir":
            rejected = priority.topk(count, largest=False).indices
        else:
            # Each class in turn contributes its best, second-best, ... row; the last ones in that order go.
            by_priority = priority.argsort(descending=True)
            by_class = by_priority[group[by_priority].argsort(stable=True)]
            first = torch.searchsorted(group[by_class], group[by_class])
            rank = torch.empty_like(group)
            rank[by_class] = torch.arange(len(group), device=group.device) - first
            rejected = by_priority[rank[by_priority].argsort(stable=True)][-count:]
        self._bars.scatter_reduce_(0, group[rejected].cpu(), priority[rejected].cpu(), "amax")
        return rejected

    def _delete(self, gone: Tensor) -> None:
        """Delete rows and fill the holes from the end, so that the columns are never copied."""
        self.version += 1
        kept = self._filled - len(gone)
        stays = torch.ones(self._filled, dtype=torch.bool, device=gone.device)
        stays[gone] = False
        holes, movers = gone[gone < kept], stays[kept:].nonzero().flatten() + kept
        for column in self._columns.values():
            column[holes] = column[movers]
            column[kept : self._filled] = 0
        self._filled = kept

    def _shrink(self, slots: int) -> None:
        if slots < self._filled:
            group, priority = self._group(self.column("y")), self.column("priority")
            self._delete(self._reject(group, priority, self._filled - slots).sort().values)
        if slots < self.slots:
            self._columns = {name: column[:slots].clone() for name, column in self._columns.items()}
            self.slots = slots


MEMORIES: dict[str, type[Memory]] = {"memory": Memory}


def sample_without_replacement(population: int, count: int, generator: torch.Generator) -> Tensor:
    """Return (min(count, population),) different numbers below `population`, in random order."""
    if population <= 50 * count:
        return torch.randperm(population, generator=generator)[:count]
    # The population is much larger than the sample: draw until enough are different instead of shuffling it all.
    chosen: dict[int, None] = {}
    while len(chosen) < count:
        chosen.update(dict.fromkeys(torch.randint(population, (count,), generator=generator).tolist()))
    return torch.tensor(list(chosen)[:count], dtype=torch.int64)


def parse_bytes(text: str) -> int:
    """Return the number of bytes that `text` stands for; raise SettingsError if it is not an amount of bytes.

    >>> parse_bytes("8MB"), parse_bytes("1.5 KiB")
    (8000000, 1536)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", text)
    size = 0 if match is None else int(float(match[1]) * _UNITS.get(match[2].upper(), 0))
    if not size:
        raise SettingsError(
            f"memory={text!r} is neither a number of samples nor an amount of bytes such as '8MB' or '512KiB'."
        )
    return size
