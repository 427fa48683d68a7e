"""The learner of a new folder: the recipe that this library recommends, unless the config names parts of its own."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from evenkeel.config.keel import recipe
from evenkeel.errors import SettingsError
from evenkeel.service.config import ServiceConfig
from evenkeel.service.store.model_folder import ModelFolder

VECTORS = {"input": {"features": 4}}
OLD = Path(__file__).parents[2] / "compatibility" / "0.1" / "service"


def learner_of(config: ServiceConfig) -> dict[str, Any]:
    return {"method": config.method, "adaptor": config.adaptor, "average": config.learner.average}


def created(path: Path, config: dict[str, Any]) -> ModelFolder:
    folder = ModelFolder(path)
    made = folder.read(config)
    folder.make()
    folder.write(made)
    return folder


def test_a_new_folder_gets_the_recipe_and_says_so(tmp_path: Path) -> None:
    config = created(tmp_path / "model", VECTORS).read()
    expected = recipe(1)
    assert config.method["name"] == expected["method"]["name"]
    assert config.adaptor is not None
    assert config.adaptor.items() >= expected["adaptor"].items()
    assert config.learner.average == expected["learner"]["average"]


@pytest.mark.parametrize(
    ("given", "adaptor"),
    [({"method": {"name": "er"}}, "cba"), ({"adaptor": {"name": "cba"}}, "cba"), ({"adaptor": {"name": "none"}}, None)],
)
def test_a_config_that_names_a_method_or_an_adaptor_means_what_it_did(
    tmp_path: Path, given: dict[str, Any], adaptor: str | None
) -> None:
    config = created(tmp_path / "model", VECTORS | given).read()
    assert (config.adaptor or {}).get("name") == adaptor
    assert not config.learner.average


@pytest.mark.parametrize("method", ["scr", "gdumb"])
def test_a_method_that_takes_no_adaptor_gets_none(tmp_path: Path, method: str) -> None:
    folder = created(tmp_path / "model", VECTORS | {"method": {"name": method}})
    assert folder.read().adaptor is None
    with pytest.raises(SettingsError, match=r'Leave the adaptor out: adaptor\.name = "none"'):
        folder.read(VECTORS | {"method": {"name": method}, "adaptor": {"name": "cba"}})


def test_the_same_config_given_again_means_the_same_learner(tmp_path: Path) -> None:
    folder = created(tmp_path / "model", VECTORS)
    assert learner_of(folder.read(VECTORS)) == learner_of(folder.read())


def test_settings_of_the_recipes_own_parts_change_it(tmp_path: Path) -> None:
    config = ModelFolder(tmp_path / "model").read(None, ["input.features=4", "adaptor.tau=1.0"])
    assert config.adaptor is not None
    assert (config.adaptor["name"], config.adaptor["tau"], config.learner.average) == ("prior", 1.0, "auto")


def test_a_folder_made_before_there_was_a_recipe_keeps_its_learner(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "model")
    folder = ModelFolder(tmp_path / "model")
    own = folder.read()
    assert own.adaptor is None or own.adaptor["name"] != "prior"
    assert learner_of(folder.read({"input": own.input.model_dump()})) == learner_of(own)
