"""API keys: 256 random bits each, of which only a hash is stored."""

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from evenkeel.errors import SettingsError, one_of
from evenkeel.files import write_whole

SCOPES = ("predict", "learn", "admin")
"""To predict; to teach; to do everything, including forgetting and rolling back."""


LOOK = 0.05  # seconds between checks of the file


@dataclass(frozen=True)
class Key:
    """What is stored of a key."""

    name: str
    scopes: list[str]
    sha256: str
    made: str
    expires: str | None = None  # a time in ISO 8601, with its zone; None: never

    def __post_init__(self) -> None:
        if self.expires is not None and datetime.fromisoformat(self.expires).tzinfo is None:
            raise ValueError(f"the time {self.expires!r} has no zone")

    @property
    def has_expired(self) -> bool:
        """Check whether the key is no longer valid, by this machine's clock."""
        return self.expires is not None and datetime.fromisoformat(self.expires) <= datetime.now(UTC)

    @property
    def allows(self) -> Collection[str]:
        """Return all scopes that the key has: an admin has every one."""
        return SCOPES if "admin" in self.scopes else self.scopes


NOBODY = "This service has no keys, so nobody may use it. Add one: `evenkeel keys add MODEL_DIR NAME --scope SCOPE`."
EVERYONE = Key("", list(SCOPES), "", "")  # who may do everything while a service has no keys
Access = Literal["open", "closed", "by key"]


class Keyring:
    """The keys in a file, read again whenever it changes, so that a removed key is refused at once.

    A file without keys means that nobody may do anything. Only where there never was a file, and `open_without` says
    so, everyone may do everything. A file that cannot be read leaves the keys that were read before.
    """

    def __init__(self, path: Path, *, open_without: bool) -> None:
        self._path = path
        self._open_without = open_without
        self._stamp: tuple[int, ...] | None = None  # of the file when it was read
        self._look_again = 0.0
        self._keys: list[Key] = []

    @property
    def access(self) -> Access:
        """Return who may use the service: everyone who can connect, nobody, or the bearers of keys."""
        if self._current():
            return "by key"
        return "open" if self._open_without and self._stamp is None else "closed"

    def find(self, header: str | None) -> Key | None:
        """Return the key in this `Authorization` header, which may have expired; None if it is unknown."""
        if self.access == "open":
            return EVERYONE
        scheme, _, secret = (header or "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        digest, match = _digest(secret.strip()), None
        for key in self._keys:  # all of them, each in constant time: how long it takes reveals nothing
            if hmac.compare_digest(key.sha256, digest):
                match = key
        return match

    def _current(self) -> list[Key]:
        """Return the keys, read again if the file has changed."""
        if time.monotonic() < self._look_again:
            return self._keys
        self._look_again = time.monotonic() + LOOK
        stamp = self._stamp_now()
        if stamp != self._stamp:
            with suppress(SettingsError):  # the file was damaged while we ran: the keys read before stay valid
                self._keys = read_keys(self._path)
            self._stamp = stamp
        return self._keys

    def _stamp_now(self) -> tuple[int, ...] | None:
        """Return what changes whenever the file is replaced; None if there never was one."""
        try:
            found = self._path.stat()
        except OSError:
            # Once there was a file, its absence opens nothing; if the whole folder is away, its keys stay valid.
            return self._stamp and (() if self._path.parent.is_dir() else self._stamp)
        return found.st_mtime_ns, found.st_ino, found.st_size


def read_keys(path: Path) -> list[Key]:
    """Return the keys in a file; none if there is no file."""
    if not path.is_file():
        return []
    try:
        return [Key(**each) for each in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, TypeError, ValueError) as error:
        raise SettingsError(f"{str(path)!r} is not a file of keys: {error}.") from None


def add_key(path: Path, name: str, scopes: Collection[str], expires: datetime | None = None) -> str:
    """Add a key and return it; it cannot be shown again. It is refused from `expires` on."""
    keys = read_keys(path)
    if not re.fullmatch(r"[\w.@-]{1,100}", name):
        raise SettingsError(f"The name of a key is 1 to 100 letters, digits and . _ - @, but this is {name!r}.")
    if any(key.name == name for key in keys):
        raise SettingsError(f"There is already a key named {name!r}. Remove it first, or choose another name.")
    for scope in scopes:
        one_of("scope", scope, SCOPES)
    secret = f"ek_{secrets.token_urlsafe(32)}"
    made = datetime.now(UTC).isoformat(timespec="seconds")
    until = None if expires is None else expires.astimezone(UTC).isoformat(timespec="seconds")
    _write(path, [*keys, Key(name, sorted(set(scopes), key=SCOPES.index), _digest(secret), made, until)])
    return secret


def remove_key(path: Path, name: str) -> None:
    """Remove a key; raise SettingsError if there is none with this name."""
    keys = read_keys(path)
    if all(key.name != name for key in keys):
        names = ", ".join(key.name for key in keys) or "none"
        raise SettingsError(f"There is no key named {name!r}; there are: {names}.")
    _write(path, [key for key in keys if key.name != name])


def _write(path: Path, keys: list[Key]) -> None:
    rows = [{name: value for name, value in asdict(key).items() if value is not None} for key in keys]
    write_whole(path, json.dumps(rows, indent=1).encode())
    path.chmod(0o600)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
