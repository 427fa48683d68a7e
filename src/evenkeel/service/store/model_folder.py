"""MODEL_DIR: the files of a service, owned by one process at a time."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO

import tomli_w

from evenkeel.config.keel import recipe
from evenkeel.config.loading import read_tables
from evenkeel.config.schema import PLACES
from evenkeel.errors import BusyError, SettingsError
from evenkeel.files import flush, is_writable, lock, write_whole
from evenkeel.results.records import without_rar
from evenkeel.service.config import ServiceConfig, load_service

CONFIG = "service.toml"
LEARNER = ("method", "adaptor", "learner")  # the tables of a recipe
NUMBER = re.compile(r"[0-9]{12}")  # the name of a version; other files are not ours


class ModelFolder:
    """A folder with `service.toml`, `journal.sqlite`, `predictions.sqlite`, `versions/` and `keys.json`.

    `journal.mark` is how far the journal had come; `set-aside/` holds files that are not used, but not ours to delete.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = path / "journal.sqlite"
        self.mark = path / "journal.mark"
        self.predictions = path / "predictions.sqlite"
        self.keys = path / "keys.json"
        self.aside = path / "set-aside"
        self.device = "cpu"  # where its learners compute
        self._versions = path / "versions"
        self._lock: BinaryIO | None = None

    @property
    def exists(self) -> bool:
        """Check whether this is the folder of a service."""
        return (self.path / CONFIG).is_file()

    @property
    def lost_config(self) -> bool:
        """Check whether this is the folder of a service, but for its config."""
        return not self.exists and all(path.exists() for path in (self.journal, self.mark, self._versions))

    def require(self) -> None:
        """Raise SettingsError if this is not the folder of a service."""
        if not self.exists:
            raise SettingsError(f"{str(self.path)!r} is not the folder of a service: it has no {CONFIG}.")

    def version(self, number: int) -> Path:
        """Return the path of a version's file."""
        return self._versions / f"{number:012d}.ek"

    def versions(self) -> list[int]:
        """Return the numbers of the versions that have a file, the oldest first."""
        return sorted(int(path.stem) for path in self._versions.glob("*.ek") if NUMBER.fullmatch(path.stem))

    def sizes(self) -> dict[int, int]:
        """Return the bytes of each version."""
        return {number: self.version(number).stat().st_size for number in self.versions()}

    def delete_partial(self) -> None:
        """Delete incomplete files of versions, left by a process that was killed."""
        for path in self._versions.glob(".*.partial"):
            path.unlink()

    def set_aside(self, *paths: Path) -> None:
        """Move files that belong together to `set-aside/`, under names with one number that none has there yet."""
        here = [path for path in paths if path.exists()]
        endings = chain([""], (f"-{number}" for number in count(2)))
        groups = ([self.aside / f"{path.stem}{ending}{path.suffix}" for path in here] for ending in endings)
        free = next(group for group in groups if not any(target.exists() for target in group))
        for path, target in zip(here, free, strict=True):
            self.aside.mkdir(exist_ok=True)
            path.rename(target)
            flush(self.aside)
            flush(path.parent)

    def journal_files(self) -> list[Path]:
        """Return the paths of the journal: its log and index, the database, and the mark.

        In this order: if a kill comes while they are set aside, the database still says which group a log belongs to.
        """
        return [*(self.path / f"{self.journal.name}{part}" for part in ("-wal", "-shm", "")), self.mark]

    def lock(self) -> None:
        """Own the folder until `release` or the end of the process; raise BusyError if another process owns it."""
        path = self.path / ".lock"
        if not path.exists() and not is_writable(self.path):
            return  # nobody can own it
        self._lock = path.open("ab" if is_writable(self.path) else "rb")
        try:
            lock(self._lock, self.path)
        except BusyError:
            raise BusyError(
                f"Another service or command is using {str(self.path)!r}. Talk to it over HTTP, or stop it first."
            ) from None

    def release(self) -> None:
        """Give up the ownership of the folder."""
        if self._lock is not None:
            self._lock.close()

    def read(
        self,
        source: str | Path | Mapping[str, Any] | None = None,
        overrides: Sequence[str] = (),
        *,
        trusted: bool = True,
    ) -> ServiceConfig:
        """Return the config of this folder, or the one given for it. Writes nothing.

        trusted: whether parts that `source` names are imported; those that the folder itself names never are.
        """
        if source is None and self.exists:
            return load_service(without_rar(read_tables(self.path / CONFIG)), overrides, trusted=False)
        if source is None and not overrides and self.lost_config:
            raise SettingsError(
                f"{str(self.path)!r} has lost its {CONFIG}. Put it back (a backup has it), or give the same settings "
                "again: --config FILE, or --set NAME=VALUE."
            )
        if source is None and not overrides:
            raise SettingsError(
                f"{str(self.path)!r} is not the folder of a service yet. Give --config FILE, or at least --set "
                "input.features=N for vectors, --set 'input.size=[32, 32]' for images, or --set input.text=true and "
                "net.encoder for texts, to create one."
            )
        if not (self.exists or self.lost_config) and self.path.exists() and _is_foreign_folder(self.path):
            raise SettingsError(f"{str(self.path)!r} exists, but is not the folder of a service. Choose another.")
        return load_service({} if source is None else source, overrides, trusted=trusted, unsaid=self._learner())

    def _learner(self) -> Mapping[str, Any]:
        """Return the tables of the learner that is here, or of the one that a new folder gets."""
        if not self.exists:
            return recipe(1)
        own = without_rar(read_tables(self.path / CONFIG))
        return {name: own[name] for name in LEARNER if name in own}

    def make(self) -> None:
        """Create the folder; raise SettingsError if that is not possible."""
        try:
            self._versions.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"Cannot create {str(self.path)!r}: {error.strerror}.") from None

    def keep_private(self) -> None:
        """Let nobody but the owner use the folder: it holds samples. What belongs to others is left as it is."""
        for path in (self.path, *self.path.rglob("*")):
            with suppress(OSError):
                path.chmod(path.stat().st_mode & 0o700)

    def write(self, config: ServiceConfig) -> None:
        """Write the config to `service.toml`, unless it is there already. It belongs to no device."""
        content = tomli_w.dumps(_without_none(config.model_dump(mode="json", exclude=PLACES))).encode()
        if not self.exists or (self.path / CONFIG).read_bytes() != content:
            write_whole(self.path / CONFIG, content)


def _is_foreign_folder(path: Path) -> bool:
    """Check whether a path holds anything but the first files of a service whose creation was interrupted."""

    def is_ours(entry: Path) -> bool:
        if entry.name == "versions":
            return entry.is_dir() and not any(entry.iterdir())
        return entry.name == ".lock" or entry.match(f".{CONFIG}.*.partial")

    return not path.is_dir() or not all(map(is_ours, path.iterdir()))


def _without_none(tables: dict[str, Any]) -> dict[str, Any]:
    """Return tables without None, which TOML lacks: a None that is not the default is written as "none"."""
    written_as = {"adaptor": {"name": "none"}, "threads": "none"}
    plain: dict[str, Any] = {}
    for name, value in tables.items():
        if value is None and name in written_as:
            plain[name] = written_as[name]
        elif isinstance(value, dict):
            plain[name] = _without_none(value)
        elif value is not None:
            plain[name] = value
    return plain
