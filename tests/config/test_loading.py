"""Configs: all errors in one message, with the nearest name; presets; overrides."""

from pathlib import Path
from typing import Any

import pytest

import evenkeel as ek
from evenkeel.config.composition import names
from evenkeel.config.loading import differences, presets
from evenkeel.errors import SettingsError
from evenkeel.experiment.config import load_config
from evenkeel.experiment.setup import new_learner, planned
from tests.helpers.experiments import DATA


def errors(given: Any, *overrides: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_config(given, overrides)
    first, *rest = str(caught.value).splitlines()
    assert first == ("The config has an error:" if len(rest) == 1 else f"The config has {len(rest)} errors:")
    return [line.removeprefix("- ") for line in rest]


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown table": ({"metod": {"name": "er"}}, "metod is unknown; choose from seed, .* Did you mean 'method'?"),
    "unknown setting": ({"memory": {"capacty": 3}}, "memory.capacty is unknown; .* Did you mean 'capacity'?"),
    "unknown part": ({"method": {"name": "derp"}}, "method.name = 'derp' is not one of .* Did you mean 'derpp'?"),
    "setting of a part": ({"adaptor": {"name": "cba", "evry": 2}}, "no setting 'evry'; .* Did you mean 'every'?"),
    "type": ({"adaptor": {"name": "cba", "lr": "fast"}}, "adaptor.lr = 'fast': input should be a valid number"),
    "value of a part": ({"adaptor": {"name": "cba", "start": "x"}}, "adaptor.cba: start='x' is not one of"),
    "what was a method": ({"method": {"name": "rar", "repeats": 3}}, r"method.name = 'rar': .*learner.repeats"),
    "missing": ({"scenario": {"name": "blurry", "tasks": 2}}, "scenario.percent is missing."),
    "range": ({"seed": -1}, "seed = -1: input should be greater than or equal to 0"),
    "choice": ({"learner": {"head": "fixd"}}, "learner.head = 'fixd': input should be 'fixed' or 'growing'"),
    "number or word": ({"learner": {"average": "often"}}, "learner.average = 'often': .* a valid number.*, or 'auto'"),
    "memory": ({"memory": {"capacity": "lots"}}, "memory: memory='lots' is neither"),
    "momentum": ({"optimizer": {"name": "Adam", "momentum": 0.9}}, "Adam has no momentum"),
    "infinite": ({"optimizer": {"lr": float("inf")}}, "optimizer.lr = inf: input should be a finite number"),
    "infinite setting of a part": ({"adaptor": {"name": "cba", "lr": float("nan")}}, "adaptor.lr = nan: .* finite"),
    "no name": ({"adaptor": {"every": 1}}, "adaptor must be a table with a name, one of cba"),
    "type of a required setting": ({"scenario": {"name": "disjoint", "tasks": "two"}}, "scenario.tasks = 'two': input"),
    "one of several types": ({"memory": {"capacity": 0}}, "memory.capacity = 0: input should be greater than 0"),
    "inner table": (
        {"learner": {"normalize": {"foo": 1, "mean": [1], "std": [1]}}},
        "learner.normalize.foo is unknown",
    ),
    "not a table": ({"net": "resnet18"}, "net must be a table with a name, one of resnet18, convnet, mlp"),
    "order of a domain": (
        {"scenario": {"name": "rotated", "order": "given"}},
        "scenario.rotated has no setting 'order'",
    ),
}


@pytest.mark.parametrize(("given", "sentence"), ERRORS.values(), ids=ERRORS)
def test_an_error_is_a_sentence(given: dict[str, Any], sentence: str) -> None:
    import re

    (error,) = errors(given)
    assert re.search(sentence, error), error


def test_all_errors_are_reported_at_once() -> None:
    together: dict[str, Any] = {}
    for name in ("unknown table", "unknown setting", "unknown part", "range", "choice", "missing"):
        together |= ERRORS[name][0]
    together["adaptor"] = {"name": "cba", "lr": "fast", "start": "x", "evry": 2}
    assert len(errors(together)) == 6 + 3


def test_a_setting_that_may_be_none_is_written_as_it_is_listed() -> None:
    data = load_config({}, ["data={name='folder', path='x', size='none'}"]).data
    assert data == load_config({}, ["data={name='folder', path='x'}"]).data
    assert data["size"] is None


def test_a_setting_that_is_none_is_not_taken_for_its_default() -> None:
    given = {"data": {"name": "huggingface", "path": "x", "test": None}}
    config = load_config(given)
    assert config.data["test"] is None
    dumped = config.model_dump(mode="json")
    assert dumped["data"] == {"name": "huggingface", "path": "x", "test": "none"}
    assert load_config(dumped) == config
    default = load_config({"data": {"name": "huggingface", "path": "x"}}).model_dump(mode="json")
    assert [(where, was, repr(is_)) for where, was, is_ in differences(dumped, default)] == [
        ("data.test", "none", "not given")
    ]
    as_before = {**dumped, **given}  # records had null
    assert differences(as_before, dumped) == []
    assert [where for where, *_ in differences(as_before, default)] == ["data.test"]


def test_every_preset_makes_a_learner() -> None:
    """As far as the data here allows: each preset's learner is built for small images."""
    every = list(names("paper"))
    assert len(every) > 800
    assert "paper/cifar10-er-cba" in every
    refused: list[str] = []
    for name in [*presets(), *every[::23], *[name for name in every if name.endswith("swapped")][:3]]:
        try:
            config = load_config(name, ["scenario.tasks=2"])
        except SettingsError as error:
            refused.append(str(error))
            continue
        if isinstance(config.scenario and config.scenario.get("order"), list):  # of classes that the data here lacks
            config = load_config(config, ["scenario.order=given"])
        if config.net["name"] != "mlp":
            small = load_config(config, ["batches.size=6", "net.width=4"])
            plain = small.model_copy(update={"learner": small.learner.model_copy(update={"normalize": None})})
            new_learner(planned(plain, DATA, None, lambda *_: None))
    assert all("cannot be combined" in each or "new and old samples forwarded separately" in each for each in refused)


@pytest.mark.parametrize("name", ["er", "derpp", "clser", "rar"])
@pytest.mark.parametrize("data", ["cifar10", "cifar100", "tiny-imagenet", "cifar10-blurry", "cifar10-offline"])
def test_presets_with_and_without_cba_differ_in_nothing_else(data: str, name: str) -> None:
    plain, corrected = (load_config(f"paper/{data}-{name}{end}") for end in ("", "-cba"))
    assert corrected.adaptor is not None
    assert corrected.adaptor["lr"] == (1e-3 if data.startswith("cifar10") and data != "cifar100" else 1e-2)
    same = {"name", "adaptor"} | (
        {"learner"} if "offline" in data else set()
    )  # there CBA comes with other batch norm statistics, see the preset
    assert plain.model_dump(exclude=same) == corrected.model_dump(exclude=same)
    assert plain.batches.size == plain.learner.replay == 32
    assert plain.batches.drop_last == ("offline" not in data)


def test_combinations_that_nobody_wrote() -> None:
    config = load_config("paper/cifar100-blurry-er")
    assert config.scenario is not None
    assert (config.data["name"], config.scenario["name"], config.scenario["tasks"]) == ("cifar100", "blurry", 10)
    assert load_config("paper/tiny-imagenet-offline-bic").method["name"] == "bic"
    assert load_config("paper/cifar100-derpp-cba-1024").name == "DER++ + CBA, 1024 units"
    for adaptor in ("cba", "prior"):
        with pytest.raises(SettingsError, match="cannot be combined"):
            load_config(f"paper/cifar10-icarl-{adaptor}")


def test_a_prior_by_its_parts() -> None:
    config = load_config({"extends": ["digits", "with/prior-learned"]}, ["adaptor.rate=0.1"])
    assert config.name == "ER + Prior, learned"
    assert config.adaptor == {"name": "prior", "tau": "learned", "rate": 0.1, "every": 5, "lr": 0.01}
    assert config.model_dump()["adaptor"] == {"name": "prior", "tau": "learned", "rate": 0.1}  # no later defaults
    fixed = load_config({"adaptor": {"name": "prior", "tau": 1}})
    assert (fixed.name, fixed.adaptor and fixed.adaptor["tau"]) == ("ER + Prior", 1.0)
    assert load_config("paper/cifar100-er-cba-prior").name == "ER + CBA with prior"
    with pytest.raises(SettingsError, match="tau='fitted' must be a number of at least 0, or 'learned'"):
        load_config({"adaptor": {"name": "prior", "tau": "fitted"}})


def test_extends_takes_a_list() -> None:
    pair = {"extends": ["paper/cifar100-derpp", "with/cba"]}
    assert load_config(pair) == load_config("paper/cifar100-derpp-cba")  # with the rate that only this pair has
    assert load_config({"extends": ["paper/cifar10", "with/blurry-derpp"]}) == load_config("paper/cifar10-blurry-derpp")
    config = load_config({"extends": ["digits", "with/derpp-cba-64"], "seed": 3})
    assert (config.data["name"], config.method["name"], config.seed) == ("digits", "derpp", 3)
    assert config.adaptor is not None
    assert config.adaptor["hidden"] == [64]
    assert config.learner.replay == 10  # of digits: parts alone change only what they name
    keel = load_config({"extends": ["keel/digits", "with/derpp-cba"]})  # a family without such parts
    assert (keel.method["name"], keel.adaptor and keel.adaptor["name"]) == ("derpp", "cba")
    for wrong in ([], ["digits", 5], 5):
        with pytest.raises(SettingsError, match="is not the name of a config, or a list of such names"):
            load_config({"extends": wrong})
    with pytest.raises(SettingsError, match=r"no preset 'with/cbb'.*setting: blurry.* Did you mean 'with/cba'"):
        load_config({"extends": ["digits", "with/cbb"]})


def test_overrides_change_settings() -> None:
    config = load_config({"method": {"name": "derpp", "alpha": 0.7}}, ["method.beta=1", "seed=4", "name=my run"])
    assert (config.method["alpha"], config.method["beta"], config.seed, config.name) == (0.7, 1.0, 4, "my run")
    assert load_config({"method": {"name": "derpp", "alpha": 0.7}}, ["method.name=er"]).method == {
        "name": "er",
        "joint_forward": False,
    }
    assert load_config({"adaptor": {"name": "cba"}}, ["adaptor.name=none"]).adaptor is None
    assert load_config({}, ["adaptor.name=cba", "adaptor.hidden=[64, 64]"]).adaptor["hidden"] == [64, 64]  # type: ignore[index]
    late = load_config({}, ["method.alpha=0.3", "method.name=derpp"])  # within one command the order does not matter
    assert late.method["alpha"] == 0.3
    assert load_config({}, ["name=5"]).name == "5"
    assert load_config({}, ["name=2024-01-01"]).name == "2024-01-01"
    assert load_config({}, ["evaluation.sample=none"]).evaluation.sample is None
    assert load_config(late, ["seed=3"]).seed == 3
    assert load_config(late) is late
    assert load_config({"extends": "digits"}).memory.capacity == 20
    for wrong in ("seed", "=3", ""):
        with pytest.raises(SettingsError, match=r"is not of the form part.setting=value"):
            load_config({}, [wrong])


def test_a_run_is_named_after_its_method_and_adaptor() -> None:
    assert load_config({}).name == "ER"
    assert load_config({"adaptor": {"name": "cba"}}).name == "ER + CBA"
    assert load_config({"method": {"name": "derpp"}, "learner": {"repeats": 2}}).name == "RAR(DER++)"


def test_files_extend_files_and_presets(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('extends = "digits"\n[method]\nname = "derpp"\nalpha = 0.9\n')
    (tmp_path / "mine.toml").write_text('extends = "base"\nseed = 7\n[method]\nbeta = 0.1\n')
    config = load_config(tmp_path / "mine.toml")
    assert config.seed == 7
    assert (config.method["alpha"], config.method["beta"]) == (0.9, 0.1)
    assert config.memory.capacity == 20
    (tmp_path / "self.toml").write_text('extends = "other"\n')
    (tmp_path / "other.toml").write_text('extends = "self.toml"\n')
    (tmp_path / "number.toml").write_text("extends = 5\n")
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbfseed = 4\n")
    assert load_config(tmp_path / "marked.toml").seed == 4
    (tmp_path / "broken.toml").write_text("[method\n")
    (tmp_path / "lost.toml").write_text('extends = "digit"\n')
    for name, sentence in {
        "self": "extends itself",
        "number": "extends = 5 is not the name of a config",
        "broken": "broken.toml' is not a TOML file",
        "lost": "no preset of that name.* Did you mean 'digits'",
    }.items():
        with pytest.raises(SettingsError, match=sentence):
            load_config(tmp_path / f"{name}.toml")
    with pytest.raises(
        SettingsError, match=r"no preset 'paper/cifar10-er-cb'.* variant: cba, .* Did you mean 'paper/cifar10-er-cba'"
    ):
        load_config("paper/cifar10-er-cb")


def test_a_config_is_complete_and_reads_back() -> None:
    config = load_config("digits-cba", ["method.name=derpp", "learner.repeats=3"])
    dumped = config.model_dump(mode="json")
    assert dumped["adaptor"]["hidden"] == [256]
    assert dumped["method"]["beta"] == 0.5
    assert dumped["learner"]["repeats"] == 3
    assert load_config(dumped) == config
    assert isinstance(config, ek.Config)


def test_a_config_that_is_varied_keeps_its_name() -> None:
    for name, same, other in (("keel", "keel", "keel"), ("mine", "mine", "mine"), ("", "ER", "DER++")):
        given = load_config({"name": name} if name else {})
        assert load_config(given, ["seed=1"]).name == same
        assert load_config(given, ["method.name=derpp"]).name == other
