"""The memory: columns of tensors, a policy that says which samples stay, draws without replacement.

Every sample is given a random priority when it arrives, and the memory keeps the highest. That is an exact reservoir:
each set of `capacity` samples of the stream is equally likely, however the stream is cut into batches. The highest
priority ever turned away is a bar that later samples must pass, also when removals have made room.
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
    uniform sample of each class. `held_out`: this share of the capacity is a memory of its own, `held`, balanced, for
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
        # Of a memory in bytes the number of slots is known only with the first sample.
        self.slots = 0 if isinstance(capacity, str) else whole_number("memory", capacity, at_least=1)
        self.held: Memory | None = self._part_apart() if held_out else None
        self.to_network: Callable[[Tensor], Tensor] = torch.clone  # from stored samples; a learner says how
        self.version = 0  # another number after each change
        self._salt: int | None = None  # of the choice what to hold out
        self._spared = torch.zeros(0, dtype=torch.int64)  # hashes of samples not held out because their class was new
        self.seen = 0
        self._filled = 0
        self._columns: dict[str, Tensor] = {}
        self._bars = torch.full((1,), -1.0, dtype=torch.float64)  # (groups,) highest priority turned away

    def __repr__(self) -> str:
        return call_text(self)

    def __len__(self) -> int:
        """Samples to train on; those held out are not counted."""
        return self._filled

    @property
    def parts(self) -> "list[Memory]":
        """This memory, and the one held out."""
        return [self] if self.held is None else [self, self.held]

    @property
    def nbytes(self) -> int:
        """Bytes of the columns, filled or not."""
        return sum(column.nbytes for part in self.parts for column in part._columns.values())

    def column(self, name: str) -> Tensor:
        """(len(self), ...) a view of what is stored under `name`."""
        return self._columns[name][: self._filled]

    def samples(self, rows: Tensor | slice = slice(None)) -> Draw:
        """Stored samples as the network takes them, without augmentation."""
        return Draw(self.to_network(self.column("x")[rows].clone()), self.column("y")[rows])

    @property
    def extra_columns(self) -> set[str] | None:
        """The columns that a method stores beside ours; None before the first sample."""
        return self._columns.keys() - set(OWN_COLUMNS) if self._columns else None

    def require_room(self, x: Tensor) -> None:
        """An InputError if not even one sample like those of `x` fits into the bytes given, or into each part."""
        needed = x[:1].nbytes + 3 * 8  # with its output, key and priority
        if any(part._bytes is not None and needed > part._bytes for part in self.parts):
            apart = f", of which it holds {self.held_out} out," if self.held_out else ""
            raise InputError(f"memory={self.capacity!r}{apart} cannot hold one sample, which takes {needed:,} bytes.")

    def insert(self, rows: Mapping[str, Tensor], generator: torch.Generator) -> None:
        """Offer a batch of rows. `rows["y"]` holds their outputs, `rows["key"]`, if given, what `remove` finds."""
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
            stays = torch.ones(wanted, dtype=torch.bool, device=y.device)
            stays[self._turn_away(pool_group, pool_priority, wanted - self.slots)] = False
            fresh = fresh[stays[self._filled :]]
            holes = (~stays[: self._filled]).nonzero().flatten()
            slots = torch.cat([holes, torch.arange(self._filled, self.slots, device=y.device)])
        for name, column in self._columns.items():
            column[slots] = offered[name][fresh]
        self._filled = min(self.slots, wanted)

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        """`count` different rows, uniformly; all of them, in random order, when there are fewer."""
        picked = sample_without_replacement(self._filled, count, generator)
        return {
            name: column[picked.to(column.device)]
            for name, column in self._columns.items()
            if name not in ("key", "priority")
        }

    def choose_held_out(self, x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        """(samples,) which of an incoming batch to hold out: by chance, but none of a class not trained on yet.

        Chance is a hash of the sample with a salt drawn once, so that a sample that comes again, in another pass over
        the data, is on the same side again. Those spared for their class's sake are remembered as such.
        """
        if self.held is None:
            return torch.zeros_like(y, dtype=torch.bool)
        if self._salt is None:
            self._salt = next_seed(generator)
        marks = hash_samples(x, self._salt)
        wanted = ((marks & (2**52 - 1)) < self.held_out * 2**52) & ~torch.isin(marks, self._spared.to(marks.device))
        trained = torch.zeros_like(wanted)
        for part in self.parts:
            if len(part):
                trained |= torch.isin(y, part.column("y"))
        self._spared = torch.cat([self._spared, marks[wanted & ~trained].cpu()])
        return wanted & trained

    def prefer(self, rows: Tensor) -> None:
        """Let these rows of one class leave memory in this order, the last first.

        They exchange their priorities, so that nothing changes for samples that come later.
        """
        self.version += 1
        priority = self._columns["priority"]
        priority[rows] = priority[rows].sort(descending=True).values

    def remove(self, key: object) -> int:
        """Delete every sample stored under `key`; returns how many there were. Their bytes are overwritten."""
        apart = 0 if self.held is None else self.held.remove(key)
        if not self._columns:
            return apart
        gone = self.column("key") == hash_key(key)
        if len(self) == self.slots and bool(gone.any()):
            self._raise_bars()
        self._delete(gone.nonzero().flatten())
        return apart + int(gone.sum())

    def widen(self, name: str, width: int) -> None:
        """Give a column of logits more outputs. For a class unknown at its time, a sample has its lowest logit then."""
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
            raise CheckpointError(f"The memory has {self.slots} slots, but that of the checkpoint {state['slots']}.")
        self.seen, self.slots, self._bars = int(state["seen"]), int(state["slots"]), state["bars"].clone()
        self._filled = len(columns["y"]) if columns else 0
        self._columns = {name: self._empty(column) for name, column in columns.items()}
        for name, column in columns.items():
            self._columns[name][: self._filled] = column
        self.version += 1
        if self.held is not None:
            self.held.load_state_dict(state["held"], device)
            self._salt, self._spared = state["salt"], state["spared"].clone()

    def _part_apart(self) -> "Memory":
        """Takes its share of slots or bytes away from this memory."""
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
        """The competition a row takes part in: all rows are in one, or each class in its own."""
        return y if self.policy == "balanced" else torch.zeros_like(y)

    def _widen_bars(self, group: Tensor) -> None:
        missing = int(group.max()) + 1 - len(self._bars)
        if missing > 0:
            self._bars = torch.cat([self._bars, torch.full((missing,), -1.0, dtype=torch.float64)])

    def _raise_bars(self) -> None:
        """Before samples leave a full memory: later ones must pass the lowest that is kept.

        Then they are as likely to be in it as the earlier ones, to one part in the number of samples seen.
        """
        group, priority = self._group(self.column("y")).cpu(), self.column("priority").cpu()
        lowest = torch.full_like(self._bars, torch.inf).scatter_reduce_(0, group, priority, "amin")
        competing = (self._bars >= 0) & lowest.isfinite()
        self._bars[competing] = lowest[competing]

    def _turn_away(self, group: Tensor, priority: Tensor, count: int) -> Tensor:
        """(count,) the rows that must go; raises the bars accordingly."""
        if self.policy == "reservoir":
            out = priority.topk(count, largest=False).indices
        else:
            # Every class in turn gives its best, second best, ... row; those that come last go.
            by_priority = priority.argsort(descending=True)
            by_class = by_priority[group[by_priority].argsort(stable=True)]
            first = torch.searchsorted(group[by_class], group[by_class])
            rank = torch.empty_like(group)
            rank[by_class] = torch.arange(len(group), device=group.device) - first
            out = by_priority[rank[by_priority].argsort(stable=True)][-count:]
        self._bars.scatter_reduce_(0, group[out].cpu(), priority[out].cpu(), "amax")
        return out

    def _delete(self, gone: Tensor) -> None:
        """Fill the holes from the end, so that no second copy of the columns is ever made."""
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
            self._delete(self._turn_away(group, priority, self._filled - slots).sort().values)
        if slots < self.slots:
            self._columns = {name: column[:slots].clone() for name, column in self._columns.items()}
            self.slots = slots


MEMORIES: dict[str, type[Memory]] = {"memory": Memory}


def sample_without_replacement(population: int, count: int, generator: torch.Generator) -> Tensor:
    """(min(count, population),) different numbers below `population`, in random order."""
    if population <= 50 * count:
        return torch.randperm(population, generator=generator)[:count]
    # Much larger than the sample: draw until enough are different, instead of shuffling the whole population.
    chosen: dict[int, None] = {}
    while len(chosen) < count:
        chosen.update(dict.fromkeys(torch.randint(population, (count,), generator=generator).tolist()))
    return torch.tensor(list(chosen)[:count], dtype=torch.int64)


def parse_bytes(text: str) -> int:
    """
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
