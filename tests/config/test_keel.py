"""The keel: its presets and `ek.keel` are one recipe."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenkeel as ek
from evenkeel.config.composition import about, family, names
from evenkeel.config.keel import recipe
from evenkeel.errors import SettingsError
from evenkeel.experiment.config import load_config
from evenkeel.grids.grid_file import read_grid
from evenkeel.grids.tune import Search
from tests.helpers.streams import images

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "keel").glob("*.toml"))
BUDGETS = [1.0, *(float(name.removesuffix("x")) for name in family("keel")["variant"])]


def flat(tables: dict[str, Any]) -> set[tuple[str, str]]:
    """Return each setting by "table.name", with its value as text."""
    inner = {table: value if isinstance(value, dict) else {"": value} for table, value in tables.items()}
    return {(f"{table}.{name}", repr(value)) for table, settings in inner.items() for name, value in settings.items()}


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {name for name, _ in flat(after) - flat(before)}


def test_each_data_set_has_a_preset_for_each_budget() -> None:
    assert len(list(names("keel"))) == 5 * len(BUDGETS)


@pytest.mark.parametrize("data", family("keel")["data"])
def test_a_preset_is_that_of_its_data_with_the_recipe_on_top(data: str) -> None:
    base = load_config(family("keel")["data"][data]["base"]).model_dump(mode="json")
    config = load_config(f"keel/{data}").model_dump(mode="json")
    of_recipe = {f"{table}.{name}" for table, value in recipe(1).items() for name in value}
    assert changed(base, config) - {"name."} <= of_recipe
    assert changed(base, config) >= {"name.", "learner.average"}
    assert config["name"] == "keel"


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_function_and_a_config_make_the_same_learner(budget: float) -> None:
    small = {"net": {"name": "convnet", "width": 4}, "memory": {"capacity": 20}, "threads": 1}
    data = ek.DataSet.of(images(batches=1)[0][0], [0, 1, 2, 3, 0, 1], images(batches=1)[0][0], [0, 1, 2, 3, 0, 1])
    stream = [(data.train.x, list(map(str, data.train.labels)))] * 3
    names = sorted(set(stream[0][1]))
    by_function = ek.keel(ek.convnet(classes=4, width=4), memory=20, budget=budget, classes=names)
    by_config = ek.learner_for(data, {**recipe(budget), **small})
    assert [by_function.learn(*batch) for batch in stream] == [by_config.learn(*batch) for batch in stream]
    assert by_function.average == by_config.average == recipe(budget)["learner"]["average"]


def test_the_function_takes_what_depends_on_the_stream_and_the_machine() -> None:
    learner = ek.keel(ek.mlp(features=4, classes=2), replay=10, precision="bf16")
    assert (learner.replay, learner.precision) == (10, "bf16")


@pytest.mark.parametrize("budget", [0, 0.9, -1, True, "1", float("nan")])
def test_a_budget_below_the_cheapest_recipe_is_refused(budget: Any) -> None:
    with pytest.raises(SettingsError, match=r"must be a number of at least 1: .* recipes for 1"):
        ek.keel(ek.mlp(features=4, classes=2), budget=budget)


@pytest.mark.parametrize("budget", [np.int64(3), np.float32(3)])
def test_a_budget_may_be_a_number_of_numpy(budget: Any) -> None:
    assert recipe(budget) == recipe(3)


def test_a_preset_that_does_not_exist_is_refused_by_its_whole_name() -> None:
    with pytest.raises(SettingsError, match=r"no preset 'keel/digits-7x'.*: data: digits, .*; variant: 3x") as refused:
        load_config("keel/digits-7x")
    assert "setting" not in str(refused.value)  # the keel has none


def test_a_budget_between_two_recipes_is_not_exceeded() -> None:
    for cheaper, dearer in zip(BUDGETS, [*BUDGETS[1:], 1000.0], strict=True):
        assert recipe((cheaper + dearer) / 2) == recipe(cheaper)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_how_it_was_chosen_and_compared_can_be_repeated(path: Path) -> None:
    if path.stem.startswith("choose-"):
        search = Search(path)
        scenario = load_config(search.file.base).scenario
        assert scenario is not None
        assert search.file.tasks < scenario["tasks"]  # never on a whole stream
    else:
        assert {config.name for config in read_grid(path)} & {"keel", "keel 3x", "keel 8x"}


def test_a_preset_is_described_by_all_parts_of_its_name() -> None:
    assert about("keel", "keel/digits-3x") == "Handwritten digits, 5 tasks of 2 classes; three updates for each batch"
    prior = about("paper", "paper/cifar10-derpp-cba-prior")  # which extends cba, and says more
    assert prior == "Split CIFAR-10, 5 tasks of 2 classes; DER++; with CBA, which is also given the running class prior"
