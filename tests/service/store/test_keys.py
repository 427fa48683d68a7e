"""Keys: who may do what, when nobody may, and for how long."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evenkeel.errors import SettingsError
from evenkeel.service.store import keys
from evenkeel.service.store.keys import Keyring, add_key, read_keys, remove_key
from tests.helpers.services import Open


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keyrings check their file at each request."""
    monkeypatch.setattr(keys, "LOOK", 0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    return folder / "keys.json"


def test_without_a_file_everyone_may_do_everything_only_where_that_is_allowed(path: Path) -> None:
    everyone = Keyring(path, open_without=True).find(None)
    assert everyone is not None
    assert set(everyone.allows) == {"predict", "learn", "admin"}
    closed = Keyring(path, open_without=False)
    assert (closed.access, closed.find(None), closed.find("Bearer x")) == ("closed", None, None)


def test_a_file_without_keys_means_nobody(path: Path) -> None:
    secret = add_key(path, "only", ["learn"])
    running = Keyring(path, open_without=True)
    assert running.access == "by key"
    remove_key(path, "only")
    for keyring in (running, Keyring(path, open_without=True)):
        assert keyring.access == "closed"
        assert keyring.find(None) is None
        assert keyring.find(f"Bearer {secret}") is None


def test_a_file_that_vanishes_opens_nothing_while_a_service_runs(path: Path) -> None:
    secret = add_key(path, "only", ["learn"])
    running = Keyring(path, open_without=True)
    assert running.find(f"Bearer {secret}") is not None
    path.unlink()
    assert (running.access, running.find(None), running.find(f"Bearer {secret}")) == ("closed", None, None)
    again = add_key(path, "again", ["learn"])
    assert running.find(f"Bearer {again}") is not None


def test_keys_stay_valid_while_the_folder_is_away_or_the_file_is_damaged(path: Path) -> None:
    secret = add_key(path, "only", ["learn"])
    running = Keyring(path, open_without=True)
    assert running.find(f"Bearer {secret}") is not None
    away = path.parent.rename(path.parent.with_name("away"))
    assert running.find(f"Bearer {secret}") is not None
    assert running.find(None) is None
    away.rename(path.parent)
    path.write_text("[{")
    assert running.find(f"Bearer {secret}") is not None
    assert Keyring(path, open_without=True).access == "closed"


def test_a_key_is_refused_from_its_expiry_on(path: Path) -> None:
    now = datetime.now(UTC)
    valid = add_key(path, "valid", ["learn"], now + timedelta(minutes=1))
    old = add_key(path, "old", ["learn"], now - timedelta(seconds=1))
    forever = add_key(path, "forever", ["learn"])
    keyring = Keyring(path, open_without=True)
    found = {name: keyring.find(f"Bearer {each}") for name, each in (("v", valid), ("o", old), ("f", forever))}
    assert {name: key and key.has_expired for name, key in found.items()} == {"v": False, "o": True, "f": False}
    remove_key(path, "valid")
    remove_key(path, "forever")
    assert keyring.access == "by key"  # an expired key opens nothing either


def test_files_of_earlier_versions_are_read_and_keys_without_expiry_are_written_as_before(path: Path) -> None:
    path.write_text(json.dumps([{"name": "a", "scopes": ["learn"], "sha256": "0" * 64, "made": "2026-01-01"}]))
    add_key(path, "b", ["learn"])
    assert [key.expires for key in read_keys(path)] == [None, None]
    assert {tuple(each) for each in json.loads(path.read_text())} == {("name", "scopes", "sha256", "made")}


@pytest.mark.parametrize("expires", ["tomorrow", "2030-01-01T00:00:00", 7, "0001-01-01T00:00:00+99:00"])
def test_an_expiry_that_cannot_be_compared_is_an_error(path: Path, expires: object) -> None:
    key = {"name": "a", "scopes": [], "sha256": "", "made": "", "expires": expires}
    path.write_text(json.dumps([key]))
    with pytest.raises(SettingsError, match="is not a file of keys"):
        read_keys(path)


def test_a_key_that_replaces_another_at_the_same_instant_is_noticed(path: Path) -> None:
    first = add_key(path, "first", ["learn"])
    keyring = Keyring(path, open_without=True)
    assert keyring.find(f"Bearer {first}") is not None
    stamp = path.stat().st_mtime_ns
    remove_key(path, "first")
    second = add_key(path, "second", ["learn"])
    os.utime(path, ns=(stamp, stamp))
    assert keyring.find(f"Bearer {first}") is None
    assert keyring.find(f"Bearer {second}") is not None


def test_an_existing_folder_is_closed_to_others_at_a_start(opened: Open) -> None:
    service = opened(start=False)
    service.close()
    folder = service.model_folder.path
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    before = set(folder.rglob("*"))
    opened(start=False)
    assert {oct(each.stat().st_mode & 0o077) for each in (folder, *before) if each.exists()} == {"0o0"}
