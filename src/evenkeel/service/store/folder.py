"""MODEL_DIR: the files of a service, owned by one process at a time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import tomli_w

from evenkeel.config.loading import read_tables
from evenkeel.errors import BusyError, SettingsError
from evenkeel.files import lock, write_whole
from evenkeel.results.records import without_rar
from evenkeel.service.config import ServiceConfig, load_service

CONFIG = "service.toml"


class ModelFolder:
    """`service.toml`, `journal.sqlite`, `predictions.sqlite`, `versions/` and `keys.json` below one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = path / "journal.sqlite"
        self.predictions = path / "predictions.sqlite"
        self.keys = path / "keys.json"
        self._versions = path / "versions"
        self._lock: BinaryIO | None = None

    @property
    def exists(self) -> bool:
        return (self.path / CONFIG).is_file()

    def require(self) -> None:
        if not self.exists:
            raise SettingsError(f"{str(self.path)!r} is not the folder of a service: it has no {CONFIG}.")

    def version(self, number: int) -> Path:
        return self._versions / f"{number:012d}.ek"

    def versions(self) -> list[int]:
        """Those that have a file, the oldest first."""
        return sorted(int(path.stem) for path in self._versions.glob("*.ek") if path.stem.isdigit())

    def delete_partial(self) -> None:
        """What a process that was killed had begun to write."""
        for left in self._versions.glob(".*.partial"):
            left.unlink()

    def lock(self) -> None:
        """Until `release` or the end of the process."""
        self._lock = (self.path / ".lock").open("ab")
        try:
            lock(self._lock, self.path)
        except BusyError:
            raise BusyError(
                f"A service, or another command, is at work in {str(self.path)!r}. Talk to it over HTTP, or stop it "
                "first."
            ) from None

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def read(
        self, source: str | Path | Mapping[str, Any] | None = None, overrides: Sequence[str] = ()
    ) -> ServiceConfig:
        """The config of this folder, or the one given for it. Writes nothing."""
        if source is None and self.exists:
            return load_service(without_rar(read_tables(self.path / CONFIG)), overrides)
        if source is None and not overrides:
            raise SettingsError(
                f"{str(self.path)!r} is not the folder of a service yet. Give --config FILE, or at least --set "
                "input.features=N for vectors or --set 'input.size=[32, 32]' for images, to make it one."
            )
        if not self.exists and self.path.exists() and _is_foreign_folder(self.path):
            raise SettingsError(f"{str(self.path)!r} is there, but not as the folder of a service. Choose another.")
        return load_service({} if source is None else source, overrides)

    def make(self) -> None:
        try:
            self._versions.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"Cannot make {str(self.path)!r}: {error.strerror}.") from None

    def write(self, config: ServiceConfig) -> None:
        told = tomli_w.dumps(_without_none(config.model_dump(mode="json"))).encode()
        if not self.exists or (self.path / CONFIG).read_bytes() != told:
            write_whole(self.path / CONFIG, told)


def _is_foreign_folder(path: Path) -> bool:
    """Unless it is empty, or a process was killed when it had just begun to make it a service's."""

    def is_ours(entry: Path) -> bool:
        if entry.name == "versions":
            return entry.is_dir() and not any(entry.iterdir())
        return entry.name == ".lock" or entry.match(f".{CONFIG}.*.partial")

    return not path.is_dir() or not all(map(is_ours, path.iterdir()))


def _without_none(tables: dict[str, Any]) -> dict[str, Any]:
    """As TOML, which has no null: what is none by default is left out, what is not is written as none."""
    said = {"adaptor": {"name": "none"}, "threads": "none"}
    plain: dict[str, Any] = {}
    for name, value in tables.items():
        if value is None and name in said:
            plain[name] = said[name]
        elif isinstance(value, dict):
            plain[name] = _without_none(value)
        elif value is not None:
            plain[name] = value
    return plain
