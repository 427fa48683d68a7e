"""The folder of a service: who owns it, and what may change."""

from pathlib import Path

import pytest

from evenkeel.errors import BusyError, InputError, SettingsError
from evenkeel.service.service import Service
from tests.helpers.services import Open, examples, teach


def test_one_process_owns_the_folder(opened: Open) -> None:
    opened()
    with pytest.raises(BusyError, match="Another service or command is using"):
        opened()


def test_limits_may_change_but_not_the_learner(opened: Open, tmp_path: Path) -> None:
    service = opened()
    teach(service, examples(8))
    service.close()
    changed = opened("limits.queue=7")
    assert changed.config.limits.queue == 7
    changed.close()
    with pytest.raises(SettingsError, match=r"net.hidden is \[16\] in .* and \[8\] in the config"):
        Service(tmp_path / "model", None, ["net.hidden=[8]", "limits.queue=3"])
    assert opened().config.limits.queue == 7


WRONG: dict[str, tuple[list[str], str]] = {
    "no settings": ([], "Give --config FILE"),
    "no input": (["seed=1"], "input is missing"),
    "both kinds": (["input.features=3", "input.size=[2, 2]"], "either features .* or size"),
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
