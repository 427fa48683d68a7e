"""The memory: columns of tensors, a policy that decides which samples stay, draws without replacement."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenkeel.errors import CheckpointError, SettingsError, one_of, whole_number
from evenkeel.learning.byte_sizes import parse_bytes
from evenkeel.learning.hashing import hash_key
from evenkeel.learning.policies import Competition, Rows
from evenkeel.learning.registry import call_text
from evenkeel.learning.rng import sample_without_replacement
from evenkeel.learning.torch_utils import sent
from evenkeel.learning.types import Draw

ON_HOST = ("y", "key", "priority")
OWN_COLUMNS = ("x", *ON_HOST)
DEVICES = ("auto", "cpu")


class Memory:
    """A bounded store of samples. Labels, keys and priorities are on the host, which decides by them what is stored.

    `capacity` is a number of samples or an amount of bytes ("8MB"). `policy`: "reservoir" keeps a uniform sample of the
    stream; "balanced" gives every class an equal share (what a rare class cannot fill goes to the others) and keeps a
    uniform sample of each class. `device`: "auto" keeps samples, and what methods store with them, where the network
    is; "cpu" on the host, for a memory that would not fit there.

    >>> memory = Memory(2)
    >>> generator = torch.Generator().manual_seed(0)
    >>> memory.insert({"x": torch.arange(5.), "y": torch.tensor([0, 0, 1, 1, 1])}, generator)
    >>> len(memory), memory.seen, memory.draw(10, generator)["x"].shape
    (2, 5, torch.Size([2]))
    """

    def __init__(self, capacity: int | str, *, policy: str = "reservoir", device: str = "auto") -> None:
        self.capacity = capacity
        self.policy = policy
        self.device = device
        one_of("memory.device", device, DEVICES)
        self._competition = Competition(policy)
        self.budget = parse_bytes(capacity) if isinstance(capacity, str) else None  # in bytes
        # The number of slots of a memory in bytes is known only with the first sample.
        self.slots = 0 if isinstance(capacity, str) else whole_number("memory", capacity, at_least=1)
        self.to_network: Callable[[Tensor], Tensor] = torch.clone  # stored samples to network input; set by a learner
        self.augment: Callable[[Tensor, torch.Generator], Tensor] | None = None  # likewise; None: no augmentation
        self.place: torch.device | None = None  # of samples and what methods store; None: where they come from
        self.version = 0  # increases with each change
        self.seen = 0
        self._filled = 0
        self._columns: dict[str, Tensor] = {}

    def __repr__(self) -> str:
        return call_text(self)

    def __len__(self) -> int:
        return self._filled

    @property
    def nbytes(self) -> int:
        """Return the bytes of the columns, filled or not."""
        return sum(column.nbytes for column in self._columns.values())

    def split(self, share: float) -> "Memory":
        """Return a new, balanced memory with this share of the capacity; the rest is left to this one, still empty."""
        if self.budget is not None:
            taken = max(1, int(self.budget * share))
            self.budget -= taken
            return Memory(f"{taken}B", policy="balanced", device=self.device)
        taken = max(1, round(self.slots * share))
        if taken >= self.slots:
            raise SettingsError(
                f"memory={self.capacity}: holding out {share} of it leaves no sample to train on; make it larger."
            )
        self.slots -= taken
        return Memory(taken, policy="balanced", device=self.device)

    def column(self, name: str) -> Tensor:
        """Return (len(self), ...) a view of the filled rows of column `name`."""
        return self._columns[name][: self._filled]

    def samples(self, rows: Tensor | slice = slice(None)) -> Draw:
        """Return stored samples as network input, without augmentation."""
        return self._as_draw(self.column("x")[rows], self.column("y")[rows])

    def views(self, rows: Tensor, generator: torch.Generator) -> Draw:
        """Return stored samples as network input, augmented as in training."""
        x = self.column("x")[rows]
        return self._as_draw(x if self.augment is None else self.augment(x, generator), self.column("y")[rows])

    def _as_draw(self, x: Tensor, y: Tensor) -> Draw:
        x = self.to_network(x)
        return Draw(x, sent(y, x.device), on_host=y)

    @property
    def extra_columns(self) -> set[str] | None:
        """Return the columns that a method stores in addition to ours; None before the first sample."""
        return self._columns.keys() - set(OWN_COLUMNS) if self._columns else None

    def insert(self, rows: Mapping[str, Tensor], generator: torch.Generator) -> None:
        """Offer a batch of rows. `rows["y"]` holds their outputs, `rows["key"]`, if given, the keys for `remove`."""
        y = rows["y"]
        priority = torch.rand(len(y), dtype=torch.float64, generator=generator)
        key = rows["key"] if "key" in rows else torch.zeros_like(y)
        offered = {"key": key, **rows, "priority": priority}
        if not self._columns:
            self._allocate(offered)
        self.version += 1
        self.seen += len(y)
        fresh = self._competition.admitted(y.numpy(), priority.numpy())
        if not len(fresh):
            return
        wanted = self._filled + len(fresh)
        slots = np.arange(self._filled, wanted)
        if wanted > self.slots:
            fresh, slots = self._compete(offered, fresh)
        self._filled = min(self.slots, wanted)
        if len(fresh):
            self._write(offered, fresh, slots)

    def _compete(self, offered: Mapping[str, Tensor], fresh: Rows) -> tuple[Rows, Rows]:
        """Return which of these rows stay, and in which slots, if there are fewer of those than samples."""
        labels, priorities = (
            np.concatenate([self._host(name), offered[name].numpy()[fresh]]) for name in ("y", "priority")
        )
        kept = np.ones(len(labels), dtype=np.bool_)
        kept[self._competition.reject(labels, priorities, len(labels) - self.slots)] = False
        left = np.flatnonzero(~kept[: self._filled])
        return fresh[kept[self._filled :]], np.concatenate([left, np.arange(self._filled, self.slots)])

    def _write(self, offered: Mapping[str, Tensor], fresh: Rows, slots: Rows) -> None:
        """Copy these rows into these slots."""
        which, where = torch.from_numpy(fresh), torch.from_numpy(slots)
        for name, column in self._columns.items():
            if name in ON_HOST:  # where numpy takes a fraction of torch's time for so few numbers
                column.numpy()[slots] = offered[name].numpy()[fresh]
            else:
                chosen = offered[name].index_select(0, sent(which, offered[name].device))
                column.index_copy_(0, sent(where, column.device), sent(chosen, column.device))

    def _host(self, name: str) -> NDArray[Any]:
        """Return the filled rows of a column that is on the host."""
        return self.column(name).numpy()

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Return `count` different rows, drawn uniformly; all rows, in random order, if there are fewer."""
        picked = sample_without_replacement(self._filled, count, generator)
        return {
            name: column.index_select(0, sent(picked, column.device))  # several times as fast as column[picked]
            for name, column in self._columns.items()
            if name not in ("key", "priority")
        }

    def prefer(self, rows: Tensor) -> None:
        """Make these rows of one class leave memory in reverse order, the last first.

        They exchange their priorities, so nothing changes for later samples.
        """
        self.version += 1
        priority = self._columns["priority"]
        priority[rows] = priority[rows].sort(descending=True).values

    def remove(self, key: object) -> int:
        """Delete every sample stored under `key`, overwriting its bytes, and return how many there were."""
        if not self._columns:
            return 0
        gone = self.column("key") == hash_key(key)
        if len(self) == self.slots and bool(gone.any()):
            self._competition.make_room(self._host("y"), self._host("priority"))
        self._delete(gone.nonzero().flatten())
        return int(gone.sum())

    def widen(self, name: str, width: int) -> None:
        """Widen a column of logits. For classes unknown when it was stored, a sample gets the lowest of its logits."""
        if name not in self._columns:
            return
        old = self._columns[name]
        new = self._wider(old, width)
        new[: self._filled, old.shape[1] :] = old[: self._filled].min(dim=1, keepdim=True).values
        self._columns[name] = new
        if self.budget is not None:
            self._shrink(max(1, self.budget // (self.nbytes // self.slots)))

    def _wider(self, old: Tensor, width: int) -> Tensor:
        """Return a column with longer rows, in the same place if there is room for them between those of the old one.

        There is none in a memory of so many bytes; else rows are made longer by half at a time.
        """
        room = old.stride(0) if self.slots > 1 else old.shape[1]
        if width <= room:
            return old.as_strided((self.slots, width), (room, 1))
        room = width if self.budget is not None else max(width, old.shape[1] + old.shape[1] // 2)
        new = old.new_zeros(self.slots, room)[:, :width]
        new[: self._filled, : old.shape[1]] = old[: self._filled]
        return new

    def state_dict(self) -> dict[str, Any]:
        columns = {name: self.column(name).clone() for name in self._columns}
        bars = self._competition.bars.clone()
        return {"columns": columns, "bars": bars, "seen": self.seen, "slots": self.slots}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        columns: Mapping[str, Tensor] = {
            name: column.to(self._place(name, column)) for name, column in state["columns"].items()
        }
        if self.budget is None and self.slots != state["slots"]:
            raise CheckpointError(
                f"The memory has {self.slots} slots, but that of the checkpoint has {state['slots']}."
            )
        self.seen, self.slots, self._competition.bars = int(state["seen"]), int(state["slots"]), state["bars"].clone()
        self._filled = len(columns["y"]) if columns else 0
        self._columns = {name: self._empty(column, column.device) for name, column in columns.items()}
        for name, column in columns.items():
            self._columns[name][: self._filled] = column
        self.version += 1

    def to(self, device: torch.device) -> None:
        """Move the stored samples to another device, unless they are to stay on the host."""
        self.place = torch.device("cpu") if self.device == "cpu" else device
        self._columns = {name: column.to(self._place(name, column)) for name, column in self._columns.items()}
        self.version += 1

    def _place(self, name: str, column: Tensor) -> torch.device:
        return torch.device("cpu") if name in ON_HOST else self.place or column.device

    def _allocate(self, rows: Mapping[str, Tensor]) -> None:
        if self.budget is not None:
            self.slots = max(1, self.budget // sum(column[:1].nbytes for column in rows.values()))
        self._columns = {name: self._empty(column, self._place(name, column)) for name, column in rows.items()}

    def _empty(self, like: Tensor, device: torch.device) -> Tensor:
        return like.new_empty((self.slots, *like.shape[1:]), device=device)

    def _delete(self, gone: Tensor) -> None:
        """Delete rows and fill the holes from the end, so that the columns are never copied."""
        self.version += 1
        kept = self._filled - len(gone)
        stays = torch.ones(self._filled, dtype=torch.bool)
        stays[gone] = False
        holes, movers = gone[gone < kept], stays[kept:].nonzero().flatten() + kept
        for column in self._columns.values():
            column[sent(holes, column.device)] = column[sent(movers, column.device)]
            column[kept : self._filled] = 0
        self._filled = kept

    def _shrink(self, slots: int) -> None:
        if slots < self._filled:
            excess = self._filled - slots
            gone = self._competition.reject(self._host("y"), self._host("priority"), excess)
            self._delete(torch.from_numpy(np.sort(gone)))
        if slots < self.slots:
            self._columns = {name: column[:slots].clone() for name, column in self._columns.items()}
            self.slots = slots


MEMORIES: dict[str, type[Memory]] = {"memory": Memory}
