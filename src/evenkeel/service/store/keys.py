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


class Keyring:
    """The keys in a file, read again whenever it changes, so that a removed key is refused at once."""

    def __init__(self, path: Path, *, open_without: bool) -> None:
        self.open_without = open_without  # whether everyone may do everything while there are no keys
        self._path = path
        self._read: int | None = None
        self._look_again = 0.0
        self._keys: list[Key] = []

    @property
    def is_open(self) -> bool:
        """Check whether everyone who can connect may do everything."""
        return self.open_without and not self._current()

    def scopes(self, header: str | None) -> Collection[str] | None:
        """Return what the bearer of this `Authorization` header may do; None if the key is unknown."""
        keys = self._current()
        if not keys:
            return SCOPES if self.open_without else None
        scheme, _, secret = (header or "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        digest, match = _digest(secret.strip()), None
        for key in keys:  # all of them, each in constant time: how long it takes reveals nothing
            if hmac.compare_digest(key.sha256, digest):
                match = key
        return None if match is None else SCOPES if "admin" in match.scopes else match.scopes

    def _current(self) -> list[Key]:
        """Return the keys, read again if the file has changed."""
        if time.monotonic() < self._look_again:
            return self._keys
        self._look_again = time.monotonic() + LOOK
        try:
            changed = self._path.stat().st_mtime_ns
        except FileNotFoundError:
            changed = 0
        if changed != self._read:
            self._read = changed
            with suppress(SettingsError):  # the file was damaged while we ran: the keys read before stay valid
                self._keys = read_keys(self._path)
        return self._keys


def read_keys(path: Path) -> list[Key]:
    """Return the keys in a file; none if there is no file."""
    if not path.is_file():
        return []
    try:
        return [Key(**each) for each in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, TypeError, ValueError) as error:
        raise SettingsError(f"{str(path)!r} is not a file of keys: {error}.") from None


def add_key(path: Path, name: str, scopes: Collection[str]) -> str:
    """Add a key and return it; it cannot be shown again."""
    keys = read_keys(path)
    if not re.fullmatch(r"[\w.@-]{1,100}", name):
        raise SettingsError(f"The name of a key is 1 to 100 letters, digits and . _ - @, but this is {name!r}.")
    if any(key.name == name for key in keys):
        raise SettingsError(f"There is already a key named {name!r}. Remove it first, or choose another name.")
    for scope in scopes:
        one_of("scope", scope, SCOPES)
    secret = f"ek_{secrets.token_urlsafe(32)}"
    made = datetime.now(UTC).isoformat(timespec="seconds")
    _write(path, [*keys, Key(name, sorted(set(scopes), key=SCOPES.index), _digest(secret), made)])
    return secret


def remove_key(path: Path, name: str) -> None:
    """Remove a key; raise SettingsError if there is none with this name."""
    keys = read_keys(path)
    if all(key.name != name for key in keys):
        names = ", ".join(key.name for key in keys) or "none"
        raise SettingsError(f"There is no key named {name!r}; there are: {names}.")
    _write(path, [key for key in keys if key.name != name])


def _write(path: Path, keys: list[Key]) -> None:
    write_whole(path, json.dumps([asdict(key) for key in keys], indent=1).encode())
    path.chmod(0o600)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
