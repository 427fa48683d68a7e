"""How many runs are executed: the options that the library and all commands with many runs share."""

import os
import sys
from dataclasses import dataclass
from math import inf
from pathlib import Path

from evenkeel.errors import SettingsError, at_least_zero, whole_number

OWN = ("CPU", "GPU", "memory")  # resources that Ray itself knows; a cluster may have others


@dataclass(frozen=True)
class Execution:
    """Where and how runs are executed.

    workers: parallel runs, each in its own process; by default one per core; 0: run in this process. ray: the address
    of a Ray cluster to run on, or "auto". resources: what each run needs on a cluster, such as "CPU=2,GPU=0.5". data:
    the folder where data sets are looked for first. save_every: seconds between checkpoints. launcher: a name in
    `LAUNCHERS`; by default what `workers` and `ray` imply. device: instead of the one in the configs.
    """

    workers: int | None = None
    ray: str | None = None
    resources: str = "CPU=1"
    data: str | os.PathLike[str] | None = None
    save_every: float = 30.0
    launcher: str | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            whole_number("workers", self.workers, at_least=0)
        at_least_zero("save_every", self.save_every)
        if self.data is not None and self.ray is None and not Path(self.data).is_dir():  # a cluster may have it
            raise SettingsError(f"data={str(self.data)!r}: there is no such folder.")
        for name in self.needs:
            self._require_spelling(name)

    def _require_spelling(self, name: str) -> None:
        """Raise SettingsError for one of Ray's own resources in other letters: a run would wait for it forever."""
        for own in OWN:
            if name != own and name.casefold().removesuffix("s") == own.casefold():
                raise SettingsError(
                    f"resources={self.resources!r} has {name!r}; Ray's own are {', '.join(map(repr, OWN))}. "
                    f"Did you mean {own!r}?"
                )

    @property
    def launcher_name(self) -> str:
        """Return the name of the launcher: as given, or else as `ray` and `workers` imply."""
        implied = "ray" if self.ray is not None else "in-process" if self.workers == 0 else "processes"
        return self.launcher or implied

    @property
    def at_once(self) -> int:
        """Return the number of parallel runs on this machine."""
        return (cores() if self.workers is None else self.workers) or 1

    @property
    def threads(self) -> int:
        """Return the number of threads per run: the cores are divided among the runs."""
        return max(1, cores() // self.at_once)

    @property
    def needs(self) -> dict[str, float]:
        """Return the resources of a run by name."""
        try:
            parts = [each.split("=") for each in self.resources.split(",")]
            needs = {"CPU": 1.0} | {name.strip(): float(amount) for name, amount in parts}
        except ValueError:
            needs = {}
        if not needs.get("CPU") or not all(name and 0 <= amount < inf for name, amount in needs.items()):
            raise SettingsError(f"resources={self.resources!r} is not of the form CPU=2,GPU=0.5, with CPU above 0.")
        return needs


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
