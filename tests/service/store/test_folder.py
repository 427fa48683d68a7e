"""The folder of a service: who owns it, and what may change."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from evenkeel.errors import BusyError, InputError, SettingsError
from evenkeel.service.service import Service
from evenkeel.service.store.backup import back_up, restore
from evenkeel.service.store.check import check
from evenkeel.service.store.model_folder import ModelFolder
from tests.helpers.services import Open, examples, teach
from tests.helpers.serving import VECTORS


def test_one_process_owns_the_folder(opened: Open) -> None:
    opened()
    with pytest.raises(BusyError, match="Another service or command is using"):
        opened()


def test_limits_may_change_but_not_the_learner(opened: Open, tmp_path: Path) -> None:
    service = opened()
    teach(service, examples(8))
    service.close()
    changed = opened("limits.queue=7", "device=cpu", "memory.device=cpu")
    assert changed.config.limits.queue == 7
    assert "device" not in (tmp_path / "model" / "service.toml").read_text()
    changed.close()
    with pytest.raises(SettingsError, match=r"net.hidden is \[16\] in .* and \[8\] in the config"):
        Service(tmp_path / "model", None, ["net.hidden=[8]", "limits.queue=3"])
    assert opened().config.limits.queue == 7


WRONG: dict[str, tuple[list[str], str]] = {
    "no settings": ([], "Give --config FILE"),
    "no input": (["seed=1"], "input is missing"),
    "both kinds": (["input.features=3", "input.size=[2, 2]"], "one of features .* size"),
    "boundaries": (["input.features=3", "method.name=ss_il"], "needs task boundaries"),
    "adaptor": (
        ["input.features=3", "adaptor={name='cba', start='second-task'}"],
        r"CBA\(.* needs task boundaries; a service has no",
    ),
    "bound": (["input.features=3", "method.name=finetune", "adaptor.name=none"], "keeps no memory"),
    "unknown": (["input.features=3", "limits.que=3"], "limits.que is unknown.*Did you mean 'queue'"),
    "net for images": (["input.features=3", "net.name=convnet"], "cannot process samples of shape"),
    "net": (["input.size=[2, 2]", "net.name=mlp", "net.hiden=[3]"], "no setting 'hiden'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_in_the_config_is_a_sentence_and_creates_no_folder(case: str, tmp_path: Path) -> None:
    settings, expected = WRONG[case]
    with pytest.raises((SettingsError, InputError), match=expected):
        Service(tmp_path / "model", None, settings)
    assert not (tmp_path / "model").exists()


def test_a_folder_whose_creation_was_interrupted_is_used(tmp_path: Path) -> None:
    (tmp_path / "model" / "versions").mkdir(parents=True)
    (tmp_path / "model" / ".service.toml.1.2.partial").write_text("[inp")
    service = Service(tmp_path / "model", None, ["input.features=3"])
    assert service.published.version == 0
    service.close()


def test_a_folder_with_other_files_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SettingsError, match="exists, but is not the folder of a service"):
        Service(tmp_path, None, ["input.features=3"])


def test_a_lost_config_is_named_and_can_be_given_again(opened: Open, tmp_path: Path) -> None:
    service = opened()
    teach(service, examples(8))
    service.close()
    config = tmp_path / "model" / "service.toml"
    content = config.read_text()
    config.unlink()
    with pytest.raises(SettingsError, match=r"has lost its service\.toml"):
        Service(tmp_path / "model")
    with pytest.raises(SettingsError, match=r"net\.hidden is \[16\] in .* and \[8\] in the config"):
        Service(tmp_path / "model", None, [*VECTORS, "net.hidden=[8]"])
    assert not config.exists()  # nothing but the right one is written
    again = Service(tmp_path / "model", None, VECTORS)
    again.close()
    assert again.problem is None
    assert config.read_text() == content


def test_files_that_are_set_aside_together_get_the_same_number(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path)
    for journal, has_log in (("first", False), ("second", True), ("third", True)):
        for path in folder.journal_files():
            if has_log or not path.name.endswith(("-wal", "-shm")):
                path.write_text(journal)
        folder.set_aside(*folder.journal_files())
    contents = {path.name: path.read_text() for path in folder.aside.iterdir()}
    ends = ("sqlite", "mark", "sqlite-wal", "sqlite-shm")
    first = {f"journal.{end}": "first" for end in ends[:2]}
    second = {f"journal-2.{end}": "second" for end in ends}
    assert contents == first | second | {f"journal-3.{end}": "third" for end in ends}


def test_files_that_are_not_versions_are_left_alone(opened: Open, tmp_path: Path) -> None:
    service = opened()
    teach(service, examples(8))
    service.close()
    strange = [tmp_path / "model" / "versions" / f"{name}.ek" for name in ("x", "7", "²³", "9" * 23, "٣" * 12)]
    for path in strange:
        path.write_text("not ours")
    again = opened()
    assert again.problem is None
    assert all(path.read_text() == "not ours" for path in strange)
    assert list(check(again.model_folder)) == []


def test_a_folder_that_cannot_be_written_can_be_checked_and_backed_up(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = opened()
    teach(service, examples(8))
    service.close()
    folder = service.model_folder
    (folder.path / ".lock").unlink()
    before = sorted(folder.path.rglob("*"))
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda *_: False)
        patch.setattr("sqlite3.connect", read_only(sqlite3.connect))
        folder.lock()
        assert list(check(folder)) == []
        back_up(folder, str(tmp_path / "copy"))
    assert sorted(folder.path.rglob("*")) == before
    restore(str(tmp_path / "copy"), tmp_path / "again")
    assert list(check(ModelFolder(tmp_path / "again"))) == []


def read_only(connect: Callable[..., sqlite3.Connection]) -> Callable[..., sqlite3.Connection]:
    """Return what a disk that is read-only makes of opening a database: SQLite cannot make its files there."""

    def called(path: object, *arguments: object, **settings: object) -> sqlite3.Connection:
        if "/model/" in str(path) and "immutable=1" not in str(path):
            raise sqlite3.OperationalError("unable to open database file")
        return connect(path, *arguments, **settings)

    return called
